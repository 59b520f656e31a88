#include "schedulers/policies/decode_balancer/round_robin.hpp"

namespace troupe::sched {

Decision<Placement> RoundRobinBalancer::place(const PlacementQuery& query,
                                              std::span<const RankView> ranks,
                                              const PolicyContext& /*ctx*/) noexcept {
  return turn_.next(ranks, DecodeRoom(query, options_));
}

} // namespace troupe::sched
