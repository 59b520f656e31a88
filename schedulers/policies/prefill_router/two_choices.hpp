// The less loaded of two ranks that are drawn: robust when views are stale.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Two different ranks with room are drawn; the lower queue estimate W wins, ties by id. Takes no
/// options.
///
/// Source: policies.md section 2.3; power of two choices.
class TwoChoicesRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
