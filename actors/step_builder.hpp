// StepDecision of the stage + token log → StepPlan of the engine, and StepResult → StepDone.

#pragma once

#include "actors/token_log.hpp"
#include "engine/step.hpp"
#include "schedulers/stage/rank_stage.hpp"

namespace troupe::actors {

/// Fills `plan` (its memory is reused). @pre every sequence of the step is in the log
void build_plan(const sched::RunStep& step, const TokenLog& log, engine::StepPlan& plan);

/// Appends the drawn tokens to the log and says what the step did, row by row.
sched::StepDone take_result(const sched::RunStep& step, const engine::StepResult& result,
                            TokenLog& log);

} // namespace troupe::actors
