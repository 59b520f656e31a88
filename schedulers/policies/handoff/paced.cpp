#include "schedulers/policies/handoff/paced.hpp"

namespace troupe::sched {

Decision<HandoffPlan> PacedHandoff::plan(const HandoffQuery& query,
                                         const PolicyContext& /*ctx*/) noexcept {
  const bool source_full = query.transfers_of_source >= options_.of_source_max;
  const bool total_full = options_.total_max > 0 && query.transfers >= options_.total_max;
  if (source_full || total_full) return {std::nullopt, Reason::budget_reached};
  return {HandoffPlan{HandoffMode::whole}, Reason::within_budget};
}

} // namespace troupe::sched
