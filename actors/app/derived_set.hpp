// A policy set with a shadow or a canary more, or less, than another one.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <string>

namespace troupe::app {

/// `set` whose shadow of `kind` is `policy`; "off" takes it away. The text is written anew. Errors
/// name what was found and what is valid. Pure.
Result<sched::PolicySet> with_shadow(sched::PolicySet set, const std::string& kind,
                                     const std::string& policy,
                                     const sched::PolicyRegistry& registry);

/// The same for a canary. The share holds for all canaries of a set; 0 keeps the one it has.
Result<sched::PolicySet> with_canary(sched::PolicySet set, const std::string& kind,
                                     const std::string& policy, std::int64_t permille,
                                     const sched::PolicyRegistry& registry);

} // namespace troupe::app
