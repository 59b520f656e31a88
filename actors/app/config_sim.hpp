// TOML text of simulation files → scenarios of schedulers/sim, all or nothing.
//
// A number may be a plain integer or [LOW, HIGH]: then each seed draws its own.

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/config_tree.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/sim/scenario.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

/// A scenario, or why not.
struct SimOutcome {
  sim::Scenario scenario;
  std::vector<ConfigError> errors;

  bool ok() const noexcept { return errors.empty(); }
};

/// Reads a simulation file with the policy file and the trace that it names.
SimOutcome load_sim_file(const std::string& path, const sched::PolicyRegistry& registry);

/// The same from memory. `name` stands for the file in messages; relative paths count from its
/// folder.
SimOutcome parse_sim_file(std::string_view text, const std::string& name,
                          const sched::PolicyRegistry& registry);

/// Reads a parsed simulation file.
SimOutcome bind_scenario(const ConfigNode& root, const sched::PolicyRegistry& registry);

} // namespace troupe::app
