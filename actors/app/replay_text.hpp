// A replay's report in words and as the document of `troupe replay --json`.

#pragma once

#include "schedulers/replay/replayer.hpp"

#include <string>

namespace troupe::app {

/// @param other  name of the set that was asked instead; "" = those of the ledger
std::string replay_text(const sched::ReplayReport& report, const std::string& other);
std::string replay_json(const sched::ReplayReport& report);

} // namespace troupe::app
