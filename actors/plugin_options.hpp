// Options of loaded policies: the JSON Schema that a library states, and what a user wrote.
//
// The subset: an object of properties, each with type, default, minimum, maximum, description and
// x-hot. Everything else in a schema is refused, so that no wish of a library is overlooked.

#pragma once

#include "schedulers/core/options.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace troupe::actors {

/// One option of a policy.
struct PluginOption {
  enum class Type : std::uint8_t { integer, number, boolean, text };
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  std::string name;
  Type type = Type::integer;
  std::optional<Value> fallback; ///< Of the option's type; a whole number may stand for a number.
  std::optional<Value> minimum, maximum; ///< Of integers and numbers, inclusive.
  std::string description;
  bool hot = false; ///< May change while the policy runs.
};

class PluginOptions {
public:
  /// "" means no options. Errors name the property and what is wrong with it.
  static Result<PluginOptions> parse(const std::string& schema);

  /// One JSON object with every option that `given` has or that has a default, in the order of the
  /// schema. Errors name file, line and key as the options of built-in policies do.
  Result<std::string> json_of(OptionTable given) const;

  const std::vector<PluginOption>& all() const noexcept { return options_; }

private:
  std::vector<PluginOption> options_;
};

} // namespace troupe::actors
