// Turns effects into CAF sends and wake-ups, and hands the rest to the shell; nothing else.

#pragma once

#include "actors/caf_compat.hpp"
#include "actors/ledger.hpp"
#include "actors/peers.hpp"
#include "actors/timer_queue.hpp"
#include "schedulers/stage/effects.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace troupe::actors {

/// Counters of all shells of a process. Thread: any.
struct ShellCounters {
  std::atomic<std::int64_t> messages{0};      ///< Sent between actors.
  std::atomic<std::int64_t> scheduling_ns{0}; ///< Spent inside stages.
  std::atomic<std::int64_t> decisions{0};
  std::atomic<std::int64_t> unexpected{0}; ///< Messages that no handler took.
};

/// Where a stage's entries go.
struct LedgerDesk {
  Ledger* ledger = nullptr; ///< May be null.
  sched::StageRef stage;
};

/// Performs Send and SetTimer and tells the ledger; every other effect goes to `other`.
void perform(caf::event_based_actor& self, const Peers& peers, const LedgerDesk& desk,
             ShellCounters& counters, TimerQueue& timers, sched::Effects& effects,
             std::int64_t now_us, const std::function<void(sched::Effect&)>& other);

/// Asks the clock for the WakeUp that the earliest timer needs, unless one is under way.
void arm(caf::event_based_actor& self, TimerQueue& timers);

} // namespace troupe::actors
