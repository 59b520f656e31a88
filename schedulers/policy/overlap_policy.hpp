// Decides whether the host plans the next step while the device runs the current one.
//
// What it plans then rests on assumptions: every sequence gets its most tokens, nothing ends.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"

#include <cstdint>

namespace troupe::sched {

/// A rank at a moment when it could plan a step.
struct OverlapView {
  std::int64_t device_ps = 0;   ///< Expected time of the step on the device.
  std::int64_t host_ps = 0;     ///< Scheduling, preparing and post-processing of one step.
  std::int64_t plans_held = 0;  ///< Submitted and not finished: the running one included.
  std::int64_t sequences = 0;   ///< That would run in the next step.
  std::int64_t constrained = 0; ///< Of those, with a grammar whose mask needs the tokens to come.
  std::int64_t arrivals = 0;    ///< Of those, adopted since the last step.
  std::int64_t drafts = 0;      ///< Most drafts of one sequence in one step.
  std::int64_t blocks_most = 0; ///< kv blocks that the step needs if every sequence grows most.
  std::int64_t blocks_free = 0; ///< Free, without those that wait for the running step to retire.
  std::int64_t blocks_retiring = 0; ///< Free once the running step has retired.
  bool operator==(const OverlapView&) const = default;
};

struct OverlapPlan {
  bool plan_now = false;
  /// Tokens that a sequence in its first step here is padded to, so that all ranks of its group
  /// keep the size they have a recorded graph for.
  std::int64_t arrival_tokens = 1;
  /// Masks are built under the running step, with a barrier before its last part only.
  bool masks_under_verify = false;
  bool operator==(const OverlapPlan&) const = default;
};

/// Plans ahead or waits.
///
/// Contract, on top of the one in policy.hpp:
///   Cost     O(1)
///   Errors   always a value
///   @post    with no plan held, plan_now is set: a rank never stands still for this policy;
///            with a plan held, plan_now only when blocks_most <= blocks_free
///
/// Source: policies.md section 6.
class OverlapPolicy : public Policy {
public:
  virtual Decision<OverlapPlan> plan(const OverlapView& view,
                                     const PolicyContext& ctx) noexcept = 0;
};

/// Ok, or an error that says which rule of the interface the decision breaks. Pure.
Status validate(const Decision<OverlapPlan>& decision, const OverlapView& view);

// Times of a step by section 6.1, for whoever judges or simulates an overlap. In ps.

struct StepTimes {
  std::int64_t schedule = 0;
  std::int64_t prepare = 0;
  std::int64_t post = 0;
  std::int64_t device = 0;
  std::int64_t launch_gap = 0;
};

/// From one step to the next: everything in a row, or the longer of host and device.
std::int64_t step_period_ps(const StepTimes& times, bool ahead) noexcept;

/// Share of the time in which the device does nothing, in millionths.
std::int64_t idle_millionths(const StepTimes& times, bool ahead) noexcept;

/// A step with grammar masks that are built under its verification: the longer of the two, then
/// sampling.
std::int64_t masked_step_ps(std::int64_t verify_ps, std::int64_t copy_and_mask_ps,
                            std::int64_t sample_ps) noexcept;

} // namespace troupe::sched
