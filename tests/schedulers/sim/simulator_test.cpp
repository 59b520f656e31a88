// All stages together: requests end once, tokens are contiguous, nothing is left, and every planted
// bug is found.

#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/sim/scenario.hpp"
#include "schedulers/sim/simulator.hpp"
#include "tests/support/sim_builder.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace troupe::sim::testing {
namespace {

using sched::EndReason;
using sched::Role;

TEST(Simulator, OneRequestThroughPrefillHandoffAndDecode) {
  SimBuilder builder({{.role = Role::prefill}, {.role = Role::decode}});
  builder.request(10, 20, 5);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(60 * kSecond, 30 * kSecond)) << simulator.problem();
  const Outcome& outcome = simulator.outcomes().at(RequestId{1});
  EXPECT_EQ(outcome.tokens.size(), 5U);
  EXPECT_EQ(outcome.code(), ErrorCode::ok);
  EXPECT_EQ(outcome.endings[0].end, EndReason::length);
  EXPECT_EQ(simulator.decode().counts().transfers, 1);
  EXPECT_EQ(simulator.leftovers(), "");
}

// What is still held when the time is over reads as a list, however many ranks there are.
TEST(Simulator, WhatHasNotEndedIsListedAndTheListIsBounded) {
  Plan plan;
  SimBuilder builder(std::vector<RankSpec>(20, {.role = Role::both}));
  for (int i = 0; i < 20; ++i)
    builder.request(10, 40, 40);
  plan.options = builder.options;
  plan.requests = builder.requests;
  plan.limit_us = 20'000;
  const std::string problem = run_plan(plan).problem;
  EXPECT_EQ(problem.rfind("20 requests have not ended after 20000 us (limit_us): the driver has 20 "
                          "live requests; ",
                          0),
            0U)
      << problem;
  EXPECT_NE(problem.find("; and "), std::string::npos) << problem;
  EXPECT_TRUE(problem.ends_with(" more")) << problem;
  EXPECT_LE(problem.size(), 500U);
  for (const char* slip : {"; ;", ";;", ": ;"})
    EXPECT_EQ(problem.find(slip), std::string::npos) << problem;
  // Nobody has arrived yet, so that nobody holds anything.
  plan.limit_us = 1;
  EXPECT_EQ(run_plan(plan).problem, "20 requests have not ended after 1 us (limit_us)");
}

