#include "schedulers/policies/decode_balancer/count_and_kv.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> CountAndKvBalancer::place(const PlacementQuery& query,
                                              std::span<const RankView> ranks,
                                              const PolicyContext& ctx) noexcept {
  const CostModel cost = *ctx.cost_model;
  return pick_lowest(ranks, DecodeRoom(query, options_), [&](const RankView& rank) {
    return Score{cost.decode_load_ps(rank.running, rank.context_tokens), 0};
  });
}

} // namespace troupe::sched
