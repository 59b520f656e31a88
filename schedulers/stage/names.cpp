// Stable names of stages and phases, as logs and the ledger write them.

#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/swap_protocol.hpp"

namespace troupe::sched {

std::string stage_text(const StageRef& stage) {
  switch (stage.kind) {
  case StageKind::driver:
    return "driver";
  case StageKind::prefill:
    return "prefill";
  case StageKind::decode:
    return "decode";
  case StageKind::experts:
    return "experts";
  case StageKind::rank:
    break;
  }
  return "rank " + std::to_string(raw(stage.rank.rank));
}

std::string_view phase_name(Phase phase) noexcept {
  switch (phase) {
  case Phase::waits_for_rank:
    return "waits_for_rank";
  case Phase::waits_for_answer:
    return "waits_for_answer";
  case Phase::waits_for_step:
    return "waits_for_step";
  case Phase::prefilling:
    return "prefilling";
  case Phase::waits_for_room:
    return "waits_for_room";
  case Phase::handing_off:
    return "handing_off";
  case Phase::decoding:
    return "decoding";
  case Phase::ended:
    return "ended";
  }
  return "unknown";
}

} // namespace troupe::sched
