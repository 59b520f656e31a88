// Whether this process may start the threads it is going to need.
//
// A limit of threads or of address space met later would end an actor, or leave one that never
// starts.

#pragma once

#include "actors/app/system_config.hpp"
#include "schedulers/core/result.hpp"

#include <cstdint>

namespace troupe::app {

/// Threads that a running system of this configuration has, engines included.
std::int64_t threads_needed(const SystemConfig& config);

/// Starts that many threads at once, each with memory of its own, and ends them again.
///
/// Errors: io_error, with how many could be started.
Status check_thread_room(std::int64_t count);

} // namespace troupe::app
