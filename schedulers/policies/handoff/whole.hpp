// Moves all of a finished prefill as soon as it is finished.

#pragma once

#include "schedulers/policy/handoff_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class WholeHandoff final : public HandoffPolicy {
public:
  Decision<HandoffPlan> plan(const HandoffQuery& query, const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
