// Nodes → SystemConfig and PolicySet: types, ranges, units, names, paths.

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/config_tree.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// One "--set table.key=VALUE", parsed.
struct ConfigOverride {
  std::vector<std::string> path; ///< "rank", "prefill", "count".
  ConfigNode value;
};

/// Puts an override into the tree; [[rank]] entries are found by name. The default groups are
/// written into the tree first when the file has none. Empty, or what is wrong.
std::vector<ConfigError> apply_override(ConfigNode& root, const ConfigOverride& override);

/// Reads a whole system file.
ConfigOutcome bind_system_config(const ConfigNode& root);

/// Reads a whole policy file.
PolicyOutcome bind_policy_set(const ConfigNode& root, const sched::PolicyRegistry& registry);

/// Whether a file has what only a policy file has: a table of a kind, or a name alone. Pure.
bool looks_like_policy_file(const ConfigNode& root, const sched::PolicyRegistry& registry);

/// "; did you mean "x"?", or the valid names when none is near. Pure.
std::string name_hint(const std::string& word, const std::set<std::string>& known);

/// "512MiB", "1 GB", "1024" → bytes; false when it is no size or does not fit. Pure.
bool parse_size(const std::string& text, std::int64_t& bytes);

/// Bytes with the largest unit that divides them. Pure.
std::string size_text(std::int64_t bytes);

} // namespace troupe::app
