// What a ledger holds of one request's time, and the legs of its way through the pipeline.

#pragma once

#include "schedulers/stage/ledger_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::sched {

/// Where a request is, by its newest milestone.
struct Whereabouts {
  RequestRef ref;
  Phase phase{};
  RankRef rank;
  std::int64_t arrival_us = -1; ///< Of its first attempt; -1 = before the ledger begins.
};

/// All live requests.
using Population = std::map<RequestId, Whereabouts>;

/// Takes a milestone or an ending in; milestones of an old attempt change nothing.
void apply(Population& population, const LedgerEntry& entry);

/// One request's time in a ledger.
struct Life {
  RequestId request{};
  std::string custom_id;
  std::optional<Finish> finish;
  std::int64_t last_us = 0;         ///< Of the newest entry of the ledger, or the time of asking.
  bool runs = false;                ///< It has not ended, and somebody works on it.
  Population others;                ///< When it arrived.
  std::vector<LedgerEntry> entries; ///< Of all stages while it lived; see sort_by_time().
  std::int64_t missing = 0;         ///< Entries of that time that the ledger lost.
};

/// Entries of different stages come into a ledger as their threads go. Their clock is one, so time
/// orders them, and the number those of one instant: what caused an entry stands before it.
void sort_by_time(std::vector<LedgerEntry>& entries);

/// From one milestone to the next, or from a refusal to the next decision.
struct Leg {
  RequestRef ref;
  Phase phase{};
  StageKind said_by{};
  RankRef rank;
  std::string detail;
  const Record* choice = nullptr;  ///< The decision that led here.
  const Record* refusal = nullptr; ///< The decision that denied it what it waits for.
  std::int64_t from_us = 0;
  std::int64_t to_us = 0;
  std::size_t first = 0; ///< Entries [first, last) of the life lie in it.
  std::size_t last = 0;
  std::size_t since = 0; ///< decoding: `first` of the move before, in which its steps may begin.
};

/// The legs of a life in order, each beginning where the one before ends.
///
/// Milestones of an attempt that is over, and those after the ending, change nothing: the stage
/// that said them had not heard yet. Pointers are into `life`. @pre its entries are sorted
std::vector<Leg> legs_of(const Life& life);

/// Whether a request in phase `from` may enter phase `to`, in the same attempt or the next one.
bool may_follow(Phase from, Phase to, bool same_attempt) noexcept;

} // namespace troupe::sched
