// Questions and answers of stages ↔ their records: a part of the codec of the ledger.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/policy/questions.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace troupe::records {
class AskedRecord;
class LedgerObserved;
} // namespace troupe::records

namespace troupe::actors {

/// @param policy  of the record around it, which the question's mostly equals
/// @param at_us   of the entry: times are written as distances
void put(const sched::Asked& asked, const std::string& policy, std::int64_t at_us,
         records::AskedRecord& out);
void put(const sched::QueueObservation& seen, std::int64_t at_us, records::LedgerObserved& out);

/// Errors say what contradicts itself. The record is spent by it.
Result<sched::Asked> take_asked(records::AskedRecord& in, const std::string& policy,
                                std::int64_t at_us);
Result<sched::QueueObservation> take_observation(records::LedgerObserved& in, std::int64_t at_us);

/// Ranks of a question, in its order; empty when it is about none.
std::span<const sched::RankView> ranks_of(const sched::Asked& asked);
/// Scores of an answer; empty when it has none.
std::span<const std::int64_t> scores_of(const sched::Asked& asked);
/// "prefill_router".
std::string_view kind_of(const sched::Asked& asked);

} // namespace troupe::actors
