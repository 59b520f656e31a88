// The decode balancer: shell of decode_stage with its handoffs.

#pragma once

#include "actors/shell.hpp"

namespace troupe::actors {

struct BalancerConfig {
  ShellContext context;
  sched::DecodeOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
};

using BalancerState = Shell<sched::DecodeStage>;

/// Takes PrefillDone, Reserved, Refused, TransferDone, Adopted, RankReport, RankUp, RankDown of
/// ranks; Cancel from the driver.
caf::behavior balancer_actor(caf::stateful_actor<BalancerState>* self, BalancerConfig config);

} // namespace troupe::actors
