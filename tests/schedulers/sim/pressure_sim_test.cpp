// KV pools far too small, answers longer than expected: everything ends once with the tokens of the
// undisturbed run, preemptions stay bounded, and nothing deadlocks, with and without faults. Every
// seed runs twice.
//
// Seeds are fixed. A failure prints the command that repeats it; TROUPE_SEEDS=A..B runs others.

#include "schedulers/sim/scenario.hpp"
#include "tests/support/exhaustive.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/sim_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

namespace troupe::sim::testing {
namespace {

using sched::Reservation;
using sched::Role;

constexpr std::int64_t kRequests = 40;
constexpr std::int64_t kRanksMax = 4;

/// 8 blocks of 4 hold the longest prompt with its first tokens, but not every answer.
Scenario tight_cluster(std::uint64_t seed) {
  Scenario scenario;
  scenario.name = "tight_cluster";
  const auto group = [&](Role role, Range count) {
    scenario.ranks.push_back({"", role, count, {8, 14}, {2, 8}, {4, 24}, 0});
  };
  switch (seed % 4) {
  case 0:
    group(Role::both, {1, 2});
    break;
  case 1:
    group(Role::prefill, {1, 2});
    group(Role::decode, {1, 2});
    break;
  case 2:
    group(Role::prefill, 1);
    group(Role::both, 1);
    group(Role::decode, 1);
    break;
  default:
    group(Role::prefill, 2);
    group(Role::both, 1);
  }
  scenario.cost_model.step_ps = 500'000'000;
  scenario.cost_model.token_ps = 50'000'000;
  scenario.workload.requests = kRequests;
  scenario.workload.prompt = {1, 20};
  scenario.workload.new_tokens = {16, 31};
  scenario.workload.ends_itself_permille = 750;
  scenario.limits.reserve = Reservation::expected;
  scenario.limits.expected_permille = {200, 900};
  scenario.limits.preemptions_max = {0, 4};
  scenario.limits.no_progress_us = 60'000'000;
  scenario.drawn_policies = {{"queue", {"fcfs", "sjf", "weighted_fair"}},
                             {"step", {"decode_first", "prefill_first"}},
                             {"overlap", {"serial", "one_ahead"}}};
  return scenario;
}

struct Seen {
  std::int64_t requests = 0, ok = 0, outgrown = 0, preempted = 0, most = 0, retried = 0;
};

Seen run_seeds(std::uint64_t first, std::uint64_t last, const char* filter,
               Scenario (*make)(std::uint64_t)) {
  const test::Seeds seeds = test::seeds_or(first, last);
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seeds.first),
              static_cast<unsigned long long>(seeds.last));
  Seen seen;
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    const SeedResult result = run_seed(make(seed), seed);
    EXPECT_TRUE(result.ok()) << result.problem << "\nrepeat: TROUPE_SEEDS=" << seed
                             << " build/tests/pressure_sim_test --gtest_filter=" << filter;
    const Report& report = result.report;
    EXPECT_LE(report.preempted, report.requests * (4 + kRanksMax));
    seen.requests += report.requests;
    seen.ok += report.ended(ErrorCode::ok);
    seen.outgrown += report.ended(ErrorCode::never_fits);
    seen.preempted += report.preempted;
    seen.retried += report.retried;
    seen.most = std::max(seen.most, report.preempted * 1000 / report.requests);
    if (::testing::Test::HasFailure()) break;
  }
  std::printf("%lld requests: ok %lld, outgrew every rank %lld; preemptions %lld, at most %.3f a "
              "request in one run; attempts retried %lld\n",
              static_cast<long long>(seen.requests), static_cast<long long>(seen.ok),
              static_cast<long long>(seen.outgrown), static_cast<long long>(seen.preempted),
              static_cast<double>(seen.most) / 1000.0, static_cast<long long>(seen.retried));
  return seen;
}

