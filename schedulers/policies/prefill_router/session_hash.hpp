// All requests of a session on one rank, as long as it has room: for caches that live on a rank.

#pragma once

#include "schedulers/policy/prefill_router.hpp"

namespace troupe::sched {

/// Rendezvous hashing: the rank with the highest hash of (session, rank) among those with room. A
/// rank that comes or goes, or is full, moves only the sessions it had. Takes no options.
///
/// Source: policies.md section 2.3.
class SessionHashRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext& ctx) noexcept override;
};

} // namespace troupe::sched
