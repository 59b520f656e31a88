// A simulated run under load with all that a story can tell of: little room, preemptions, a rank
// that dies, lost messages, two swaps, a canary, and invalid answers on odd seeds.

#pragma once

#include "schedulers/sim/scenario.hpp"

#include <cstdint>
#include <string>

namespace troupe::test {

inline sim::Scenario loaded_scenario() {
  sim::Scenario scenario;
  scenario.name = "loaded";
  scenario.ranks = {{"", sched::Role::prefill, 2, 24, {2, 4}, 16, 0},
                    {"", sched::Role::decode, 2, {20, 28}, {3, 6}, 16, 0},
                    {"", sched::Role::both, 1, 28, 4, 16, 0}};
  scenario.policies.kinds["decode_balancer"].policy = "count_and_kv";
  scenario.policies.kinds["decode_balancer"].options.set("headroom", {0.3, {}});
  scenario.cost_model.step_ps = 500'000'000;
  scenario.cost_model.token_ps = 50'000'000;
  scenario.workload.requests = 160;
  scenario.workload.window_us = {0, 400'000};
  scenario.workload.prompt = {1, 40};
  scenario.workload.new_tokens = {8, 40};
  scenario.workload.ends_itself_permille = 500;
  scenario.workload.abandon_permille = 40;
  scenario.workload.stop_permille = 40;
  scenario.limits.reserve = sched::Reservation::expected;
  scenario.limits.expected_permille = 400;
  scenario.limits.attempts_max = 4;
  scenario.limits.lease_us = 200'000;
  scenario.network.loss_permille = 5;
  scenario.network.delay_us_max = 300;
  scenario.engine.copy_us = {50, 400};
  scenario.engine.import_failure_permille = 20;
  const sim::Range within = {100'000, 600'000};
  scenario.faults = {
      {sim::FaultKind::kill, "decode-1", 1, within, {20'000, 100'000}, {0, 5'000}, 0},
      {sim::FaultKind::kill, "prefill-0", 1, within, {20'000, 100'000}, {0, 5'000}, 0},
      {sim::FaultKind::full, "decode-0", 1, within, {5'000, 50'000}, -1, 0}};
  return scenario;
}

/// One seed of it.
inline sim::Plan loaded_plan(std::uint64_t seed) {
  sim::Scenario scenario = loaded_scenario();
  scenario.bad_decision_permille = seed % 2 == 0 ? 0 : 30;
  sim::Plan plan = sim::plan_of(scenario, seed);
  plan.options.keep_records = true;
  sim::SimSwap fair;
  fair.at_us = 250'000;
  fair.reason = "an experiment";
  fair.set.name = "fair";
  fair.set.kinds["queue"].policy = "weighted_fair";
  fair.set.kinds["prefill_router"].policy = "two_choices";
  fair.set.kinds["handoff"].policy = "paced";
  fair.set.canary["decode_balancer"].policy = "least_count";
  fair.set.canary_permille = 400;
  sim::SimSwap held;
  held.at_us = 700'000;
  held.set.name = "held";
  held.set.kinds["prefill_router"].policy = "staggered";
  held.set.kinds["prefill_chunker"].policy = "fixed";
  plan.options.swaps = {fair, held};
  return plan;
}

} // namespace troupe::test
