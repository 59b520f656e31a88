// Any event of any stage as one value: recorded from a running system, fed to a stage again.

#pragma once

#include "schedulers/stage/decode_stage.hpp"
#include "schedulers/stage/driver_stage.hpp"
#include "schedulers/stage/expert_stage.hpp"
#include "schedulers/stage/prefill_stage.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "schedulers/stage/supervisor_stage.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

namespace troupe::sched {

/// New ones go to the end: the place of an event is its number on disk.
using Event =
    std::variant<Submit, Cancel, Ended, Tokens, Load, Assign, Assigned, Refused, RunChunks,
                 RankReport, PrefillDone, Reserve, Reserved, Renew, Pull, TransferDone, Adopt,
                 Adopted, Release, RankUp, RankDown, Arrive, StopSeen, Abandon, StepDone, Exported,
                 Imported, Timer, NoRankLeft, RankStarted, RankEnded, Heartbeat, AnswersExpected,
                 SwapPrepare, Prepared, SwapCommit, Committed, SwapAbort, SetRequest, PolicyFault,
                 ExpertLoads, ExpertPlan>;

/// Of the events above, in their order.
inline constexpr std::array<std::string_view, std::variant_size_v<Event>> kEventNames = {
    "submit",        "cancel",       "ended",
    "tokens",        "load",         "assign",
    "assigned",      "refused",      "run_chunks",
    "rank_report",   "prefill_done", "reserve",
    "reserved",      "renew",        "pull",
    "transfer_done", "adopt",        "adopted",
    "release",       "rank_up",      "rank_down",
    "arrive",        "stop_seen",    "abandon",
    "step_done",     "exported",     "imported",
    "timer",         "no_rank_left", "rank_started",
    "rank_ended",    "heartbeat",    "answers_expected",
    "swap_prepare",  "prepared",     "swap_commit",
    "committed",     "swap_abort",   "set_request",
    "policy_fault",  "expert_loads", "expert_plan"};
static_assert(!kEventNames.back().empty(), "every event has a name");

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
