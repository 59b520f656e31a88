#include "schedulers/policies/decode_balancer/two_choices.hpp"

#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> TwoChoicesBalancer::place(const PlacementQuery& query,
                                              std::span<const RankView> ranks,
                                              const PolicyContext& ctx) noexcept {
  const auto load = [&](const RankView& rank) {
    if (options_.by == LoadMeasure::count) return Score{rank.running, 0};
    if (options_.by == LoadMeasure::kv) return Score{rank.context_tokens, 0};
    return Score{ctx.cost_model->decode_load_ps(rank.running, rank.context_tokens), 0};
  };
  return pick_of_two(ranks, DecodeRoom(query, options_.room), load, *ctx.rng);
}

} // namespace troupe::sched
