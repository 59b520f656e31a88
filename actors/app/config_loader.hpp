// TOML text of system and policy files → plain structs, all or nothing.
//
// Every error names file, line and key, what was found, what was expected and what to do. Paths
// inside a file are relative to that file, those of overrides to the working directory.

#pragma once

#include "actors/app/system_config.hpp"
#include "schedulers/core/result.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::app {

/// One cause, one message.
struct ConfigError {
  std::string file;      ///< As the user named it, or "--set".
  std::int64_t line = 0; ///< From 1; 0 when there is none.
  std::string key;       ///< "limits.inflight_max"; may be empty.
  std::string message;

  /// "FILE:LINE: KEY: message", without what is not known.
  std::string text() const;
};

/// Where the given keys of a configuration stand, for what turns out to be wrong with them later.
struct KeyPlaces {
  std::map<std::string, std::string> of; ///< "kv.memory" → "FILE:LINE", or "--set".

  /// `error` with the place in front when its message begins with a given key. Pure.
  Error placed(Error error) const;
};

/// A configuration, or why not. With errors `config` holds the defaults.
struct ConfigOutcome {
  SystemConfig config;
  std::set<std::string> given; ///< Keys that file or overrides set: "kv.memory", "rank.a.count".
  KeyPlaces places;            ///< Of the same keys.
  std::vector<ConfigError> errors;

  bool ok() const noexcept { return errors.empty(); }
};

/// The defaults, then `path` ("" = no file), then each override "table.key=VALUE" in order.
///
/// VALUE is a TOML value; text that is none is taken as a string. Parts of the key may be quoted as
/// in TOML. Groups of ranks are addressed by name: "rank.prefill.count=2".
ConfigOutcome load_system_config(const std::string& path,
                                 const std::vector<std::string>& overrides = {});

/// The same from memory. `name` stands for the file in messages; relative paths count from its
/// folder.
ConfigOutcome parse_system_config(std::string_view text, const std::string& name,
                                  const std::vector<std::string>& overrides = {});

/// Longest text of a policy file: every door that takes one takes it whole.
inline constexpr std::int64_t kPolicyTextBytesMax = 1 << 20;

/// A policy set, or why not. With errors `set` is the default set.
struct PolicyOutcome {
  sched::PolicySet set;
  std::vector<ConfigError> errors;

  bool ok() const noexcept { return errors.empty(); }
};

/// Reads a policy file and checks it against `registry`: kinds, names and options.
PolicyOutcome load_policy_file(const std::string& path, const sched::PolicyRegistry& registry);

/// The same from memory. `name` stands for the file in messages; paths of libraries count from its
/// folder. The set keeps text and name.
PolicyOutcome parse_policy_file(std::string_view text, const std::string& name,
                                const sched::PolicyRegistry& registry);

/// Whether this file, when it can be parsed, is a policy file and no system file.
bool is_policy_file(const std::string& path, const sched::PolicyRegistry& registry);

/// The first hundred errors, one a line, each as ConfigError::text(), and how many there are more.
std::string error_lines(const std::vector<ConfigError>& errors);

/// The configuration as TOML that loads to the same; values that were not in `given` carry the
/// comment "# default". Pure.
std::string show_system_config(const SystemConfig& config, const std::set<std::string>& given);

/// The same as one JSON document: {"config": {table: {key: value}, "rank": [...]}, "given": [key]}.
std::string show_system_config_json(const SystemConfig& config, const std::set<std::string>& given);

} // namespace troupe::app
