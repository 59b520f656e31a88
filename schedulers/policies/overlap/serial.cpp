#include "schedulers/policies/overlap/serial.hpp"

namespace troupe::sched {

Decision<OverlapPlan> SerialOverlap::plan(const OverlapView& view,
                                          const PolicyContext& /*ctx*/) noexcept {
  if (view.sequences == 0) return {OverlapPlan{}, Reason::nothing_to_do};
  const OverlapPlan plan{view.plans_held == 0, view.arrivals > 0 ? 1 + view.drafts : 1, false};
  return {plan, plan.plan_now ? Reason::within_budget : Reason::budget_reached};
}

} // namespace troupe::sched
