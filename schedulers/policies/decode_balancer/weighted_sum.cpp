#include "schedulers/policies/decode_balancer/weighted_sum.hpp"

#include "schedulers/policies/decode_balancer/normalised.hpp"
#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> WeightedSumBalancer::place(const PlacementQuery& query,
                                               std::span<const RankView> ranks,
                                               const PolicyContext& /*ctx*/) noexcept {
  const Normalised normalised(ranks);
  return pick_lowest(ranks, DecodeRoom(query, options_.room), [&](const RankView& rank) {
    const Int128 n = static_cast<Int128>(normalised.count(rank)) * options_.count_permille;
    const Int128 k = static_cast<Int128>(normalised.context(rank)) * options_.context_permille;
    return Score{saturate((n + k) / 1000), 0};
  });
}

} // namespace troupe::sched
