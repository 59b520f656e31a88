// A scenario: cluster, workload, policies, limits and faults as ranges; a seed makes one run of it.

#pragma once

#include "schedulers/sim/simulator.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sim {

/// A group of like ranks; they are called NAME-0, NAME-1, ...
struct RankGroupSpec {
  std::string name;
  sched::Role role = sched::Role::both;
  Range count = 1;
  Range kv_blocks = 64;
  Range slots = 8;
  Range step_tokens_max = 16;
  Range context_max = 0; ///< 0 = no limit.
};

struct LimitsSpec {
  Range requests_max = 1024;
  Range queue_max = 1024;
  Range attempts_max = 3;
  Range request_timeout_us = 0;
  Range no_progress_us = 20'000'000;
  Range stuck_after_us = 30'000'000;
  Range lease_us = 2'000'000;
  Range handoff_timeout_us = 1'000'000;
  Range assign_again_us = 1'000'000;
  Range retry_us = 10'000;
  sched::Reservation reserve = sched::Reservation::worst;
  Range expected_permille = 900; ///< With `expected`: quantile of finished answers.
  Range preemptions_max = 8;
};

struct NetworkSpec {
  Range delay_us_min = 1;
  Range delay_us_max = {1, 3000};
  Range loss_permille = 0;
};

/// Rates of a thousand; see EngineOptions.
struct EngineSpec {
  Range host_us = 0; ///< Below zero is none.
  Range row_failure_permille = 0;
  Range step_failure_permille = 0;
  Range export_failure_permille = 0;
  Range import_failure_permille = 0;
  Range damage_permille = 0;
  Range copy_us = {1, 50};
};

/// What each seed must come to, besides the invariants.
struct Expect {
  /// Requests that end with each code; a code that is not named may not occur. Empty: any.
  std::vector<std::pair<ErrorCode, Range>> endings;
  std::int64_t ttft_us_max = 0; ///< Of every request that ended ok; 0 = none.
  std::int64_t e2e_us_max = 0;
  std::int64_t span_us_max = 0; ///< First arrival to last ending.
  std::int64_t retried_min = 0;
  std::int64_t retried_max = 1'000'000; ///< Attempts that were lost.
};

struct Scenario {
  std::string name;
  std::uint64_t seed_first = 1;
  std::uint64_t seed_last = 1;
  std::int64_t limit_us = 900'000'000; ///< All requests have ended before.
  std::int64_t settle_us = 60'000'000; ///< After the last ending nothing is held any more.
  std::int64_t walk_every = 1;
  std::int64_t block_tokens = 4;
  sched::CostModel cost_model;
  std::vector<RankGroupSpec> ranks;
  WorkloadSpec workload;
  LimitsSpec limits;
  NetworkSpec network;
  EngineSpec engine;
  std::vector<FaultSpec> faults;
  Range bad_decision_permille = 0;
  sched::PolicySet policies;
  /// Kinds whose policy is drawn per seed; names of policies without options.
  std::map<std::string, std::vector<std::string>> drawn_policies;
  Targets targets;
  Expect expect;
};

/// One run of a scenario.
struct Plan {
  SimOptions options;
  std::vector<RequestPlan> requests;
  std::int64_t limit_us = 0;
  std::int64_t settle_us = 0;
};

/// What a seed makes of a scenario. Pure. @pre its policies exist
Plan plan_of(const Scenario& scenario, std::uint64_t seed);

/// The same run without faults, losses and clients that leave.
Plan undisturbed(const Plan& plan);

/// How a seed went.
struct SeedResult {
  Report report;
  std::string problem; ///< What was wrong, or empty.
  bool ok() const noexcept { return problem.empty(); }
};

/// Runs a seed twice and compares the two, and compares its answers with those of the undisturbed
/// run. Pure.
SeedResult run_seed(const Scenario& scenario, std::uint64_t seed);

/// Runs a plan once to its end. `answers` gets the requests when it is not null.
SeedResult run_plan(const Plan& plan, std::vector<Outcome>* answers = nullptr);

} // namespace troupe::sim
