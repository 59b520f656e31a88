// The costliest images first, each to the encoder with the least outstanding cost.

#pragma once

#include "schedulers/policy/vision_balancer.hpp"

namespace troupe::sched {

/// Longest processing time first; equal costs in order of arrival, equal encoders by id. An image
/// beyond the budget of the least loaded encoder waits. Takes no options.
///
/// Source: policies.md section 8, vision cost.
class LeastCostVision final : public VisionBalancer {
public:
  Decision<Encoding> assign(const VisionQuery& query, const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
