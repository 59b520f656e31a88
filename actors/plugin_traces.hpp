// What a library may not change in a process: its processes, working directory, umask, signals and
// memory. Taken before the library is loaded and compared afterwards.

#pragma once

#include "schedulers/core/result.hpp"

namespace troupe::actors {

/// What a library may take in the look, beyond what the process holds before it.
inline constexpr long kTraceMemoryMax = 1L << 30;

/// Remembers this process as it is now, and bounds what it may take from here on: twice
/// kTraceMemoryMax, not under the address sanitizer, whose own memory counts. It adopts what a
/// process that it starts leaves behind, and a fork of it ends at once. Once in a process.
void begin_traces();

/// Whether this is the process that called begin_traces(): a copy of it must not speak for it.
bool is_traced_process() noexcept;

/// What the process is now and was not; processes that are left in it end here. Lifts the bound of
/// memory, so that there is some for what is said.
Status end_traces();

} // namespace troupe::actors
