#include "schedulers/policies/decode_balancer/random.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> RandomBalancer::place(const PlacementQuery& query,
                                          std::span<const RankView> ranks,
                                          const PolicyContext& ctx) noexcept {
  return pick_drawn(ranks, DecodeRoom(query, options_), *ctx.rng);
}

} // namespace troupe::sched
