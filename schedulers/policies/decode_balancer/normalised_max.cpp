#include "schedulers/policies/decode_balancer/normalised_max.hpp"

#include "schedulers/policies/decode_balancer/normalised.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>

namespace troupe::sched {

Decision<Placement> NormalisedMaxBalancer::place(const PlacementQuery& query,
                                                 std::span<const RankView> ranks,
                                                 const PolicyContext& /*ctx*/) noexcept {
  const Normalised normalised(ranks);
  return pick_lowest(ranks, DecodeRoom(query, options_), [&](const RankView& rank) {
    const std::int64_t n = normalised.count(rank);
    const std::int64_t k = normalised.context(rank);
    return Score{std::max(n, k), add_saturated(n, k)};
  });
}

} // namespace troupe::sched
