#include "schedulers/policies/step/prefill_first.hpp"

#include "schedulers/policies/step/fill.hpp"

namespace troupe::sched {

Decision<StepDecision> PrefillFirstStep::compose(const StepQuery& query,
                                                 const PolicyContext& /*ctx*/) noexcept {
  StepDecision decision;
  std::int64_t left = query.step_tokens_max;
  const bool first = fill_slices(query, left, decision);
  const bool second = fill_decodes(query, left, decision);
  return {std::move(decision), first && second ? Reason::within_budget : Reason::budget_reached};
}

} // namespace troupe::sched
