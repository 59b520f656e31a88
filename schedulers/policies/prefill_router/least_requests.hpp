// Fewest requests: blind to how long they are.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Fewest queued requests; ties by id. Takes no options. Source: policies.md section 2.3.
class LeastRequestsRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
