// The words every room shares: ids, results, counter-based randomness.

#include "schedulers/core/ids.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>

#include <set>

namespace troupe {
namespace {

TEST(Rng, DrawIsAFunctionOfSeedPositionAndPurpose) {
  EXPECT_EQ(draw(1, 2, Purpose::sampling), draw(1, 2, Purpose::sampling));
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::uint64_t position = 0; position < 8; ++position) {
      seen.insert(draw(seed, position, Purpose::sampling));
      seen.insert(draw(seed, position, Purpose::policy));
    }
  }
  EXPECT_EQ(seen.size(), 128U);
}

TEST(Rng, FixedValuesSoThatStreamsSurviveRefactoring) {
  EXPECT_EQ(mix64(0), 0xE220A8397B1DCDAFULL);
}

TEST(Rng, BelowStaysInRangeAndReachesAll) {
  Rng rng(7);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto x = rng.below(10);
    ASSERT_LT(x, 10U);
    seen.insert(x);
  }
  EXPECT_EQ(seen.size(), 10U);
}

TEST(Ids, NextAndRaw) {
  EXPECT_EQ(raw(next(RequestId{4})), 5U);
  EXPECT_LT((RequestRef{RequestId{1}, Attempt{2}}), (RequestRef{RequestId{2}, Attempt{1}}));
}

TEST(Result, HoldsValueOrError) {
  Result<int> good = 3;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(*good, 3);
  Result<int> bad{ErrorCode::no_room, "full"};
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.error().message, "full");
  EXPECT_EQ(error_name(bad.error().code), "no_room");
}

TEST(ResultDeathTest, ValueOfAFailureIsABug) {
  Result<int> bad{ErrorCode::no_room, "full"};
  EXPECT_DEATH(static_cast<void>(bad.value()), "bug");
}

} // namespace
} // namespace troupe
