// Reads a small text file as a whole.

#pragma once

#include "schedulers/core/result.hpp"

#include <cstdint>
#include <string>

namespace troupe::text {

inline constexpr std::int64_t kTextFileBytesMax = 256'000'000;

/// The bytes of `path`, a regular file. Errors: not_found, io_error, bad_checkpoint (larger than
/// `bytes_max`); with the words of the operating system.
Result<std::string> read_text_file(const std::string& path,
                                   std::int64_t bytes_max = kTextFileBytesMax);

} // namespace troupe::text
