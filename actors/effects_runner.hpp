// Turns effects into CAF sends and timers, and hands the rest to the shell; nothing else.

#pragma once

#include "actors/caf_compat.hpp"
#include "actors/ledger.hpp"
#include "schedulers/stage/effects.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

namespace troupe::actors {

/// Where everybody is. Filled before the first message, read-only afterwards.
struct Peers {
  caf::actor driver;
  caf::actor chunker;
  caf::actor balancer;
  std::map<RankId, caf::actor> ranks;
  caf::actor text;     ///< Text worker.
  caf::actor store;    ///< Journal writer.
  caf::actor listener; ///< Hears JobState; may be empty.
};

/// Counters of all shells of a process. Thread: any.
struct ShellCounters {
  std::atomic<std::int64_t> messages{0};      ///< Sent between actors.
  std::atomic<std::int64_t> scheduling_ns{0}; ///< Spent inside stages.
  std::atomic<std::int64_t> decisions{0};
  std::atomic<std::int64_t> unexpected{0}; ///< Messages that no handler took.
};

/// Performs Send, SetTimer and Record; every other effect goes to `other`.
void perform(caf::event_based_actor& self, const Peers& peers, Ledger* ledger,
             ShellCounters& counters, sched::Effects& effects, std::int64_t now_us,
             const std::function<void(sched::Effect&)>& other);

} // namespace troupe::actors
