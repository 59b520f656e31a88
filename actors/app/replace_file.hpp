// A whole file in one move: readers see the old text or the new one, never half of it.

#pragma once

#include "schedulers/core/result.hpp"

#include <string>
#include <string_view>

namespace troupe::app {

/// Where a link leads to, over several links too, also when nothing stands there yet.
std::string link_target(const std::string& path);

/// Refuses what replace_file can never write: a folder, a socket, a disk.
Status check_replaceable(const std::string& path, const char* what);

/// Writes PATH.tmp and renames it to PATH; through a link, to what it leads to. Not synced: after a
/// loss of power either may be there. A pipe or a device is written into.
///
/// Never waits for the reader of a pipe to come, and at most a second for it to read.
///
/// @param what  names the file in the error: "cannot write the WHAT"
Status replace_file(const std::string& path, std::string_view text, const char* what);

} // namespace troupe::app
