// Entries of the ledger for people and for other programs.

#pragma once

#include "schedulers/stage/ledger_entry.hpp"

#include <string>

namespace troupe::actors {

/// All of an entry as one JSON object on one line, without newline: equal entries give equal text.
std::string entry_json(const sched::LedgerEntry& entry);

/// What an entry says, in one line without newline.
std::string entry_words(const sched::LedgerEntry& entry);

/// An answer in one line: "rank 2, lowest_score, scores 0:50 2:40".
std::string answer_words(const sched::Asked& asked);

/// "decision", "observed", "milestone", "finish", "set_live", "named", "rank_change", "began",
/// "event".
std::string_view entry_kind(const sched::LedgerEntry& entry) noexcept;

} // namespace troupe::actors
