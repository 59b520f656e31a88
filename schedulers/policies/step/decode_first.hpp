// Decode tokens first, prefill slices into what is left: short gaps between tokens.

#pragma once

#include "schedulers/policy/step_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class DecodeFirstStep final : public StepPolicy {
public:
  Decision<StepDecision> compose(const StepQuery& query,
                                 const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
