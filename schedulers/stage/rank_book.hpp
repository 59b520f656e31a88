// What a stage knows of the ranks: last report, and its own promises that no report covers yet.
//
// A view without the promises would send every request of a burst to the same rank.

#pragma once

#include "schedulers/model/rank_view.hpp"
#include "schedulers/stage/effects.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace troupe::sched {

/// Room that a stage asked a rank for on behalf of one request.
struct Promise {
  std::int64_t blocks = 0;
  std::int64_t positions = 0;  ///< Context it will bring when it decodes.
  bool room_confirmed = false; ///< The rank said yes: its next report counts the room.
  bool room_covered = false;   ///< A report counted it.
  bool run_confirmed = false;  ///< The rank runs it: after its next report the promise is over.
};

/// One rank in its current life.
struct RankEntry {
  RankUp up;
  RankReport report; ///< Without its lists; zero seq before the first one.
  std::int64_t as_of_us = 0;
  std::map<RequestRef, Promise> promises;
  bool refused = false; ///< It said no since its last report: counted as full until the next.
};

/// All live ranks, ascending by id. Old incarnations and repeated reports change nothing.
class RankBook {
public:
  /// False when `up` is of an old life. A rank of another life with the same id is gone: take it
  /// out with find() before.
  bool add(const RankUp& up, std::int64_t now_us);
  /// False when that life is not the current one.
  bool remove(RankRef rank);
  /// Limits of ranks that are down and will come back; what only they could hold waits.
  const std::map<RankId, RankUp>& away() const noexcept { return away_; }
  void expect_back(const RankUp& up) { away_[up.rank.rank] = up; }
  /// The rank will not come back after all. False when nobody waited for it.
  bool give_up(RankId rank) { return away_.erase(rank) != 0; }
  /// False when the report is old. Promises that it covers end.
  bool take(const RankReport& report, std::int64_t now_us);

  /// Takes refused ranks at the word of their last report again.
  void forget_refusals();

  RankEntry* find(RankId rank);
  /// The rank when it is in this very life, else null.
  RankEntry* current(RankRef rank);
  const std::map<RankId, RankEntry>& ranks() const noexcept { return ranks_; }

  /// Snapshot with the promises applied; queued and work_ps are left to the caller.
  static RankView view(const RankEntry& entry);
  /// What a rank that is away could hold; nothing is free there.
  static RankView view(const RankUp& away);

private:
  std::map<RankId, RankEntry> ranks_;
  std::map<RankId, RankUp> away_;
};

/// Candidates of a placement for the ledger: score, or infeasible.
std::vector<Candidate> candidates_of(const PlacementQuery& query, std::span<const RankView> ranks,
                                     std::span<const std::int64_t> scores);

/// Age of the oldest snapshot among `ranks`.
std::int64_t oldest_age_us(std::span<const RankView> ranks, std::int64_t now_us);

} // namespace troupe::sched
