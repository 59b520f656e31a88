// A whole file in one move: readers see the old text or the new one, never half of it.

#pragma once

#include "schedulers/core/result.hpp"

#include <string>
#include <string_view>

namespace troupe::app {

/// Writes PATH.tmp and renames it to PATH; through a link, to what it leads to. Not synced: after a
/// loss of power either may be there. What is no regular file (a pipe, /dev/null) is written into.
///
/// @param what  names the file in the error: "cannot write the WHAT"
Status replace_file(const std::string& path, std::string_view text, const char* what);

} // namespace troupe::app
