// Checks any decision against the view it came from: the host trusts no policy.
//
// A failed check costs a counter and a replacement by the kind's default, never the process.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/admission_policy.hpp"
#include "schedulers/policy/decode_balancer.hpp"
#include "schedulers/policy/handoff_policy.hpp"
#include "schedulers/policy/prefill_chunker.hpp"
#include "schedulers/policy/queue_policy.hpp"
#include "schedulers/policy/step_policy.hpp"

#include <span>

namespace troupe::sched {

// Each returns ok, or an error that says which rule of the interface the decision breaks. Pure.

Status validate(const Decision<Admission>& decision);
Status validate(const Decision<Order>& decision, std::span<const RequestView> waiting);
/// For the router and the balancer alike.
Status validate(const Decision<Placement>& decision, const PlacementQuery& query,
                std::span<const RankView> ranks);
Status validate(const Decision<Slices>& decision, const PackQuery& query,
                std::span<const RequestView> requests);
Status validate(const Decision<HandoffPlan>& decision, const HandoffQuery& query);
Status validate(const Decision<StepDecision>& decision, const StepQuery& query);

} // namespace troupe::sched
