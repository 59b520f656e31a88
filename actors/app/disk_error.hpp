// What the system says about a file that cannot be opened or written, with what to do about it.

#pragma once

#include <string>

namespace troupe::app {

/// Text of an errno value: "No space left on device: make room there (df -h, df -i)".
std::string disk_error(int code);

} // namespace troupe::app
