// Holds the statements of a story against the entries of its ledger, by computations of its own.

#pragma once

#include "schedulers/explain/story.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace troupe::sched::testing {

/// What became of one statement.
struct Verdict {
  std::string kind;    ///< Which checker knew it; "" = none.
  std::string problem; ///< "" = it is true.
};

class Witness {
public:
  /// @param entries  of one run, ascending by time and number
  Witness(const std::vector<LedgerEntry>& entries, std::map<RankId, std::string> ranks);

  const std::vector<LedgerEntry>& entries() const noexcept { return *entries_; }

  Verdict check(const Story& story, const StorySpan& span, const std::string& fact) const;
  /// Whether the decisions of a story are those of the ledger; "" or what differs.
  std::string check_decisions(const Story& story) const;

  /// Names of all checkers.
  static std::vector<std::string> kinds();

  /// The stretch of entries that a span is about.
  struct Stretch {
    RequestRef ref;
    RankRef rank;
    std::string detail;                  ///< Of the milestone that opened it.
    std::int64_t from_us = 0, to_us = 0; ///< Clock of the ledger.
    std::int64_t arrival_us = 0;         ///< Likewise.
    std::size_t first = 0, last = 0;     ///< Entries [first, last).
    std::size_t moved = 0;               ///< Of decoding: the first entry of the move before.
    bool by_driver = false;
    std::vector<const Record*> decisions;  ///< Of the request, at its first instant or before.
    std::vector<const Milestone*> openers; ///< Milestones of the request at its first instant.
  };

  const std::string& rank_name(RankId rank) const { return names_.at(rank); }

private:
  Stretch stretch_of(const Story& story, const StorySpan& span) const;

  const std::vector<LedgerEntry>* entries_;
  std::map<RankId, std::string> names_;
};

} // namespace troupe::sched::testing
