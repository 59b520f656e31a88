#include "schedulers/policies/prefill_router/random.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> RandomRouter::route(const PlacementQuery& query,
                                        std::span<const RankView> ranks,
                                        const PolicyContext& ctx) noexcept {
  const auto room = room_of(query);
  return pick_drawn(ranks, room, *ctx.rng);
}

} // namespace troupe::sched
