// The prefill chunker: shell of prefill_stage.

#pragma once

#include "actors/shell.hpp"

namespace troupe::actors {

struct ChunkerConfig {
  ShellContext context;
  sched::PrefillOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
};

using ChunkerState = Shell<sched::PrefillStage>;

/// Takes Submit, AnswersExpected, Cancel from the driver; Assigned, Refused, RankReport, RankUp, RankDown of ranks.
caf::behavior chunker_actor(caf::stateful_actor<ChunkerState>* self, ChunkerConfig config);

} // namespace troupe::actors
