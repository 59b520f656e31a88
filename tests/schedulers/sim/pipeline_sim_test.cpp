// Random clusters, loads, policies and faults through all stages; every seed runs twice and once
// without faults.
//
// Seeds are fixed. A failure prints the command that repeats it; TROUPE_SEEDS=A..B runs others.

#include "schedulers/sim/scenario.hpp"
#include "tests/support/seeds.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

namespace troupe::sim {
namespace {

using sched::Role;

/// Small ranks in one of four shapes, by seed; some requests need more than one has.
Scenario small_cluster(std::uint64_t seed) {
  Scenario scenario;
  scenario.name = "small_cluster";
  const auto group = [&](Role role, Range count) {
    scenario.ranks.push_back({"", role, count, {12, 40}, {1, 6}, {1, 24}, 0});
  };
  switch (seed % 4) {
  case 0:
    group(Role::both, {1, 3});
    break;
  case 1:
    group(Role::prefill, {1, 3});
    group(Role::decode, {1, 3});
    break;
  case 2:
    group(Role::both, 1);
    group(Role::prefill, 1);
    group(Role::decode, 1);
    break;
  default:
    group(Role::prefill, 2);
    group(Role::both, 1);
  }
  scenario.cost_model.step_ps = 500'000'000;
  scenario.cost_model.token_ps = 50'000'000;
  scenario.workload.requests = {1, 30};
  scenario.workload.ends_itself_permille = 333;
  scenario.workload.abandon_permille = 125;
  scenario.workload.stop_permille = 125;
  scenario.limits.attempts_max = 4;
  scenario.drawn_policies = {
      {"admission", {"always", "by_cost"}},
      {"queue", {"fcfs", "sjf"}},
      {"prefill_router", {"least_work", "round_robin"}},
      {"prefill_chunker", {"fixed", "time_budget"}},
      {"handoff", {"whole", "paced"}},
      {"decode_balancer", {"count_and_kv", "least_count", "least_kv", "lexicographic_iqr"}},
      {"step", {"decode_first", "prefill_first"}},
      {"overlap", {"serial", "one_ahead"}},
  };
  return scenario;
}

void add_trouble(Scenario& scenario) {
  scenario.limits.lease_us = {20'000, 2'000'000};
  scenario.limits.handoff_timeout_us = {50'000, 1'000'000};
  scenario.limits.assign_again_us = {20'000, 1'000'000};
  scenario.network.loss_permille = {-60, 60}; // Below zero is none: half of the seeds.
  scenario.engine.row_failure_permille = {-10, 10};
  scenario.engine.step_failure_permille = {-10, 10};
  scenario.engine.export_failure_permille = {-60, 60};
  scenario.engine.import_failure_permille = {-200, 200};
  scenario.engine.damage_permille = {-200, 200};
  scenario.bad_decision_permille = {-100, 100};
  const Range within = {10'000, 300'000};
  scenario.faults = {
      {FaultKind::kill, "", {0, 3}, within, {0, 100'000}, {0, 20'000}, 0},
      {FaultKind::pause, "", {0, 1}, within, {1'000, 200'000}, -1, 0},
      {FaultKind::pause, "", {0, 1}, within, {50'000, 400'000}, {5'000, 50'000}, 0},
      {FaultKind::slow, "", {0, 1}, within, {1'000, 300'000}, -1, {1'000, 20'000}},
      {FaultKind::lag, "", {0, 1}, within, {1'000, 300'000}, -1, {100, 50'000}},
      {FaultKind::cut, "", {0, 1}, within, {1'000, 100'000}, -1, 0},
      {FaultKind::full, "", {0, 1}, within, {1'000, 100'000}, -1, 0},
  };
}

/// What all seeds together went through: a run that never meets a fault tests nothing.
struct Seen {
  std::int64_t retried = 0, handoffs = 0, in_place = 0, handoffs_retried = 0, refused = 0;
  std::int64_t stale = 0, invalid = 0, faults = 0, lost = 0, events = 0;
  std::int64_t ok = 0, never_fits = 0, cancelled = 0, exhausted = 0;

  void add(const Report& report) {
    retried += report.retried;
    handoffs += report.handoffs;
    in_place += report.in_place;
    handoffs_retried += report.handoffs_retried;
    refused += report.refused;
    stale += report.stale_dropped;
    invalid += report.invalid_decisions;
    faults += report.faults;
    lost += report.messages_lost;
    events += report.events;
    ok += report.ended(ErrorCode::ok);
    never_fits += report.ended(ErrorCode::never_fits);
    cancelled += report.ended(ErrorCode::cancelled);
    exhausted += report.ended(ErrorCode::attempts_exhausted);
  }
};

Seen run_seeds(const test::Seeds& seeds, bool trouble) {
  Seen seen;
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(seeds.first),
              static_cast<unsigned long long>(seeds.last));
  for (std::uint64_t seed = seeds.first; seed <= seeds.last; ++seed) {
    Scenario scenario = small_cluster(seed);
    if (trouble) add_trouble(scenario);
    const SeedResult result = run_seed(scenario, seed);
    seen.add(result.report);
    EXPECT_TRUE(result.ok()) << result.problem << "\nrepeat: TROUPE_SEEDS=" << seed
                             << " build/tests/pipeline_sim_test --gtest_filter="
                             << (trouble ? "*Losses*" : "*FaultFree*");
    if (!trouble) {
      EXPECT_EQ(result.report.retried, 0) << "seed " << seed;
      for (const auto& [code, count] : result.report.endings) {
        EXPECT_TRUE(code == ErrorCode::ok || code == ErrorCode::never_fits ||
                    code == ErrorCode::cancelled)
            << "seed " << seed << ": " << error_name(code);
      }
    }
    if (::testing::Test::HasFailure()) break;
  }
  std::printf("%lld events; ok %lld, never fits %lld, cancelled %lld, exhausted %lld; retried "
              "%lld, handoffs %lld, in place %lld, handoffs retried %lld, refused %lld, stale "
              "%lld, invalid decisions %lld, faults %lld, lost %lld\n",
              static_cast<long long>(seen.events), static_cast<long long>(seen.ok),
              static_cast<long long>(seen.never_fits), static_cast<long long>(seen.cancelled),
              static_cast<long long>(seen.exhausted), static_cast<long long>(seen.retried),
              static_cast<long long>(seen.handoffs), static_cast<long long>(seen.in_place),
              static_cast<long long>(seen.handoffs_retried), static_cast<long long>(seen.refused),
              static_cast<long long>(seen.stale), static_cast<long long>(seen.invalid),
              static_cast<long long>(seen.faults), static_cast<long long>(seen.lost));
  return seen;
}

TEST(PipelineSim, FaultFreeSeeds) {
  const test::Seeds seeds = test::seeds_or(1, 300);
  const Seen seen = run_seeds(seeds, false);
  if (seeds.are_given) return;
  EXPECT_GT(seen.ok, 0);
  EXPECT_GT(seen.never_fits, 0);
  EXPECT_GT(seen.cancelled, 0);
  EXPECT_GT(seen.handoffs, 0);
  EXPECT_GT(seen.in_place, 0);
}

TEST(PipelineSim, SeedsWithLossesFailuresAndKills) {
  const test::Seeds seeds = test::seeds_or(1001, 1500);
  const Seen seen = run_seeds(seeds, true);
  if (seeds.are_given) return;
  for (const std::int64_t count :
       {seen.ok, seen.retried, seen.handoffs_retried, seen.refused, seen.stale, seen.exhausted,
        seen.invalid, seen.faults, seen.lost})
    EXPECT_GT(count, 0);
}

} // namespace
} // namespace troupe::sim
