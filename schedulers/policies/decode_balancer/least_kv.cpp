#include "schedulers/policies/decode_balancer/least_kv.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> LeastKvBalancer::place(const PlacementQuery& query,
                                           std::span<const RankView> ranks,
                                           const PolicyContext& /*ctx*/) noexcept {
  return pick_lowest(ranks, DecodeRoom(query, options_), [](const RankView& rank) {
    return Score{rank.context_tokens, rank.running};
  });
}

} // namespace troupe::sched
