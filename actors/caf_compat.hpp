// The only file that knows which CAF version it is compiled against (0.17.6).
//
// Two rules of that version shape it: actors that block are detached, but a virtual-time test must
// not have threads, so every spawn goes through spawn_stage(); and an actor function without
// arguments trips the undefined behaviour sanitizer inside CAF, so every actor takes a config.

#pragma once

#include <caf/actor.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/meta/type_name.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace troupe::actors {

/// Whether blocking actors get a thread of their own, or run under the caller's scheduler.
enum class Threads : std::uint8_t { own, shared };

/// Spawns a stateful actor `fun(self, config)`.
///
/// @param threads  `own` for what blocks (rank, text worker, store); virtual-time tests pass
/// `shared`
template <class Fun, class Config>
caf::actor spawn_stage(caf::actor_system& system, Threads threads, Fun fun, Config config) {
  return threads == Threads::own ? system.spawn<caf::detached>(fun, std::move(config))
                                 : system.spawn(fun, std::move(config));
}

/// Microseconds of the system's steady clock; virtual under the testing scheduler.
inline std::int64_t now_us(const caf::local_actor& self) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             self.clock().now().time_since_epoch())
      .count();
}

inline std::int64_t now_us(caf::actor_system& system) {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             system.clock().now().time_since_epoch())
      .count();
}

/// Scheduler settings that matter on a small machine; platform notes in actors/README.md.
void tune(caf::actor_system_config& config, int threads);

/// For tests: jobs run only when asked, time moves only when asked.
void use_virtual_time(caf::actor_system_config& config);

} // namespace troupe::actors
