// Least queue estimate W after adding the request, own assignments included.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Argmin of W; ties by fewer queued requests, then by lower rank id. Takes no options.
///
/// Source: policies.md section 2.2.
class LeastWorkRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
