// Events of stages, and what stages are built from, as JSON.

#pragma once

#include "actors/json_writer.hpp"
#include "schedulers/stage/ledger_entry.hpp"

namespace troupe::actors {

/// The fields of an entry, into an object that is open.
void event_fields(JsonWriter& json, const sched::StageBegan& began);
void event_fields(JsonWriter& json, const sched::StageTook& took);

/// "step_done"; "start".
std::string_view event_name(const sched::StageTook& took) noexcept;

} // namespace troupe::actors
