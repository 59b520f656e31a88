#include "schedulers/policies/decode_balancer/count_and_kv.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> CountAndKvBalancer::place(const PlacementQuery& query,
                                              std::span<const RankView> ranks,
                                              const PolicyContext& ctx) noexcept {
  return pick_lowest(
      ranks, [&](const RankView& rank) { return has_decode_room(query, rank, options_); },
      [&](const RankView& rank) {
        return Score{ctx.cost_model->decode_load_ps(rank.running, rank.context_tokens), 0};
      });
}

} // namespace troupe::sched
