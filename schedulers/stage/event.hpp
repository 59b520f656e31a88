// Any event of any stage as one value: recorded from a running system, fed to a stage again.

#pragma once

#include "schedulers/stage/decode_stage.hpp"
#include "schedulers/stage/driver_stage.hpp"
#include "schedulers/stage/expert_stage.hpp"
#include "schedulers/stage/prefill_stage.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/supervisor_stage.hpp"

#include <cstdint>
#include <variant>

namespace troupe::sched {

using Event =
    std::variant<Submit, Cancel, Ended, Tokens, Load, Assign, Assigned, Refused, RunChunks,
                 RankReport, PrefillDone, Reserve, Reserved, Renew, Pull, TransferDone, Adopt,
                 Adopted, Release, RankUp, RankDown, Arrive, StopSeen, Abandon, StepDone, Exported,
                 Imported, Timer, NoRankLeft, RankStarted, RankEnded, Heartbeat, AnswersExpected,
                 SwapPrepare, Prepared, SwapCommit, Committed, SwapAbort, SetRequest, PolicyFault,
                 ExpertLoads, ExpertPlan>;

/// Feeds `event` to `stage` and returns true, or returns false when it has no handler for it.
template <class Stage>
bool deliver(Stage& stage, const Event& event, std::int64_t now_us, Effects& effects) {
  return std::visit(
      [&](const auto& e) {
        if constexpr (requires { stage.on(e, now_us, effects); }) {
          stage.on(e, now_us, effects);
          return true;
        } else {
          return false;
        }
      },
      event);
}

} // namespace troupe::sched
