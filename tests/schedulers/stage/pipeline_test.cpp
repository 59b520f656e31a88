// All stages together: requests end once, tokens are contiguous, nothing is left, seeds repeat.

#include "tests/support/pipeline_harness.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

PipelineOptions cluster(std::vector<RankSpec> ranks) {
  PipelineOptions options;
  options.ranks = std::move(ranks);
  return options;
}

TEST(Pipeline, OneRequestThroughPrefillHandoffAndDecode) {
  Pipeline pipeline(cluster({{.role = Role::prefill}, {.role = Role::decode}}));
  pipeline.start();
  pipeline.arrive_at(10, RequestId{1}, 20, 5);
  ASSERT_TRUE(pipeline.run(60 * kSecond, 30 * kSecond)) << pipeline.problem();
  const Outcome& outcome = pipeline.outcomes().at(RequestId{1});
  EXPECT_EQ(outcome.tokens.size(), 5U);
  EXPECT_EQ(outcome.endings[0].code, ErrorCode::ok);
  EXPECT_EQ(outcome.endings[0].end, EndReason::length);
  EXPECT_EQ(pipeline.decode().counts().transfers, 1);
  EXPECT_EQ(pipeline.leftovers(), "");
}

TEST(Pipeline, OneRequestInPlace) {
  Pipeline pipeline(cluster({{.role = Role::both}}));
  pipeline.start();
  pipeline.arrive_at(10, RequestId{1}, 20, 5);
  ASSERT_TRUE(pipeline.run(60 * kSecond, 30 * kSecond)) << pipeline.problem();
  EXPECT_EQ(pipeline.outcomes().at(RequestId{1}).tokens.size(), 5U);
  EXPECT_EQ(pipeline.decode().counts().in_place, 1);
  EXPECT_EQ(pipeline.decode().counts().transfers, 0);
  EXPECT_EQ(pipeline.leftovers(), "");
}

} // namespace
} // namespace troupe::sched::testing
