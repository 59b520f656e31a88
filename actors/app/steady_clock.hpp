// The clock that durations of a run are measured with; it never goes back.

#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::app {

/// Microseconds since an arbitrary start.
inline std::int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace troupe::app
