// Fewest tokens of queued prompts, cached ones included.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Fewest tokens of queued requests, computed or cached ones included; ties by id. Takes no
/// options.
///
/// Source: policies.md section 2.3.
class LeastTokensRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
