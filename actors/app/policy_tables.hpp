// The tables of a policy file that choose no policy: [[library]], [probation], the share of
// [canary].

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/config_tree.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// [[library]]: paths count from the folder of the file; each library is digested and loaded once.
///
/// @return without those that an error was reported for
std::vector<sched::LibrarySpec> read_libraries(const ConfigNode& node,
                                               const sched::PolicyRegistry& registry,
                                               std::vector<ConfigError>& errors);

/// [probation]: what is left out has its default.
sched::ProbationSpec read_probation(const ConfigNode& node, std::vector<ConfigError>& errors);

/// `share` of [canary], in thousandths.
std::int64_t read_canary_share(const ConfigNode& canary, std::vector<ConfigError>& errors);

} // namespace troupe::app
