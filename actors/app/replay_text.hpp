// A replay's report in words and as the document of `troupe replay --json`.

#pragma once

#include "schedulers/replay/replayer.hpp"
#include "schedulers/replay/stage_replayer.hpp"

#include <string>

namespace troupe::app {

/// @param other  name of the set that was asked instead; "" = those of the ledger
std::string replay_text(const sched::ReplayReport& report, const std::string& other);
/// Of the stages that were run again; "" when the ledger has no events.
std::string stages_text(const sched::StagesReport& report);

std::string replay_json(const sched::ReplayReport& report, const sched::StagesReport& stages);

} // namespace troupe::app
