// What `troupe policy new` writes: a policy that builds, passes its test and the suite as it is.
//
// The texts stand in actors/app/scaffold/ and are compiled in.

#pragma once

#include "schedulers/core/result.hpp"

#include <map>
#include <string>
#include <string_view>

namespace troupe::app {

enum class ScaffoldLanguage : std::uint8_t { c, cpp };

/// Files of a new policy, by name: source, test, CMakeLists.txt, README.md. Errors say what is
/// wrong with `name` or `kind`, and the nearest valid kind. Pure.
///
/// @param name  of the policy, its library and its folder: a-z, 0-9 and _, a letter first
Result<std::map<std::string, std::string>>
scaffold_files(const std::string& name, const std::string& kind, ScaffoldLanguage language);

/// Templates by file name, with @words@ to replace.
const std::map<std::string_view, std::string_view>& scaffold_texts();

} // namespace troupe::app
