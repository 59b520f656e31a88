// Prefill slices first, decode tokens into what is left: fills the decode batch sooner, for
// throughput jobs. Decoding pauses while prefills fill whole steps.

#pragma once

#include "schedulers/policy/step_policy.hpp"

namespace troupe::sched {

/// Takes no options.
class PrefillFirstStep final : public StepPolicy {
public:
  Decision<StepDecision> compose(const StepQuery& query,
                                 const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
