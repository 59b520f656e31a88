// The driver: shell of driver_stage, and the window of lines of one batch job around it.

#pragma once

#include "actors/job_window.hpp"
#include "actors/shell.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe::actors {

/// Hears of each request on the driver's thread. Either may be empty.
struct RequestWatch {
  std::function<void(const sched::Arrive&)> arrives;
  std::function<void(const sched::Finish&)> finishes;
};

struct DriverConfig {
  ShellContext context;
  sched::DriverOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::int64_t inflight_max = 256; ///< Lines in work at once.
  std::int64_t succeeded = 0;      ///< Lines done by earlier runs.
  std::int64_t failed = 0;
  RequestWatch watch;
};

struct DriverState : Shell<sched::DriverStage> {
  JobWindow window{1};
  std::int64_t requests_max = 0;
  std::map<RequestId, RenderedChoice> ready; ///< Rendered, waiting for room in the system.
  JobState job;
  bool closing = false;
  std::string no_rank; ///< Why no request can run any more; "" while one can.
  RequestWatch watch;
};

/// Takes Tokens, Ended, Load, RankUp of stages and ranks; RankDown, NoRankLeft of the supervisor;
/// Lines, Written, StoreState of the store; Rendered, Answer, StopFound of the text worker;
/// Interrupt from outside.
caf::behavior driver_actor(caf::stateful_actor<DriverState>* self, DriverConfig config);

} // namespace troupe::actors
