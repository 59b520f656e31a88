// Policy sets ↔ their records: a part of the codec of the ledger.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

namespace troupe::records {
class LiveSet;
} // namespace troupe::records

namespace troupe::actors {

void put(const sched::SetLive& live, records::LiveSet& out);
Result<sched::SetLive> take_set(const records::LiveSet& in);

} // namespace troupe::actors
