// The manager of experts: shell of expert_stage.
//
// A plan of a large model takes tens of milliseconds, so it has a thread of its own.

#pragma once

#include "actors/shell.hpp"
#include "schedulers/stage/expert_stage.hpp"

#include <memory>
#include <mutex>

namespace troupe::actors {

/// What the stage counted, published after each of its events. Thread: any.
class ExpertFacts {
public:
  void publish(const sched::ExpertCounts& counts) {
    const std::lock_guard lock(mutex_);
    counts_ = counts;
  }
  sched::ExpertCounts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }

private:
  mutable std::mutex mutex_;
  sched::ExpertCounts counts_;
};

struct ExpertConfig {
  StageConfig<sched::ExpertOptions> stage;
  std::shared_ptr<ExpertFacts> facts; ///< Never null.
};

struct ExpertState : Shell<sched::ExpertStage> {
  std::shared_ptr<ExpertFacts> facts;
};

/// Takes ExpertLoads of ranks, and policy sets of the policy manager.
caf::behavior expert_actor(caf::stateful_actor<ExpertState>* self, ExpertConfig config);

} // namespace troupe::actors
