// Fewest tokens that are still to be computed: blind to the context they attend to.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Fewest uncached tokens of queued requests; ties by id. Takes no options.
///
/// Source: policies.md section 2.3.
class LeastUncachedRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
