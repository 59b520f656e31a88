// StepDecision of the stage + token log → StepPlan of the engine, and StepResult → StepDone.

#pragma once

#include "actors/token_log.hpp"
#include "engine/step.hpp"
#include "schedulers/stage/rank_stage.hpp"

#include <cstdint>
#include <vector>

namespace troupe::actors {

/// Token of a plan that the step before draws.
inline constexpr std::int32_t kOpenToken = -1;

/// A plan that may go on from a step that has not ended.
struct PlannedStep {
  engine::StepPlan plan;
  std::vector<std::int32_t> follows; ///< Rows that do: at most one open token each, the last one.
};

/// Fills `out` (its memory is reused). @pre every sequence of the step is in the log
void build_plan(const sched::RunStep& step, const TokenLog& log, PlannedStep& out);

/// Appends the drawn tokens to the log and says what the step did, row by row. A sequence that had
/// ended when the step ran draws nothing: its row is wasted.
sched::StepDone take_result(const sched::RunStep& step, const engine::StepResult& result,
                            TokenLog& log);

} // namespace troupe::actors
