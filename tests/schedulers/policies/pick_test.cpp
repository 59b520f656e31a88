// Picking asks the filter only about ranks that would be chosen; it must come to what asking it
// about every rank comes to.

#include "schedulers/core/rng.hpp"
#include "schedulers/policies/pick.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

/// By id and score, what the rule says: every rank is asked.
Decision<Placement> asked_all(std::span<const RankView> ranks, const std::vector<bool>& passes,
                              const std::vector<Score>& scores) {
  Placement placement;
  std::size_t passed = 0;
  std::size_t equal = 0;
  Score best;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    placement.scores.push_back(scores[i].first);
    if (!passes[i]) continue;
    ++passed;
    equal = passed > 1 && scores[i] == best ? equal + 1 : equal;
    if (passed > 1 && scores[i] >= best) continue;
    best = scores[i];
    equal = 1;
    placement.rank = ranks[i].rank.rank;
  }
  if (passed == 0) return {std::nullopt, Reason::no_room};
  const Reason reason = passed == 1 ? Reason::only_choice
                        : equal > 1 ? Reason::tie_lowest_id
                                    : Reason::lowest_score;
  return {std::move(placement), reason};
}

TEST(PickLowest, IsAsAskingTheFilterAboutEveryRank) {
  std::printf("seed 131\n");
  Rng rng(131);
  std::array<int, 256> reasons{};
  for (int round = 0; round < 20'000; ++round) {
    std::vector<RankView> ranks(rng.below(12));
    std::vector<bool> passes;
    std::vector<Score> scores;
    const std::uint64_t share = 1 + rng.below(8);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].rank.rank = RankId{static_cast<std::uint32_t>(2 * i)};
      passes.push_back(rng.below(8) < share);
      scores.push_back(
          {static_cast<std::int64_t>(rng.below(4)) - 2, static_cast<std::int64_t>(rng.below(2))});
    }
    const auto place = [&](const RankView& rank) {
      return static_cast<std::size_t>(&rank - ranks.data());
    };
    const auto picked = pick_lowest(
        ranks, [&](const RankView& rank) { return bool{passes[place(rank)]}; },
        [&](const RankView& rank) { return scores[place(rank)]; });
    const auto expected = asked_all(ranks, passes, scores);
    ASSERT_EQ(picked.reason, expected.reason) << round;
    ASSERT_EQ(picked.value.has_value(), expected.value.has_value()) << round;
    ++reasons[static_cast<std::size_t>(picked.reason)];
    if (!expected.value) continue;
    ASSERT_EQ(picked.value->rank, expected.value->rank) << round;
    ASSERT_EQ(picked.value->scores, expected.value->scores) << round;
  }
  for (const Reason reason :
       {Reason::no_room, Reason::only_choice, Reason::tie_lowest_id, Reason::lowest_score}) {
    EXPECT_GT(reasons[static_cast<std::size_t>(reason)], 500) << static_cast<int>(reason);
  }
}

} // namespace
} // namespace troupe::sched
