// Reads an open file as a whole, whatever size it is told to have.

#pragma once

#include <cstdint>
#include <string>

namespace troupe::text {

/// Appends to `bytes` what an open file holds from its place on, to its end or until there are more
/// than `bytes_max`. The size that the file is told to have only saves copies: under /proc it is 0.
///
/// @return false, with errno, when it cannot be read
bool read_to_end(int descriptor, std::int64_t told_bytes, std::int64_t bytes_max,
                 std::string& bytes);

} // namespace troupe::text
