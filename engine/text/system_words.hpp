// What the operating system says of a file, with what to do about it.

#pragma once

#include <string>

namespace troupe::text {

/// The system's words for an errno; where a limit of open files is met, with the limit and the
/// command that raises it.
std::string system_words(int number);

/// Why `path` cannot be opened, with what to do.
///
/// Names the part of the path that is a file where a folder is needed, and the limit of open files.
/// @param advice  what to do about any other cause: "fetch it again or name another"
std::string open_failure(const std::string& path, int number, const std::string& advice);

} // namespace troupe::text
