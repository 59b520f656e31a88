// What a library hands out, checked once: versions, sizes, names, functions.
//
// A struct of a library may be shorter or longer than this host's; it is copied into one of ours,
// and what the library does not have is zero.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/plugin/policy_abi.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched {

/// One policy of a library.
struct PluginPolicy {
  std::string kind;
  std::string name;
  std::string options_schema; ///< "" = takes no options.
  troupe_policy policy{};     ///< Its pointers are valid while the library is loaded.
};

struct PluginTable {
  std::string name;
  std::string version;
  std::vector<PluginPolicy> policies; ///< [>= 1] in the order of the library.

  /// Null when there is none.
  const PluginPolicy* find(const std::string& kind, const std::string& name) const noexcept;
};

/// The table behind `plugin`, what troupe_plugin_entry returned. Errors say what the library has
/// and what this host expects, without the library's file. @pre what it points to is readable
Result<PluginTable> read_plugin(const troupe_plugin* plugin);

/// Kinds that a library may bring.
const std::set<std::string>& plugin_kinds();

/// The part of a library's struct that both sides know; zero beyond.
/// @pre `theirs` points to at least *theirs bytes, as its first field says
template <class T>
T struct_of_library(const void* theirs) noexcept {
  T ours{};
  std::uint32_t size = 0;
  std::memcpy(&size, theirs, sizeof size);
  std::memcpy(&ours, theirs, std::min<std::size_t>(size, sizeof ours));
  return ours;
}

} // namespace troupe::sched
