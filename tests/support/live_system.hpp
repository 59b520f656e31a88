// A batch job on a running system of real threads and engines, answers kept in memory.

#pragma once

#include "actors/app/local_system.hpp"
#include "actors/app/prompt_job.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// Endpoint and body of a request.
using Request = std::pair<text::Endpoint, std::string>;

struct LiveRun {
  actors::JobState state;
  std::map<std::int64_t, std::string> answers; ///< Number of the request to its answer line.
  std::int64_t failed = 0;
  std::int64_t kv_blocks_held = 0;
  std::int64_t slots_held = 0;
  std::int64_t restarts = 0;    ///< Of ranks.
  actors::ManagerView policies; ///< At the end.
  bool conserved = true; ///< On every rank free and held are together what they were at start.
};

/// What a test may add to a run.
struct LiveOptions {
  sched::PolicySet policies;
  actors::StageTap tap;
  actors::EffectsWatch watch;
  std::function<void(const sched::SetLive&)> on_live;
  std::uint64_t first_epoch = 1;
  std::shared_ptr<const sched::PolicyRegistry> registry; ///< Null: the built-ins.
  std::string ledger_directory;                          ///< "" = no ledger.
  app::EngineWrap wrap;
  std::shared_ptr<app::BatchJob> job; ///< Runs instead of the requests; answers are then its own.
  /// Called when the system runs, before anything is received.
  std::function<void(app::LocalSystem&)> on_system;
  std::int64_t settle_ms = 0; ///< Waits so long at most after the end until nothing is held.
};

/// Runs `requests` on `config`, whose model path is set. Throws std::runtime_error when the system
/// cannot be built.
LiveRun run_live(const app::SystemConfig& config, const std::vector<Request>& requests,
                 const LiveOptions& extra = {});

} // namespace troupe::test
