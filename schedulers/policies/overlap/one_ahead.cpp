#include "schedulers/policies/overlap/one_ahead.hpp"

#include "schedulers/model/integer_math.hpp"

namespace troupe::sched {

Decision<OverlapPlan> OneAheadOverlap::plan(const OverlapView& view,
                                            const PolicyContext& /*ctx*/) noexcept {
  constexpr std::int64_t kPlansMax = 2; // The running one and the next.
  if (view.sequences == 0) return {OverlapPlan{}, Reason::nothing_to_do};
  OverlapPlan plan;
  plan.arrival_tokens = view.arrivals > 0 ? 1 + view.drafts : 1;
  plan.masks_under_verify = view.constrained > 0;
  plan.plan_now = view.plans_held == 0;
  if (plan.plan_now) return {plan, Reason::within_budget};
  const bool worth_it =
      view.device_ps >= scale(view.host_ps, options_.device_share_min_permille, 1000);
  if (view.plans_held >= kPlansMax || !worth_it) return {plan, Reason::budget_reached};
  if (view.blocks_most > view.blocks_free) return {plan, Reason::no_room};
  plan.plan_now = true;
  return {plan, Reason::within_budget};
}

} // namespace troupe::sched
