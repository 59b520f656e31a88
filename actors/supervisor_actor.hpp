// The supervisor: shell of supervisor_stage. Watches the actors of ranks and makes their next ones.
//
// It opens engines, so it has a thread of its own. A thread that hangs cannot be ended: its life is
// fenced and left alone until it returns or the process ends.

#pragma once

#include "actors/rank_life.hpp"
#include "actors/shell.hpp"
#include "schedulers/stage/supervisor_stage.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace troupe::actors {

/// What became of the lives of ranks. Thread: any.
struct SupervisorFacts {
  std::atomic<std::int64_t> lost{0};
  std::atomic<std::int64_t> restarts{0};
  std::atomic<std::int64_t> hanging{0}; ///< Abandoned lives whose thread has not returned.
};

struct SupervisorConfig {
  ShellContext context;
  sched::SupervisorOptions options;
  std::vector<RankLife> ranks; ///< First lives.
  /// Makes a life and puts it into the table of peers; may take as long as opening an engine.
  std::function<Result<RankLife>(RankRef)> make;
  std::function<std::int64_t()> memory_available_bytes;
  std::shared_ptr<SupervisorFacts> facts; ///< Never null.
};

struct SupervisorState : Shell<sched::SupervisorStage> {
  SupervisorConfig config;
  std::map<RankId, RankLife> lives;           ///< That count.
  std::map<caf::actor_addr, RankRef> watched; ///< Actors that have not ended.
  std::set<RankRef> abandoned;                ///< Of those, the ones that are fenced.
  std::chrono::milliseconds heartbeat_every{1000};
  bool stopping = false;
};

/// Takes the ends of rank actors. Stop ends the ranks, then itself.
caf::behavior supervisor_actor(caf::stateful_actor<SupervisorState>* self, SupervisorConfig config);

} // namespace troupe::actors
