// A few questions of each kind that any policy must be able to answer: the last look before a
// library is let near a running system. The full suite is `troupe policy test`.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/policy.hpp"

#include <string>

namespace troupe::sched {

/// Asks `policy` of `kind` questions without room, with one candidate, with several; pure but for
/// the policy's own state. An error names the question and what the policy did.
///
/// @pre the kind is one that libraries may bring, and the policy is of it
Status try_policy(const std::string& kind, Policy& policy);

} // namespace troupe::sched
