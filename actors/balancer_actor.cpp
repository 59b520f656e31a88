#include "actors/balancer_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

namespace troupe::actors {

caf::behavior balancer_actor(caf::stateful_actor<BalancerState>* self, BalancerConfig config) {
  return stage_behavior<sched::PrefillDone, sched::Cancel, sched::Reserved, sched::Refused,
                        sched::TransferDone, sched::Adopted, sched::RankReport, sched::RankUp,
                        sched::RankDown, sched::SwapPrepare, sched::SwapCommit, sched::SwapAbort>(
      self, "decode", sched::StageKind::decode, std::move(config));
}

} // namespace troupe::actors
