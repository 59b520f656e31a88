#include "schedulers/sim/scenario.hpp"

#include "schedulers/core/rng.hpp"

#include <algorithm>
#include <limits>

namespace troupe::sim {

namespace {

/// Draws of a plan; another stream than those of its run.
Rng plan_draws(std::uint64_t seed) { return Rng(draw(seed, 99, Purpose::seed)); }

std::vector<sched::RankOptions> make_ranks(const Scenario& scenario, std::int64_t lease_us,
                                           std::uint64_t seed, Rng& rng) {
  std::vector<sched::RankOptions> ranks;
  for (const RankGroupSpec& group : scenario.ranks) {
    const std::int64_t count = draw_from(group.count, rng);
    for (std::int64_t i = 0; i < count; ++i) {
      sched::RankOptions rank;
      rank.rank.rank = RankId{static_cast<std::uint32_t>(ranks.size())};
      rank.role = group.role;
      rank.name = (group.name.empty() ? sched::role_name(group.role) : group.name) + "-" +
                  std::to_string(i);
      rank.kv_blocks = draw_from(group.kv_blocks, rng);
      rank.block_tokens = scenario.block_tokens;
      rank.slots = draw_from(group.slots, rng);
      rank.step_tokens_max = draw_from(group.step_tokens_max, rng);
      rank.context_max = draw_from(group.context_max, rng);
      rank.lease_us = lease_us;
      rank.cost_model = scenario.cost_model;
      rank.seed = seed;
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

void set_limits(const LimitsSpec& limits, SimOptions& options, Rng& rng) {
  options.driver.requests_max = draw_from(limits.requests_max, rng);
  options.prefill.queue_max = draw_from(limits.queue_max, rng);
  const auto attempts = static_cast<std::uint32_t>(draw_from(limits.attempts_max, rng));
  options.driver.attempts_max = options.prefill.attempts_max = options.decode.attempts_max =
      attempts;
  options.driver.request_timeout_us = draw_from(limits.request_timeout_us, rng);
  options.driver.no_progress_us = draw_from(limits.no_progress_us, rng);
  options.driver.stuck_after_us = draw_from(limits.stuck_after_us, rng);
  options.driver.reservation = limits.reserve;
  options.driver.expected_permille = draw_from(limits.expected_permille, rng);
  options.driver.preemptions_max = draw_from(limits.preemptions_max, rng);
  options.decode.lease_us = options.prefill.lease_us = draw_from(limits.lease_us, rng);
  options.decode.handoff_timeout_us = draw_from(limits.handoff_timeout_us, rng);
  options.prefill.assign_again_us = draw_from(limits.assign_again_us, rng);
  options.prefill.retry_us = options.decode.retry_us = draw_from(limits.retry_us, rng);
}

void set_engine(const Scenario& scenario, SimOptions& options, Rng& rng) {
  const EngineSpec& engine = scenario.engine;
  if (engine.host_us.high > 0) {
    options.engine.host_us = std::max<std::int64_t>(0, draw_from(engine.host_us, rng));
  }
  options.engine.row_failure_permille = draw_from(engine.row_failure_permille, rng);
  options.engine.step_failure_permille = draw_from(engine.step_failure_permille, rng);
  options.engine.export_failure_permille = draw_from(engine.export_failure_permille, rng);
  options.engine.import_failure_permille = draw_from(engine.import_failure_permille, rng);
  options.engine.damage_permille = draw_from(engine.damage_permille, rng);
  options.engine.copy_us_min = engine.copy_us.low;
  options.engine.copy_us_max = engine.copy_us.high;
  options.network.delay_us_min = draw_from(scenario.network.delay_us_min, rng);
  options.network.delay_us_max =
      std::max(options.network.delay_us_min, draw_from(scenario.network.delay_us_max, rng));
  options.network.loss_permille = draw_from(scenario.network.loss_permille, rng);
  options.bad_decision_permille = draw_from(scenario.bad_decision_permille, rng);
}

/// A waiting request may meet an idle cluster while leases and repeated questions run out.
std::int64_t idle_us_max(const SimOptions& options) {
  return 2 * options.decode.lease_us +
         options.prefill.assign_again_us * options.prefill.attempts_max + options.prefill.retry_us +
         20 * options.network.delay_us_max + 2'000'000;
}

bool has_prefix(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& prefix) {
  return prefix.size() <= tokens.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
}

/// What differs from the run that nothing disturbed, or empty.
std::string compare_answers(const std::vector<Outcome>& got, const std::vector<Outcome>& want) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!want[i].ended() || want[i].code() != ErrorCode::ok) continue;
    const bool complete = got[i].ended() && got[i].code() == ErrorCode::ok &&
                          got[i].endings.front().end != sched::EndReason::none;
    const bool same =
        complete ? got[i].tokens == want[i].tokens : has_prefix(want[i].tokens, got[i].tokens);
    if (!same) {
      return "request " + std::to_string(raw(got[i].plan.request)) +
             " has other tokens than in the undisturbed run";
    }
  }
  return {};
}

std::string check_endings(const Report& report, const Expect& expect) {
  if (expect.endings.empty()) return {};
  for (const auto& [code, count] : report.endings) {
    const auto named = std::find_if(expect.endings.begin(), expect.endings.end(),
                                    [code = code](const auto& one) { return one.first == code; });
    if (named == expect.endings.end()) {
      return std::to_string(count) + " requests ended with " + std::string(error_name(code));
    }
  }
  for (const auto& [code, range] : expect.endings) {
    const std::int64_t count = report.ended(code);
    if (count < range.low || count > range.high) {
      return std::to_string(count) + " requests ended with " + std::string(error_name(code)) +
             ", expected " + std::to_string(range.low) + " to " + std::to_string(range.high);
    }
  }
  return {};
}

std::string check_expect(const Report& report, const Expect& expect) {
  std::string problem = check_endings(report, expect);
  const auto at_most = [&](const char* what, std::int64_t value, std::int64_t most) {
    if (!problem.empty() || most <= 0 || value <= most) return;
    problem = std::string(what) + " is " + std::to_string(value) + ", expected at most " +
              std::to_string(most);
  };
  at_most("the longest ttft_us", report.ttft_us.highest, expect.ttft_us_max);
  at_most("the longest e2e_us", report.e2e_us.highest, expect.e2e_us_max);
  at_most("span_us", report.span_us, expect.span_us_max);
  if (problem.empty() && report.retried < expect.retried_min) {
    problem = std::to_string(report.retried) + " attempts were retried, expected at least " +
              std::to_string(expect.retried_min);
  }
  if (problem.empty() && report.retried > expect.retried_max) {
    problem = std::to_string(report.retried) + " attempts were retried, expected at most " +
              std::to_string(expect.retried_max);
  }
  return problem;
}

} // namespace

Plan plan_of(const Scenario& scenario, std::uint64_t seed) {
  Rng rng = plan_draws(seed);
  Plan plan;
  SimOptions& options = plan.options;
  options.seed = seed;
  options.policies = scenario.policies;
  for (const auto& [kind, names] : scenario.drawn_policies) {
    if (!names.empty()) options.policies.kinds[kind].policy = names[rng.below(names.size())];
  }
  set_limits(scenario.limits, options, rng);
  set_engine(scenario, options, rng);
  options.ranks = make_ranks(scenario, options.decode.lease_us, seed, rng);
  options.driver.cost_model = options.prefill.cost_model = options.decode.cost_model =
      scenario.cost_model;
  options.driver.seed = options.prefill.seed = options.decode.seed = seed;
  plan.requests = make_workload(scenario.workload, rng);
  options.faults = draw_faults(scenario.faults, options.ranks, rng);
  options.idle_us_max = idle_us_max(options);
  options.walk_every = scenario.walk_every;
  options.keep_records = false;
  options.targets = scenario.targets;
  plan.limit_us = scenario.limit_us;
  plan.settle_us = scenario.settle_us;
  return plan;
}

Plan undisturbed(const Plan& plan) {
  Plan calm = plan;
  SimOptions& options = calm.options;
  options.faults.clear();
  options.bad_decision_permille = 0;
  options.network.loss_permille = 0;
  options.driver.request_timeout_us = 0;
  EngineOptions engine;
  engine.tokens = options.engine.tokens;
  options.engine = engine;
  for (RequestPlan& request : calm.requests) {
    request.abandon_at_us = -1;
    request.stop_at_us = -1;
  }
  return calm;
}

SeedResult run_plan(const Plan& plan, std::vector<Outcome>* answers) {
  Simulator simulator(plan.options, plan.requests);
  const bool ended = simulator.run(plan.limit_us, plan.settle_us);
  SeedResult result;
  result.report = simulator.report();
  result.report.final_draw = simulator.final_draw();
  result.problem = simulator.problem();
  const std::string left = simulator.leftovers();
  if (result.ok() && !ended) {
    result.problem = std::to_string(result.report.unfinished) + " requests have not ended after " +
                     std::to_string(plan.limit_us) + " us (limit_us)" +
                     (left.empty() ? "" : ": " + left);
  }
  if (result.ok() && !left.empty()) result.problem = "still held after all ended: " + left;
  if (answers != nullptr) *answers = simulator.outcomes().all();
  return result;
}

SeedResult run_seed(const Scenario& scenario, std::uint64_t seed) {
  const Plan plan = plan_of(scenario, seed);
  std::vector<Outcome> got;
  std::vector<Outcome> want;
  const SeedResult calm = run_plan(undisturbed(plan), &want);
  SeedResult result = run_plan(plan, &got);
  const SeedResult again = run_plan(plan);
  if (!result.ok()) return result;
  if (!calm.ok()) {
    result.problem = "without faults: " + calm.problem;
  } else if (result.report.trace_hash != again.report.trace_hash ||
             result.report.final_draw != again.report.final_draw ||
             report_text(result.report) != report_text(again.report)) {
    result.problem = "the same seed gave another run";
  } else {
    result.problem = compare_answers(got, want);
  }
  if (result.ok()) result.problem = check_expect(result.report, scenario.expect);
  return result;
}

} // namespace troupe::sim
