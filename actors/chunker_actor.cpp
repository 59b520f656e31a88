#include "actors/chunker_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

namespace troupe::actors {

caf::behavior chunker_actor(caf::stateful_actor<ChunkerState>* self, ChunkerConfig config) {
  return stage_behavior<sched::Submit, sched::AnswersExpected, sched::Cancel, sched::Assigned,
                        sched::Refused, sched::RankReport, sched::RankUp, sched::RankDown,
                        sched::SwapPrepare, sched::SwapCommit, sched::SwapAbort>(
      self, "prefill", sched::StageKind::prefill, std::move(config));
}

} // namespace troupe::actors
