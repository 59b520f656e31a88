// How much memory this process could still take.

#pragma once

#include <cstdint>

namespace troupe::app {

/// Bytes, by what the machine has left and what the process's control group allows. INT64_MAX when
/// the system tells neither.
std::int64_t available_memory_bytes();

} // namespace troupe::app
