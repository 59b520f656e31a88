#include "schedulers/policies/prefill_router/least_work.hpp"

#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/pick.hpp"

namespace troupe::sched {

Decision<Placement> LeastWorkRouter::route(const PlacementQuery& query,
                                           std::span<const RankView> ranks,
                                           const PolicyContext& ctx) noexcept {
  const std::int64_t own_ps =
      with_step_overhead(query.request.work_ps, ctx.cost_model->step_ps, ctx.step_budget_ps);
  return pick_lowest(
      ranks, [&](const RankView& rank) { return has_room(query, rank); },
      [&](const RankView& rank) {
        return Score{add_saturated(rank.work_ps, own_ps), rank.queued};
      });
}

} // namespace troupe::sched
