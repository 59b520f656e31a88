#include "actors/step_runner.hpp"

#include "schedulers/core/check.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace troupe::actors {

namespace {

/// A result of fewer rows as one of all: lost ones have failed and hold what they held.
engine::StepResult with_lost_rows(engine::StepResult few, const engine::StepPlan& plan,
                                  const std::vector<bool>& lost) {
  engine::StepResult all = std::move(few);
  const auto spread = [&](auto& column, const auto& of_lost) {
    auto from = std::exchange(column, {});
    std::size_t next = 0;
    for (std::size_t i = 0; i < lost.size(); ++i)
      column.push_back(lost[i] ? of_lost(i) : from[next++]);
  };
  spread(all.status, [](std::size_t) { return ErrorCode::engine_failed; });
  spread(all.length, [&](std::size_t i) { return plan.first_position[i]; });
  spread(all.sampled, [](std::size_t) { return std::int32_t{-1}; });
  spread(all.logprob_bits, [](std::size_t) { return std::uint32_t{0}; });
  spread(all.top_of, [](std::size_t) { return engine::Span{}; });
  return all;
}

} // namespace

engine::StepPlan without_rows(const engine::StepPlan& plan, const std::vector<bool>& lost) {
  engine::StepPlan out;
  out.step = plan.step;
  out.expert_counts = plan.expert_counts;
  out.expert_epoch = plan.expert_epoch;
  out.suppressed_ids = plan.suppressed_ids;
  const auto copy = [](const auto& from, engine::Span span, auto& to) {
    const engine::Span at{static_cast<std::int32_t>(to.size()), span.count};
    to.insert(to.end(), from.begin() + span.begin, from.begin() + span.begin + span.count);
    return at;
  };
  for (std::size_t i = 0; i < plan.sequences(); ++i) {
    if (lost[i]) continue;
    out.state_slot.push_back(plan.state_slot[i]);
    out.first_position.push_back(plan.first_position[i]);
    out.tokens_of.push_back(copy(plan.tokens, plan.tokens_of[i], out.tokens));
    out.blocks_of.push_back(copy(plan.block_table, plan.blocks_of[i], out.block_table));
    out.logits.push_back(plan.logits[i]);
    out.sampling_of.push_back(-1);
    if (plan.sampling_of[i] < 0) continue;
    out.sampling_of.back() = static_cast<std::int32_t>(out.sampling.size());
    out.sampling.push_back(plan.sampling[static_cast<std::size_t>(plan.sampling_of[i])]);
  }
  return out;
}

StepRunner::StepRunner(engine::Engine& engine)
    : engine_(engine), outcomes_(static_cast<std::size_t>(engine.kv().slots)) {}

/// Fills open tokens in; true for the rows that have nothing to go on from.
std::vector<bool> StepRunner::settle(PlannedStep& step) {
  engine::StepPlan& plan = step.plan;
  std::vector<bool> lost(plan.sequences());
  for (const std::int32_t row : step.follows) {
    const auto i = static_cast<std::size_t>(row);
    const Outcome& before = at(plan.state_slot[i]);
    TROUPE_CHECK(before.step == last_step_, "a row goes on from the step that was run last");
    lost[i] = !before.ok;
    const engine::Span tokens = plan.tokens_of[i];
    std::int32_t& last = plan.tokens[static_cast<std::size_t>(tokens.begin + tokens.count - 1)];
    if (lost[i] || last != kOpenToken) continue;
    TROUPE_CHECK(before.token >= 0, "an open token is one that the step before draws");
    last = before.token;
  }
  return lost;
}

Result<engine::StepResult> StepRunner::run(PlannedStep& step) {
  const std::vector<bool> lost = settle(step);
  last_step_ = step.plan.step;
  for (const StateSlotId slot : step.plan.state_slot)
    at(slot) = {last_step_, false, -1}; // Also for whoever looks after an exception.
  const bool whole = std::find(lost.begin(), lost.end(), true) == lost.end();
  auto result = whole ? engine_.step(step.plan) : run_rest(step.plan, lost);
  remember(step.plan, result);
  return result;
}

Result<engine::StepResult> StepRunner::run_rest(const engine::StepPlan& plan,
                                                const std::vector<bool>& lost) {
  auto few = engine_.step(without_rows(plan, lost));
  if (!few.ok()) return few.error();
  return with_lost_rows(std::move(*few), plan, lost);
}

void StepRunner::remember(const engine::StepPlan& plan, const Result<engine::StepResult>& result) {
  if (!result.ok()) return;
  for (std::size_t i = 0; i < plan.sequences(); ++i) {
    if (result->status[i] != ErrorCode::ok) continue;
    at(plan.state_slot[i]) = {plan.step, true, result->sampled[i]};
  }
}

} // namespace troupe::actors
