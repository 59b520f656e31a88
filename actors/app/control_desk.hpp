// What the doors of a running system (control socket, policy file) need of it: swaps, facts, a
// snapshot.

#pragma once

#include "actors/manager_facts.hpp"
#include "schedulers/stage/manager_stage.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

namespace troupe::app {

/// Where the system writes what it decides, as far as that was asked for.
struct LedgerPlace {
  std::string folder;            ///< Absolute; "" = no ledger is kept.
  std::uint64_t next_number = 0; ///< Of the first entry that may not be written yet.
  std::int64_t at_us = 0;        ///< When it was asked, by the clock of the entries.
};

/// The answer when it is there; asked again until then.
using LedgerReply = std::function<std::optional<LedgerPlace>()>;

/// The policy manager as seen from other threads.
///
///   Thread   any
///   Waits    never: an answer comes by its future, and a future of a system that ends is broken
class ControlDesk {
public:
  using Ended = std::future<sched::SwapEnded>;

  virtual ~ControlDesk() = default;

  /// The question number of each is given by the desk.
  virtual Ended ask(sched::SwapAsked asked) = 0;
  virtual Ended ask(sched::RollbackAsked asked) = 0;
  virtual Ended ask(sched::PromoteAsked asked) = 0;

  virtual actors::ManagerView view() const = 0;

  /// The system at this moment as one JSON object.
  virtual std::string top() const = 0;

  /// Asks for everything that was decided until now to be written where others can read it.
  virtual LedgerReply write_ledger() = 0;
};

/// The answer, when it is there; of a system that ends, a refusal that says so.
inline std::optional<sched::SwapEnded> take_ended(ControlDesk::Ended& ended) {
  if (ended.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return std::nullopt;
  try {
    return ended.get();
  } catch (const std::future_error&) {
    sched::SwapEnded lost;
    lost.reason = "the system ends";
    return lost;
  }
}

} // namespace troupe::app
