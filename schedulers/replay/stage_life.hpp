// One life of a stage as a ledger tells it, and the stage that lives it again.

#pragma once

#include "schedulers/replay/stage_replayer.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace troupe::sched {

/// Thread: one owner.
class FollowedLife {
public:
  explicit FollowedLife(const StageRef& stage) { life_.stage = stage; }

  /// Builds the stage; stops when that is not possible.
  void build(const StageBegan& began, const PolicyRegistry& registry);
  /// Follows it no further. The first reason counts.
  void stop(const std::string& why);
  /// Entries may be missing from here on.
  void doubt() noexcept { doubted_ = true; }

  /// Gives the stage its next event.
  void take(const LedgerEntry& entry, const StageTook& took);
  /// Compares what the stage said then with what it says now.
  void compare(const LedgerEntry& entry);
  /// After its last entry.
  StageLife end();

private:
  using Stage = std::variant<std::monostate, std::unique_ptr<DriverStage>,
                             std::unique_ptr<PrefillStage>, std::unique_ptr<DecodeStage>,
                             std::unique_ptr<RankStage>, std::unique_ptr<ExpertStage>>;

  bool runs() const noexcept { return life_.stopped.empty() && !life_.first; }
  bool follows(const StageTook& took);
  bool deliver_event(const StageTook& took, Effects& effects);
  void keep_said(Effects& effects);
  void settle(bool may_be_cut);
  void differs(std::uint64_t number, const std::string& what);
  bool is_library_failure(const LedgerEntry& then, const LedgerEntry* now) const;

  StageLife life_;
  Stage stage_;
  const PolicyRegistry* registry_ = nullptr;
  std::uint64_t next_event_ = 1;
  bool doubted_ = false;
  // Of the event that was taken last:
  std::uint64_t event_number_ = 0; ///< 0 = none yet.
  std::uint64_t entry_number_ = 0;
  std::int64_t at_us_ = 0;
  std::string event_name_;
  std::string other_effects_;     ///< How its effects differ; "" when they do not.
  std::vector<LedgerEntry> said_; ///< What the stage said now,
  std::size_t compared_ = 0;      ///< and how much of it was found in the ledger.
};

} // namespace troupe::sched
