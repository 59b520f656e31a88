// Checks an expert plan against the query it came from.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/expert_placement.hpp"

namespace troupe::sched {

/// Ok, or an error that says which rule of the interface the decision breaks. Pure.
Status validate(const Decision<ExpertLayout>& decision, const ExpertQuery& query);

} // namespace troupe::sched
