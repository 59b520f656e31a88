// Events of stages and what stages are built from ↔ bytes: a part of the codec of the ledger.

#pragma once

#include "schedulers/core/result.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <string>
#include <string_view>

namespace troupe::actors {

/// An EventRecord of events.proto.
void encode(const sched::Event& event, std::string& out);
/// Errors say what is no event, or contradicts itself.
Result<sched::Event> decode_event(std::string_view bytes);

/// An OptionsRecord of events.proto.
void encode(const sched::StageOptions& options, std::string& out);
Result<sched::StageOptions> decode_options(std::string_view bytes);

} // namespace troupe::actors
