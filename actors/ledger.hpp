// Keeps what stages decided, and on what grounds, in bounded segment files of a folder.
//
// A ledger that cannot be written, or not fast enough, warns once, counts, and the job goes on.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace troupe::actors {

/// What bounds the queue between the stages and the thread that writes.
struct LedgerLimits {
  std::size_t queue_entries_max = 1 << 16;
  std::size_t queue_bytes_max = 32 << 20; ///< About, as held in memory.
  std::size_t wake_entries = 512;         ///< So many are written without waiting any longer.
  std::int64_t wait_us = 50'000;          ///< An entry waits so long at most before it is written.
};

/// A moment of a ledger.
struct LedgerMark {
  std::uint64_t taken = 0;       ///< Entries that its queue had taken in.
  std::uint64_t next_number = 0; ///< Of the first entry after it.
};

/// Append-only. Encoding and writing have a thread of their own. Thread: any; entries of one caller
/// keep their order.
class Ledger {
public:
  /// Opens `directory` (made if missing) for at most `size_max_bytes` of segments; the oldest
  /// segment goes first. An existing ledger of the folder is continued.
  static Result<std::shared_ptr<Ledger>>
  open(const std::string& directory, std::int64_t size_max_bytes, const LedgerLimits& limits = {});
  /// Writes what is queued.
  ~Ledger();

  /// What a stage said at `now_us`. Never waits: when the queue is full the entry is lost, and its
  /// number with it.
  void append(const sched::StageRef& stage, sched::Record record, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Observed observed, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Milestone milestone, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Finish finish, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::RankChange change, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::StageBegan began, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::StageTook took, std::int64_t now_us);
  /// A set is live. Said again of the same set it is left out.
  void append(sched::SetLive live, std::int64_t now_us);
  /// Before everything else about the request.
  void append(sched::RequestNamed named, std::int64_t now_us);

  /// Asks for all that was appended before to be written soon. Never waits.
  LedgerMark mark();
  /// Whether all before the mark is written or lost.
  bool is_written(const LedgerMark& mark) const;
  /// Returns when all that was appended before is written or lost; waits for 10 s at most.
  void flush();

  /// Counts time that a caller spent on an entry before it appended it.
  void charge(std::int64_t ns);

  std::int64_t records() const; ///< Decisions taken in.
  /// Time that callers spent on entries and in append, and that the thread spent on a CPU.
  std::int64_t cost_us() const;
  std::int64_t lost() const; ///< Entries that the queue had no room for, or that no disk took.

  struct State;
  explicit Ledger(std::unique_ptr<State> state);

private:
  std::unique_ptr<State> state_;
};

} // namespace troupe::actors
