#include "schedulers/policies/prefill_router/least_work.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>
#include <cstddef>

namespace troupe::sched {
namespace {

constexpr std::int64_t kAffinityShare = 20; ///< At most this part of an estimate: 5 %.

} // namespace

Decision<Placement> LeastWorkRouter::route(const PlacementQuery& query,
                                           std::span<const RankView> ranks,
                                           const PolicyContext& ctx) noexcept {
  const std::int64_t own_ps =
      with_step_overhead(query.request.work_ps, ctx.cost_model->step_ps, ctx.step_budget_ps);
  const auto room = room_of(query);
  const auto score = [&](const RankView& rank) {
    const std::int64_t work_ps = add_saturated(rank.work_ps, own_ps);
    if (options_.affinity_token_ps == 0) return Score{work_ps, rank.queued};
    const auto place = static_cast<std::size_t>(&rank - ranks.data());
    const std::int64_t held_ps =
        multiply_saturated(query.local_hit(place), options_.affinity_token_ps);
    return Score{work_ps - std::min(held_ps, work_ps / kAffinityShare), rank.queued};
  };
  auto decision = pick_lowest(ranks, room, score);
  if (options_.ties != RouterTies::drawn || decision.reason != Reason::tie_lowest_id) {
    return decision;
  }
  const auto chosen = std::find_if(ranks.begin(), ranks.end(), [&](const RankView& rank) {
    return rank.rank.rank == decision.value->rank;
  });
  const Score best = score(*chosen);
  const auto equal = [&](const RankView& rank) { return room(rank) && score(rank) == best; };
  const auto drawn = pick_drawn(ranks, equal, *ctx.rng);
  decision.value->rank = drawn.value->rank;
  decision.reason = drawn.reason;
  return decision;
}

} // namespace troupe::sched
