// Tables of a policy file → options of one policy or one table, each with its place.

#pragma once

#include "actors/app/config_loader.hpp"
#include "actors/app/config_tree.hpp"
#include "schedulers/core/options.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Reads a table into flat keys: [queue.wait_bound] max_us is "wait_bound.max_us", the first entry
/// of filters = ["alive"] is "filters[0]". Below a table there are no lists, because its keys may
/// be names that the user chose.
///
/// @param path  of the table in the file, as in "shadow.queue"
/// @return false when something was reported
bool read_options(const ConfigNode& table, const std::string& path, OptionTable& options,
                  std::vector<ConfigError>& errors);

/// The message of an option table, "FILE:LINE: KEY: text", as an error of the table at `node`. What
/// has no place of its own gets that of the table. Pure.
///
/// @param name  the option table's name, which its keys begin with
/// @param path  what stands in the file in place of that name
ConfigError option_error(const std::string& message, const ConfigNode& node,
                         const std::string& name, const std::string& path);

} // namespace troupe::app