TEST(Simulator, OneRequestInPlace) {
  SimBuilder builder({{.role = Role::both}});
  builder.request(10, 20, 5);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(60 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_EQ(simulator.outcomes().at(RequestId{1}).tokens.size(), 5U);
  EXPECT_EQ(simulator.decode().counts().in_place, 1);
  EXPECT_EQ(simulator.decode().counts().transfers, 0);
  EXPECT_EQ(simulator.leftovers(), "");
}

TEST(Simulator, AKilledDecodeRankCostsAnAttemptAndNoToken) {
  SimBuilder builder({{.role = Role::prefill}, {.role = Role::decode}});
  for (int i = 0; i < 4; ++i)
    builder.request(10, 8, 20);
  builder.fault(FaultKind::kill, 1, 60'000, 5'000);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_GT(simulator.driver().counts().retried, 0);
  for (const Outcome& outcome : simulator.outcomes().all())
    EXPECT_EQ(outcome.tokens.size(), 20U);
  EXPECT_EQ(simulator.leftovers(), "");
}

// A rank that hangs without a word: named by the watchdog, then given up.
TEST(Simulator, AStuckRankIsNamedAndGivenUp) {
  SimBuilder builder({{.role = Role::prefill}, {.role = Role::decode}});
  builder.options.driver.attempts_max = 2;
  builder.options.driver.no_progress_us = 100 * kSecond;
  builder.request(10, 8, 40);
  builder.fault(FaultKind::stick, 1, 60'000);
  Simulator simulator(builder.options, builder.requests);
  EXPECT_TRUE(simulator.run(3600 * kSecond, 0)) << simulator.problem();
  const Outcome& outcome = simulator.outcomes().at(RequestId{1});
  EXPECT_EQ(outcome.code(), ErrorCode::no_progress);
  EXPECT_NE(outcome.endings.at(0).detail.find("handoff from prefill-0"), std::string::npos)
      << outcome.endings.at(0).detail;
  ASSERT_GT(outcome.stuck, 0);
  EXPECT_EQ(outcome.waits_for.substr(0, 18), "decode on decode-1");
}

// The rank that was given up goes on later: nothing it says changes anything.
TEST(Simulator, AGivenUpRankThatWakesChangesNothing) {
  SimBuilder builder({{.role = Role::prefill}, {.role = Role::decode}});
  for (int i = 0; i < 6; ++i)
    builder.request(10, 8, 30);
  builder.fault(FaultKind::pause, 1, 60'000, 300'000).noticed_us = 20'000;
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_GT(simulator.driver().counts().retried, 0);
  EXPECT_GT(simulator.driver().counts().stale_dropped, 0);
  for (const Outcome& outcome : simulator.outcomes().all())
    EXPECT_EQ(outcome.tokens.size(), 30U);
  EXPECT_EQ(simulator.leftovers(), "");
}

TEST(Simulator, ManyRequestsAtOnce) {
  SimBuilder builder({{Role::prefill, 4096, 64, 512},
                      {Role::prefill, 4096, 64, 512},
                      {Role::decode, 4096, 64, 512},
                      {Role::decode, 4096, 64, 512}});
  builder.options.walk_every = 1000;
  constexpr std::int64_t kRequests = 300;
  for (std::int64_t i = 1; i <= kRequests; ++i)
    builder.request(10, 20 + i % 50, 10);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(3600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_EQ(simulator.driver().counts().finished, kRequests);
  EXPECT_EQ(simulator.leftovers(), "");
  std::printf("%lld events, %.1f messages a request\n", static_cast<long long>(simulator.events()),
              static_cast<double>(simulator.messages()) / kRequests);
}

/// A run with a planted bug: what was found, with leftovers and requests that did not end.
std::string found_with(Canary canary, std::int64_t after) {
  SimBuilder builder({{.role = Role::prefill}, {.role = Role::decode}, {.role = Role::both}});
  builder.options.canary = canary;
  builder.options.canary_after = after;
  if (canary == Canary::wide_queue) builder.options.prefill.queue_max = 2;
  for (int i = 0; i < 24; ++i)
    builder.request(10 + 500 * (i / 12), 9 + i % 7, 12);
  Simulator simulator(builder.options, builder.requests);
  const bool ended = simulator.run(60 * kSecond, 30 * kSecond);
  std::string found = simulator.problem();
  if (!simulator.all_ended() && !ended) found += " not ended";
  if (!simulator.leftovers().empty()) found += " left: " + simulator.leftovers();
  return found;
}

TEST(Canary, WithoutOneNothingIsFound) { EXPECT_EQ(found_with(Canary::none, 1), ""); }

TEST(Canary, EveryPlantedBugIsFound) {
  struct Case {
    Canary canary;
    const char* found; ///< What the invariant that finds it says.
  };
  const Case cases[] = {
      {Canary::wrong_token, "is another"},
      {Canary::lost_token, "was next"},
      {Canary::doubled_token, "was next"},
      {Canary::second_ending, "ended twice"},
      {Canary::lost_ending, "not ended"},
      {Canary::early_ending, "causality"},
      {Canary::no_reason, "no reason"},
      {Canary::wrong_epoch, "another policy epoch"},
      {Canary::leak, "conservation"},
      {Canary::kept_log, "token logs"},
      {Canary::foreign_block, "accounts"},
      {Canary::skipped_chunk, "does not continue its sequence"},
      {Canary::wide_queue, "queue_max"},
  };
  for (const Case& one : cases) {
    for (const std::int64_t after : {1, 2, 5}) {
      const std::string found = found_with(one.canary, after);
      EXPECT_NE(found.find(one.found), std::string::npos)
          << "canary " << static_cast<int>(one.canary) << " at place " << after << ": " << found;
    }
  }
}

/// A router that never finds room: all ranks stay idle.
struct NeverRoutes : sched::PrefillRouter {
  sched::Decision<sched::Placement> route(const sched::PlacementQuery&,
                                          std::span<const sched::RankView>,
                                          const sched::PolicyContext&) noexcept override {
    return {std::nullopt, sched::Reason::no_room, 0};
  }
};

TEST(Canary, APolicyThatLeavesRanksIdleIsFound) {
  SimBuilder builder({{.role = Role::both}});
  builder.options.more_policies = [](sched::PolicyRegistry& registry) {
    registry.add("prefill_router", "never",
                 [](const OptionTable&) -> Result<std::unique_ptr<sched::Policy>> {
                   return std::unique_ptr<sched::Policy>(std::make_unique<NeverRoutes>());
                 });
  };
  builder.options.policies.kinds["prefill_router"].policy = "never";
  builder.options.idle_us_max = 5 * kSecond;
  builder.request(10, 5, 5);
  Simulator simulator(builder.options, builder.requests);
  EXPECT_FALSE(simulator.run(600 * kSecond, 0));
  EXPECT_NE(simulator.problem().find("work conservation"), std::string::npos)
      << simulator.problem();
}

} // namespace
} // namespace troupe::sim::testing
