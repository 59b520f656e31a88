// All stages together: requests end once, tokens are contiguous, nothing is left, seeds repeat.

#include "tests/support/pipeline_harness.hpp"

#include <gtest/gtest.h>

#include <cstdio>

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

// The checks can fail: an engine that lies once in a while is found out.
TEST(Pipeline, Canary) {
  PipelineOptions options = cluster({{.role = Role::both}});
  options.canary_permille = 200;
  Pipeline pipeline(options);
  pipeline.start();
  for (std::uint64_t id = 1; id <= 20; ++id)
    pipeline.arrive_at(10, RequestId{id}, 5, 8);
  EXPECT_FALSE(pipeline.run(600 * kSecond, 30 * kSecond));
  EXPECT_NE(pipeline.problem().find("a wrong token"), std::string::npos);
}

// KV nearly full, sizes mixed: everything is answered, nothing deadlocks.
TEST(Pipeline, MixedSizesOnTightRanksAllEnd) {
  Pipeline pipeline(cluster({{.role = Role::prefill, .kv_blocks = 10, .slots = 2},
                             {.role = Role::decode, .kv_blocks = 12, .slots = 2},
                             {.role = Role::both, .kv_blocks = 12, .slots = 2}}));
  pipeline.start();
  for (std::uint64_t id = 1; id <= 60; ++id) {
    pipeline.arrive_at(10, RequestId{id}, 1 + static_cast<std::int64_t>(id * 7 % 36), 12);
  }
  ASSERT_TRUE(pipeline.run(3600 * kSecond, 30 * kSecond))
      << pipeline.problem() << pipeline.leftovers();
  for (const auto& [id, outcome] : pipeline.outcomes()) {
    EXPECT_EQ(outcome.endings[0].code, ErrorCode::ok) << raw(id) << outcome.endings[0].detail;
    EXPECT_EQ(outcome.tokens.size(), 12U);
  }
  EXPECT_EQ(pipeline.leftovers(), "");
}

TEST(Pipeline, AKilledDecodeRankCostsAnAttemptAndNoToken) {
  Pipeline pipeline(cluster({{.role = Role::prefill}, {.role = Role::decode}}));
  pipeline.start();
  for (std::uint64_t id = 1; id <= 4; ++id)
    pipeline.arrive_at(10, RequestId{id}, 8, 20);
  pipeline.kill_at(60'000, RankId{1}, 5'000);
  ASSERT_TRUE(pipeline.run(600 * kSecond, 30 * kSecond)) << pipeline.problem();
  EXPECT_GT(pipeline.driver().counts().retried, 0);
  for (const auto& [id, outcome] : pipeline.outcomes())
    EXPECT_EQ(outcome.tokens.size(), 20U);
  EXPECT_EQ(pipeline.leftovers(), "");
}

// A rank that hangs without a word: named by the watchdog, then given up.
TEST(Pipeline, AHungRankIsNamedAndGivenUp) {
  PipelineOptions options = cluster({{.role = Role::prefill}, {.role = Role::decode}});
  options.driver.attempts_max = 2;
  options.driver.no_progress_us = 100 * kSecond;
  Pipeline pipeline(options);
  pipeline.start();
  pipeline.arrive_at(10, RequestId{1}, 8, 40);
  pipeline.hang_at(60'000, RankId{1});
  EXPECT_TRUE(pipeline.run(3600 * kSecond, 0)) << pipeline.problem();
  const Outcome& outcome = pipeline.outcomes().at(RequestId{1});
  EXPECT_EQ(outcome.endings.at(0).code, ErrorCode::no_progress);
  EXPECT_NE(outcome.endings.at(0).detail.find("handoff from prefill-0"), std::string::npos)
      << outcome.endings.at(0).detail;
  ASSERT_FALSE(outcome.stuck.empty());
  EXPECT_EQ(outcome.stuck[0].waits_for.substr(0, 18), "decode on decode-1");
}

TEST(Pipeline, ManyRequestsAtOnce) {
  PipelineOptions options = cluster({{.role = Role::prefill, .kv_blocks = 4096, .slots = 64},
                                     {.role = Role::prefill, .kv_blocks = 4096, .slots = 64},
                                     {.role = Role::decode, .kv_blocks = 4096, .slots = 64},
                                     {.role = Role::decode, .kv_blocks = 4096, .slots = 64}});
  for (RankSpec& rank : options.ranks)
    rank.step_tokens_max = 512;
  options.check_every = 1000;
  Pipeline pipeline(options);
  pipeline.start();
  constexpr std::uint64_t kRequests = 300;
  for (std::uint64_t id = 1; id <= kRequests; ++id) {
    pipeline.arrive_at(10, RequestId{id}, 20 + static_cast<std::int64_t>(id % 50), 10);
  }
  ASSERT_TRUE(pipeline.run(3600 * kSecond, 30 * kSecond)) << pipeline.problem();
  EXPECT_EQ(pipeline.driver().counts().finished, static_cast<std::int64_t>(kRequests));
  EXPECT_EQ(pipeline.leftovers(), "");
  std::printf("%lld events, %.1f messages a request\n", static_cast<long long>(pipeline.events()),
              static_cast<double>(pipeline.messages()) / kRequests);
}

} // namespace
} // namespace troupe::sched::testing
