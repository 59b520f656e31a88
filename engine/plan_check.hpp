// The engine's contract on a StepPlan as one pure check, shared by every engine.
//
// A plan comes from our own rank stage, but it names memory by number: it is checked like input
// from outside, before anything is changed.

#pragma once

#include "engine/step.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <span>

namespace troupe::engine {

/// What ids and counts of a plan are compared with.
struct PlanLimits {
  std::int64_t vocab = 0;
  std::int64_t context_max = 0; ///< Tokens a slot may hold.
  std::int64_t block_tokens = 0;
  std::int64_t blocks = 0;
  std::int64_t slots = 0;
  std::int64_t step_tokens_max = 0;
};

/// Everything in step.hpp that a plan promises: equal lengths of per-sequence arrays, token spans
/// one after the other over all of `tokens`, distinct slots, distinct blocks that hold every new
/// position, first positions that continue the slot (`slot_length`, [slots]) or start at 0, and
/// sampling values in range.
///
///   Pure
///   Cost     linear in the plan and in blocks / 8 bytes
///   Errors   bad_plan; names the sequence (its index in the plan), what was found and expected
Status check_plan(const StepPlan& plan, const PlanLimits& limits,
                  std::span<const std::int64_t> slot_length);

} // namespace troupe::engine
