#include "schedulers/policies/decode_balancer/random.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> RandomBalancer::place(const PlacementQuery& query,
                                          std::span<const RankView> ranks,
                                          const PolicyContext& ctx) noexcept {
  return pick_drawn(
      ranks, [&](const RankView& rank) { return has_decode_room(query, rank, options_); },
      *ctx.rng);
}

} // namespace troupe::sched
