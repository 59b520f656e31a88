#include "schedulers/policies/prefill_router/local_cache.hpp"

#include "schedulers/model/integer_math.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/pick.hpp"

#include <algorithm>

namespace troupe::sched {

Decision<Placement> LocalCacheRouter::route(const PlacementQuery& query,
                                            std::span<const RankView> ranks,
                                            const PolicyContext& ctx) noexcept {
  const CostModel& model = *ctx.cost_model;
  const std::int64_t total = query.request.total();
  std::int64_t longest = 0;
  const auto hit_of = [&](const RankView& rank) {
    // The last token is always computed: its logits start the answer.
    const auto place = static_cast<std::size_t>(&rank - ranks.data());
    return std::clamp<std::int64_t>(query.local_hit(place), 0,
                                    std::max<std::int64_t>(0, total - 1));
  };
  for (const RankView& rank : ranks)
    longest = std::max(longest, hit_of(rank));
  const auto ttft_ps = [&](const RankView& rank) {
    const std::int64_t own = hit_of(rank);
    const bool copies =
        multiply_saturated(longest, 1000) > multiply_saturated(own, options_.threshold_permille);
    const std::int64_t hit = copies ? longest : own;
    const std::int64_t load_ps =
        copies ? multiply_saturated(longest - own, options_.load_token_ps) : 0;
    const std::int64_t steps =
        steps_ps(model.marginal_ps(total - hit, hit), model.step_ps, ctx.step_budget_ps);
    return Score{add_saturated(std::max(load_ps, rank.work_ps), steps), rank.queued};
  };
  auto decision = pick_lowest(ranks, room_of(query), ttft_ps);
  if (!decision.value || decision.reason != Reason::lowest_score) return decision;
  for (const RankView& rank : ranks) {
    if (rank.rank.rank == decision.value->rank && hit_of(rank) > 0) {
      decision.reason = Reason::cached_there;
    }
  }
  return decision;
}

} // namespace troupe::sched
