#include "schedulers/policies/prefill_router/round_robin.hpp"

namespace troupe::sched {

Decision<Placement> RoundRobinRouter::route(const PlacementQuery& query,
                                            std::span<const RankView> ranks,
                                            const PolicyContext& /*ctx*/) noexcept {
  return turn_.next(ranks, [&](const RankView& rank) { return has_room(query, rank); });
}

} // namespace troupe::sched
