// Runs whole stages again from a ledger of level `events`: the same stage objects, the same events
// at the same times, and what they say is compared with what they said then.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched {

/// The first thing that a life of a stage did otherwise. What comes after it may follow from it.
struct StageDifference {
  std::uint64_t number = 0; ///< Of the entry in the ledger.
  std::int64_t at_us = 0;
  std::uint64_t event = 0; ///< Its number in the life of the stage.
  std::string event_name;  ///< "step_done"; "start".
  std::string what;        ///< "decision step: asked.answer.value.decodes.size: then 2, now 1".
};

/// One life of a stage.
struct StageLife {
  StageRef stage;
  std::int64_t events = 0; ///< Of this life in the ledger.
  std::int64_t equal = 0;  ///< Of those, fed, with the same effects and entries as then.
  std::int64_t said = 0;   ///< Decisions, milestones and the like that were compared.
  std::int64_t cut = 0;    ///< Things said now that are not in the ledger, where it lost or ends.
  std::string stopped;     ///< Why it was followed no further; "" = to its end.
  std::optional<StageDifference> first;
};

struct StagesReport {
  std::vector<StageLife> lives; ///< In the order in which they began.

  /// Whether the ledger holds events at all.
  bool has_events() const noexcept { return !lives.empty(); }
  std::int64_t events() const noexcept;
  std::int64_t equal() const noexcept;
  std::int64_t different() const noexcept; ///< Lives.
  std::int64_t stopped() const noexcept;   ///< Lives without a difference.
};

/// Fed with the entries of a ledger in order.
///
/// A life whose beginning or whose events are not all there is followed as far as it can be, and
/// says so: its decisions can still be replayed one by one (replayer.hpp).
///
///   Pure     the same entries give the same report
///   Thread   one owner
class StageReplayer {
public:
  /// @param registry  outlives it; may know libraries
  explicit StageReplayer(const PolicyRegistry& registry);
  ~StageReplayer();
  StageReplayer(StageReplayer&&) noexcept;
  StageReplayer& operator=(StageReplayer&&) noexcept;

  void feed(const LedgerEntry& entry);

  /// After the last entry.
  StagesReport finish();

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace troupe::sched
