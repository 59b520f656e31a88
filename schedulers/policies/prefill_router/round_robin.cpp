#include "schedulers/policies/prefill_router/round_robin.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> RoundRobinRouter::route(const PlacementQuery& query,
                                            std::span<const RankView> ranks,
                                            const PolicyContext& /*ctx*/) noexcept {
  return turn_.next(ranks, room_of(query));
}

} // namespace troupe::sched
