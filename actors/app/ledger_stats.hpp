// What a ledger holds, counted: the document of `troupe ledger stats`.

#pragma once

#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace troupe::app {

/// Decisions by one set.
struct EpochTotals {
  std::string name; ///< "" when the set itself is not in the ledger.
  std::int64_t decisions = 0;
};

/// Fed with the entries of a ledger in order.
struct LedgerStats {
  std::int64_t records = 0; ///< Entries of every kind.
  std::set<RequestId> requests;
  std::int64_t decisions = 0;
  std::map<PolicyEpoch, EpochTotals> epochs;
  std::map<std::string, std::int64_t> kinds; ///< Decisions by kind of policy.
  std::int64_t lives = 0;                    ///< Of stages whose events are kept.
  std::int64_t events = 0;
  std::map<std::string, std::int64_t> event_names; ///< Events by name.
  std::int64_t invalid = 0;   ///< Answers that did not count: they broke a rule, or never came.
  std::int64_t fallbacks = 0; ///< Decisions that the default of the kind made in their place.
  std::int64_t dropped = 0;   ///< Entries that have a number and are not there.
  std::int64_t first_us = -1; ///< Clock of the entries; -1 without one.
  std::int64_t last_us = -1;

  void add(const sched::LedgerEntry& entry);
};

std::string stats_text(const LedgerStats& stats);
std::string stats_json(const LedgerStats& stats);

} // namespace troupe::app
