#include "schedulers/policies/decode_balancer/least_count.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> LeastCountBalancer::place(const PlacementQuery& query,
                                              std::span<const RankView> ranks,
                                              const PolicyContext& /*ctx*/) noexcept {
  return pick_lowest(ranks, DecodeRoom(query, options_), [](const RankView& rank) {
    return Score{rank.running, rank.context_tokens};
  });
}

} // namespace troupe::sched
