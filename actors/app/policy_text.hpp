// A policy set as text: as a policy file, and as rows that two sets can be compared by.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <map>
#include <string>
#include <vector>

namespace troupe::app {

/// The set as a policy file that reads as the same set; defaults are left out. Pure.
std::string policy_set_text(const sched::PolicySet& set);

/// Every key of a set with its value as a file has it, what the set leaves out with its default.
/// Pure.
std::map<std::string, std::string> policy_rows(const sched::PolicySet& set,
                                               const sched::PolicyRegistry& registry);

/// A key in which two sets differ; an empty value stands for none.
struct PolicyDifference {
  std::string key;
  std::string before;
  std::string after;
};

/// Ascending by key. Pure.
std::vector<PolicyDifference> policy_differences(const sched::PolicySet& before,
                                                 const sched::PolicySet& after,
                                                 const sched::PolicyRegistry& registry);

/// 1500 is "1.5". Pure.
std::string permille_text(std::int64_t permille);

} // namespace troupe::app
