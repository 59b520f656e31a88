// The prefill chunker: shell of prefill_stage.

#pragma once

#include "actors/shell.hpp"

namespace troupe::actors {

using ChunkerConfig = StageConfig<sched::PrefillOptions>;
using ChunkerState = Shell<sched::PrefillStage>;

/// Takes Submit, AnswersExpected, Cancel from the driver; Assigned, Refused, RankReport, RankUp of
/// ranks; RankDown of the supervisor.
caf::behavior chunker_actor(caf::stateful_actor<ChunkerState>* self, ChunkerConfig config);

} // namespace troupe::actors
