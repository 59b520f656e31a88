// The driver: shell of driver_stage, and the window of lines of one batch job around it.

#pragma once

#include "actors/job_window.hpp"
#include "actors/shell.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe::actors {

struct DriverConfig {
  ShellContext context;
  sched::DriverOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::int64_t inflight_max = 256; ///< Lines in work at once.
  std::int64_t succeeded = 0;      ///< Lines done by earlier runs.
  std::int64_t failed = 0;
  std::function<void(std::int64_t ttft_us, std::int64_t tpot_us)> on_times; ///< tpot -1: none.
};

struct DriverState : Shell<sched::DriverStage> {
  JobWindow window{1};
  std::int64_t requests_max = 0;
  std::map<RequestId, RenderedChoice> ready; ///< Rendered, waiting for room in the system.
  JobState job;
  bool closing = false;
  std::string no_rank; ///< Why no request can run any more; "" while one can.
  std::function<void(std::int64_t, std::int64_t)> on_times;
};

/// Takes Tokens, Ended, Load, RankUp of stages and ranks; RankDown, NoRankLeft of the supervisor;
/// Lines, Written, StoreState of the store; Rendered, Answer, StopFound of the text worker;
/// Interrupt from outside.
caf::behavior driver_actor(caf::stateful_actor<DriverState>* self, DriverConfig config);

} // namespace troupe::actors