// Cases S3, S4, S11, S12: parked prefills, few slots, nearly full pools, mixed sizes.
TEST(PressureSim, S3S4S11S12EverythingEndsAndPreemptionsStayFew) {
  const Seen seen = run_seeds(1, 200, "*S3S4S11S12*", [](std::uint64_t seed) {
    Scenario scenario = tight_cluster(seed);
    const Range any = {0, kRequests};
    scenario.expect.endings = {{ErrorCode::ok, any}, {ErrorCode::never_fits, any}};
    return scenario;
  });
  EXPECT_EQ(seen.retried, 0) << "a preemption is no lost attempt";
  if (test::seeds_or(0, 0).are_given) return;
  EXPECT_GT(seen.preempted, 0);
  EXPECT_GT(seen.outgrown, 0);
  EXPECT_LT(seen.preempted, seen.requests) << "fewer than one a request over all";
}

TEST(PressureSim, UnderFaultsToo) {
  const Seen seen = run_seeds(1001, 1200, "*UnderFaults*", [](std::uint64_t seed) {
    Scenario scenario = tight_cluster(seed);
    scenario.workload.abandon_permille = 100;
    scenario.workload.stop_permille = 100;
    scenario.limits.attempts_max = 4;
    scenario.limits.lease_us = {50'000, 2'000'000};
    scenario.network.loss_permille = {-40, 40}; // Below zero is none: half of the seeds.
    scenario.engine.row_failure_permille = {-5, 5};
    scenario.engine.export_failure_permille = {-50, 50};
    scenario.engine.import_failure_permille = {-100, 100};
    const Range within = {10'000, 300'000};
    scenario.faults = {{FaultKind::kill, "", {0, 2}, within, {0, 100'000}, {0, 20'000}, 0},
                       {FaultKind::pause, "", {0, 1}, within, {1'000, 200'000}, -1, 0},
                       {FaultKind::full, "", {0, 1}, within, {1'000, 100'000}, -1, 0}};
    return scenario;
  });
  if (test::seeds_or(0, 0).are_given) return;
  EXPECT_GT(seen.preempted, 0);
  EXPECT_GT(seen.retried, 0);
}

// Case S8 end to end: alone on the rank, the answer outgrows it. A typed error that says what to
// do, never a crash; who follows is served.
TEST(PressureSim, S8TheOnlyRequestThatOutgrowsThePoolEndsWithATypedError) {
  SimBuilder builder(
      {{.role = Role::prefill, .kv_blocks = 16}, {.role = Role::decode, .kv_blocks = 8}});
  builder.options.driver.reservation = Reservation::expected;
  builder.request(10, 12, 1000);
  builder.request(20, 12, 1000).answer_tokens = 5;
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  const Outcome& outgrown = simulator.outcomes().at(RequestId{1});
  EXPECT_EQ(outgrown.code(), ErrorCode::never_fits);
  EXPECT_NE(outgrown.endings[0].detail.find("raise kv.memory"), std::string::npos)
      << outgrown.endings[0].detail;
  EXPECT_EQ(outgrown.tokens.size(), 8U * 4U - 12U + 1U) << "every position was used";
  EXPECT_EQ(simulator.outcomes().at(RequestId{2}).code(), ErrorCode::ok);
  EXPECT_EQ(simulator.leftovers(), "");
}

// An answer that outgrows a small rank goes on where there is more.
TEST(PressureSim, S8AnAnswerThatOutgrowsARankGoesToALargerOne) {
  SimBuilder builder({{.role = Role::both, .kv_blocks = 8}, {.role = Role::both, .kv_blocks = 64}});
  builder.options.driver.reservation = Reservation::expected;
  builder.request(10, 12, 100);
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_EQ(simulator.outcomes().at(RequestId{1}).code(), ErrorCode::ok);
  EXPECT_EQ(simulator.outcomes().at(RequestId{1}).tokens.size(), 100U);
  EXPECT_EQ(simulator.driver().counts().preempted, 1);
  EXPECT_EQ(simulator.leftovers(), "");
}

// Case S6 end to end: requests that compete end in the order in which they arrived, and those that
// came behind them later.
TEST(PressureSim, S6APreemptedRequestIsServedBeforeThoseThatCameAfterIt) {
  SimBuilder builder({{.role = Role::both, .kv_blocks = 12, .slots = 4}});
  builder.options.driver.reservation = Reservation::expected;
  builder.options.driver.expected_permille = 500;
  // Eight short ones teach it to expect little; then three long ones, and short ones behind them.
  for (std::int64_t id = 1; id <= 30; ++id) {
    RequestPlan& plan = builder.request(id <= 8 ? 10 : 2 * kSecond + id, 7, 31);
    const bool is_long = id >= 9 && id <= 11;
    if (!is_long) plan.answer_tokens = 3;
  }
  Simulator simulator(builder.options, builder.requests);
  ASSERT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_GT(simulator.driver().counts().preempted, 0);
  const auto end_us = [&](std::uint64_t id) {
    return simulator.outcomes().at(RequestId{id}).endings[0].end_us;
  };
  EXPECT_LT(end_us(9), end_us(10));
  EXPECT_LT(end_us(10), end_us(11));
  for (std::uint64_t id = 14; id <= 30; ++id)
    EXPECT_GT(end_us(id), end_us(9)) << "request " << id;
}

/// Three requests that compete, after eight short ones that make expectations small.
struct SmallCase {
  bool split = false; ///< A prefill and a decode rank, else one that does both.
  std::int64_t kv_blocks = 0, preemptions_max = 0;
  std::array<std::int64_t, 3> prompts{}, answers{};

  std::string text() const {
    std::string out = (split ? "split, blocks " : "both, blocks ") + std::to_string(kv_blocks) +
                      ", preemptions_max " + std::to_string(preemptions_max) + ", requests";
    for (std::size_t i = 0; i < prompts.size(); ++i)
      out += " " + std::to_string(prompts[i]) + "+" + std::to_string(answers[i]);
    return out;
  }
};

/// What went wrong, or empty.
std::string run_case(const SmallCase& one, std::int64_t& preempted) {
  std::vector<RankSpec> ranks = {{.role = Role::both, .kv_blocks = one.kv_blocks, .slots = 4}};
  if (one.split) {
    ranks = {{.role = Role::prefill, .kv_blocks = one.kv_blocks, .slots = 2},
             {.role = Role::decode, .kv_blocks = one.kv_blocks, .slots = 4}};
  }
  SimBuilder builder(ranks);
  builder.options.driver.reservation = Reservation::expected;
  builder.options.driver.preemptions_max = one.preemptions_max;
  for (int i = 0; i < 8; ++i)
    builder.request(10, 3, 31).answer_tokens = 2;
  for (std::size_t i = 0; i < one.prompts.size(); ++i) {
    const auto at_us = 2 * kSecond + static_cast<std::int64_t>(i);
    builder.request(at_us, one.prompts[i], 31).answer_tokens = one.answers[i];
  }
  Simulator simulator(builder.options, builder.requests);
  const bool ended = simulator.run(600 * kSecond, 30 * kSecond);
  preempted += simulator.driver().counts().preempted;
  if (!ended) return "not all ended: " + simulator.problem() + simulator.leftovers();
  for (const Outcome& outcome : simulator.outcomes().all()) {
    const std::int64_t positions = outcome.plan.prompt + outcome.plan.answer_length() - 1;
    const bool fits = positions <= one.kv_blocks * 4;
    const ErrorCode expected = fits ? ErrorCode::ok : ErrorCode::never_fits;
    if (outcome.code() != expected) return "an ending with " + outcome.endings[0].detail;
  }
  return simulator.leftovers();
}

// Every combination of pool, roles, prompts and answers of three requests: all that fit a rank at
// all end with their whole answer, whatever the others take.
TEST(PressureSim, AllSmallCasesEnd) {
  troupe::testing::Choices choices;
  std::int64_t runs = 0;
  std::int64_t preempted = 0;
  constexpr std::array<std::int64_t, 2> kPrompts = {3, 8};
  constexpr std::array<std::int64_t, 3> kAnswers = {3, 9, 20};
  do {
    SmallCase one;
    one.split = choices.below(2) == 1;
    one.kv_blocks = 4 + choices.below(4);
    one.preemptions_max = choices.below(2);
    for (std::size_t i = 0; i < one.prompts.size(); ++i) {
      one.prompts[i] = kPrompts[choices.below(2)];
      one.answers[i] = kAnswers[choices.below(3)];
    }
    ++runs;
    ASSERT_EQ(run_case(one, preempted), "") << one.text();
  } while (choices.next());
  std::printf("%lld cases, %lld preemptions\n", static_cast<long long>(runs),
              static_cast<long long>(preempted));
  EXPECT_EQ(runs, 2 * 4 * 2 * 6 * 6 * 6);
  EXPECT_GT(preempted, 0);
}

} // namespace
} // namespace troupe::sim::testing
