// Plans a step when the one before has ended: nothing rests on assumptions.

#pragma once

#include "schedulers/policy/overlap_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class SerialOverlap final : public OverlapPolicy {
public:
  Decision<OverlapPlan> plan(const OverlapView& view, const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
