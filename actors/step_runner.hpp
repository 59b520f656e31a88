// Runs the planned steps of a rank on its engine, and hands on what one step gives to the next.
//
// A step may be planned before the one that it goes on from has ended. Then a token of it is not
// known yet, and a sequence of it may turn out to have failed: both are settled here, by the slot.

#pragma once

#include "actors/step_builder.hpp"
#include "engine/engine.hpp"

#include <cstdint>
#include <vector>

namespace troupe::actors {

///   Thread   one caller at a time, the one of the engine
class StepRunner {
public:
  /// @pre `engine` outlives it
  explicit StepRunner(engine::Engine& engine);

  /// Runs a step; its open tokens are filled in.
  ///
  /// A row that goes on from one that failed is left out: its status is engine_failed, the slot
  /// stays as it is. Other rows run.
  ///
  /// @pre rows that follow are of the step that was run last
  Result<engine::StepResult> run(PlannedStep& step);

private:
  /// What the last step did to a slot.
  struct Outcome {
    std::uint64_t step = 0;
    bool ok = false;
    std::int32_t token = -1; ///< -1: none was drawn.
  };

  Outcome& at(StateSlotId slot) { return outcomes_[static_cast<std::size_t>(raw(slot))]; }
  std::vector<bool> settle(PlannedStep& step);
  Result<engine::StepResult> run_rest(const engine::StepPlan& plan, const std::vector<bool>& lost);
  void remember(const engine::StepPlan& plan, const Result<engine::StepResult>& result);

  engine::Engine& engine_;
  std::vector<Outcome> outcomes_; ///< [slots]
  std::uint64_t last_step_ = 0;
};

/// The plan without the rows that are `lost` ([sequences]). Pure.
engine::StepPlan without_rows(const engine::StepPlan& plan, const std::vector<bool>& lost);

} // namespace troupe::actors
