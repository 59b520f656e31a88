#include "schedulers/policies/handoff/whole.hpp"

namespace troupe::sched {

Decision<HandoffPlan> WholeHandoff::plan(const HandoffQuery& /*query*/,
                                         const PolicyContext& /*ctx*/) noexcept {
  return {HandoffPlan{HandoffMode::whole}, Reason::only_choice};
}

} // namespace troupe::sched
