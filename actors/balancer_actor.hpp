// The decode balancer: shell of decode_stage with its handoffs.

#pragma once

#include "actors/shell.hpp"

namespace troupe::actors {

using BalancerConfig = StageConfig<sched::DecodeOptions>;
using BalancerState = Shell<sched::DecodeStage>;

/// Takes PrefillDone, Reserved, Refused, TransferDone, Adopted, RankReport, RankUp of ranks;
/// RankDown of the supervisor; Cancel from the driver.
caf::behavior balancer_actor(caf::stateful_actor<BalancerState>* self, BalancerConfig config);

} // namespace troupe::actors
