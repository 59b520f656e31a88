// Reads a small file of a checkpoint as a whole.

#pragma once

#include "schedulers/core/result.hpp"

#include <string>

namespace troupe::text {

/// The bytes of `path`. Errors: not_found, io_error, with the words of the operating system.
Result<std::string> read_text_file(const std::string& path);

} // namespace troupe::text
