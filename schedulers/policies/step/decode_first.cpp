#include "schedulers/policies/step/decode_first.hpp"

#include "schedulers/policies/step/fill.hpp"

namespace troupe::sched {

Decision<StepDecision> DecodeFirstStep::compose(const StepQuery& query,
                                                const PolicyContext& /*ctx*/) noexcept {
  StepDecision decision;
  std::int64_t left = query.step_tokens_max;
  const bool first = fill_decodes(query, left, decision);
  const bool second = fill_slices(query, left, decision);
  return {std::move(decision), first && second ? Reason::within_budget : Reason::budget_reached};
}

} // namespace troupe::sched
