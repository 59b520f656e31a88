// Table of the prefill stage: requests, where they stand, and the work of each rank.
//
// It answers what can ever run and how much work a rank has; the stage decides and sends.

#pragma once

#include "schedulers/model/cost_model.hpp"
#include "schedulers/stage/rank_book.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched {

/// Where a request stands, in order.
enum class PrefillWhere : std::uint8_t {
  waiting,   ///< In the queue, no rank yet.
  assigning, ///< Offered to a rank that has not answered.
  assigned,  ///< On a rank, prefill not complete.
  finished,  ///< Prefill complete; the rank still holds it.
};

struct PrefillEntry {
  Submit submit; ///< Its work is dropped once a rank confirmed it.
  RequestView view;
  std::int64_t planned = 0; ///< Tokens computed or in a step in flight, as its rank said.
  PrefillWhere where = PrefillWhere::waiting;
  std::uint64_t serial = 0;
  RankRef rank;
  std::set<RankId> tried; ///< Refused it in this round.
  std::uint32_t sent = 0; ///< Times the current Assign went out.
  std::int64_t not_before_us = 0;
  bool blocked = false; ///< "No room" is in the ledger already.
  bool started = false; ///< A chunk of it was sent to its rank.
};

/// Work of one rank: who is there, what it asked for, what it was last given.
struct PrefillDesk {
  std::set<RequestRef> requests; ///< Assigning or assigned.
  std::optional<std::uint64_t> pull;
  std::optional<RunChunks> answer; ///< To the newest step, kept in case it got lost.
  std::int64_t answered_us = 0;
  std::int64_t budget_ps = 0;    ///< tau of a step on this rank.
  std::int64_t in_flight_ps = 0; ///< Estimated cost of that answer while it runs.
};

struct PrefillTable {
  CostModel cost_model;
  RankBook book;
  std::map<RankId, PrefillDesk> desks;
  std::map<RequestRef, PrefillEntry> entries;
  std::map<std::uint64_t, RequestRef> assigning; ///< By serial: for the timer of an Assign.
  std::set<RequestRef> waiting;
  std::int64_t waiting_tokens = 0; ///< Still to prefill of those that wait.

  void refresh_work(PrefillEntry& entry) const;

  /// Queue estimate W of a rank: policies.md section 2.1, the running step counted down.
  std::int64_t work_ps(const PrefillDesk& desk, std::int64_t now_us) const;
  /// Largest step budget of a live prefill rank; 0 without one.
  std::int64_t largest_budget_ps() const;
  RankView prefill_view(const RankEntry& rank, std::int64_t now_us) const;
  /// All live ranks that prefill, ascending by id.
  std::vector<RankView> prefill_views(std::int64_t now_us) const;

  /// Whether a prefill on `rank` could go on to the end: on the rank itself or on a decode rank.
  bool could_end(const PlacementQuery& query, const RankView& rank) const;
  /// Whether no rank, live or coming back, could ever hold the request; false while no prefill rank
  /// is known.
  bool never_fits(const PrefillEntry& entry) const;
  /// When the first of those that pause in the queue may be routed; none: nobody pauses.
  std::optional<std::int64_t> pause_ends_us(std::int64_t now_us) const;
  /// For a person: what it needs and what there is.
  std::string why_never(const PrefillEntry& entry) const;

  /// Whether a rank is left that has not refused the request in this round and could run it.
  bool untried_left(const PrefillEntry& entry) const;
  /// Queue and least work, without what moved.
  Load load_now(std::int64_t now_us) const;
  /// What a report says of prefills on its rank. Those that advanced are added to `moved`.
  void take_progress(const RankReport& report, std::vector<Standing>& moved);

  /// Into the queue and out of it; each twice is one.
  void enqueue(const PrefillEntry& entry);
  void dequeue(const PrefillEntry& entry);
  void leave_rank(PrefillEntry& entry);
  void erase(const RequestRef& ref);
  void back_to_queue(PrefillEntry& entry);
  std::vector<RequestRef> keys() const;
};

} // namespace troupe::sched
