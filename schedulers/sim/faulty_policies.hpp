// Policies that answer nonsense once in a while: what a broken plugin does to a running system.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <cstdint>

namespace troupe::sim {

/// The set with every kind wrapped: `permille` of its answers break a rule of the kind. Adds the
/// wrappers to `registry`.
///
/// @pre the set was checked against the registry, which outlives what is built from the result
sched::PolicySet make_faulty(const sched::PolicySet& set, sched::PolicyRegistry& registry,
                             std::int64_t permille, std::uint64_t seed);

} // namespace troupe::sim
