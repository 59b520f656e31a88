// One line of JSON per decision, in bounded segment files of a folder.
//
// A ledger that cannot be written warns once, counts, and the job goes on.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::actors {

/// Append-only writer. Thread: any; entries of one caller keep their order.
class Ledger {
public:
  /// Opens `directory` (made if missing) for at most about `size_max_bytes` of segments; the oldest
  /// segment goes first. An existing ledger of the folder is continued.
  static Result<std::shared_ptr<Ledger>> open(const std::string& directory,
                                              std::int64_t size_max_bytes);
  ~Ledger();

  /// What a stage said at `now_us`. Never waits.
  void append(const sched::StageRef& stage, sched::Record record, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Observed observed, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Milestone milestone, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::Finish finish, std::int64_t now_us);
  void append(const sched::StageRef& stage, sched::RankChange change, std::int64_t now_us);
  /// A set is live. Repeated for the same set it says nothing new and is left out.
  void append(sched::SetLive live, std::int64_t now_us);
  /// Before everything else about the request.
  void append(sched::RequestNamed named, std::int64_t now_us);

  /// Writes what is buffered.
  void flush();

  std::int64_t records() const;
  std::int64_t lost() const; ///< Records that could not be written.

  struct State;
  explicit Ledger(std::unique_ptr<State> state);

private:
  std::unique_ptr<State> state_;
};

/// The line written for a record, without newline. Pure.
std::string ledger_line(const sched::Record& record, std::uint64_t number, std::int64_t now_us);

} // namespace troupe::actors
