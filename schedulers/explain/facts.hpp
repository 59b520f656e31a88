// Why a leg of a life was as long as it was: statements about records of the ledger.
//
// Every number in a statement is a count over the entries of the life, or a field of one of them.

#pragma once

#include "schedulers/explain/life.hpp"
#include "schedulers/explain/words.hpp"

#include <string>
#include <vector>

namespace troupe::sched {

/// "waiting in the queue".
std::string what_text(const Leg& leg, const RankNames& names);

/// What led to this leg. Still worth telling when the leg itself took no time.
std::vector<std::string> opening_facts(const Life& life, const Leg& leg, const RankNames& names);

/// What happened in it. @param arrival_us  of the request
std::vector<std::string> meanwhile_facts(const Life& life, const Leg& leg, const RankNames& names,
                                         std::int64_t arrival_us);

} // namespace troupe::sched
