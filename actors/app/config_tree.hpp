// A parsed TOML file as plain nodes with their places, so that only one source knows the library.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::app {

enum class NodeKind : std::uint8_t { boolean, integer, real, text, table, array, other };

/// One value. Only the fields of its kind mean something.
struct ConfigNode {
  NodeKind kind = NodeKind::table;
  bool boolean = false;
  std::int64_t integer = 0;
  double real = 0.0;
  std::string text;
  std::map<std::string, ConfigNode> table;
  std::vector<ConfigNode> items; ///< array

  std::string file;      ///< As the user named it; "--set" for an override.
  std::int64_t line = 0; ///< From 1; 0 unknown.

  /// "FILE:LINE", or what of it is known. Pure.
  std::string place() const;
  /// What a person reads in "found ...": `the text "x"`, `the integer 3`, `the number 5.0`, `a
  /// table`. Pure.
  std::string shown() const;
  /// "found ..., expected an integer from ...": what to say when it is none of this range. Pure.
  std::string wrong_integer(std::int64_t lowest, std::int64_t highest) const;
};

} // namespace troupe::app
