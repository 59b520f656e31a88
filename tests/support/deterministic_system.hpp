// All actors of a process under virtual time: jobs run when asked, time jumps to the next timer.
//
// No thread, no wall clock: the same job gives the same sequence of events.

#pragma once

#include "actors/app/prompt_job.hpp"
#include "actors/app/system_actors.hpp"

#include <caf/actor_system.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

/// Settings of a virtual-time actor system.
struct VirtualTime : caf::actor_system_config {
  VirtualTime() {
    add_message_types<caf::id_block::troupe>();
    actors::use_virtual_time(*this);
  }
};

/// A batch job on null engines.
class DeterministicSystem {
public:
  struct Options {
    app::SystemConfig config; ///< Ranks must be on device "null".
    sched::PolicySet policies;
    actors::StageTap tap;
    std::int64_t inflight_max = 64;
    std::string ledger_directory; ///< "" = no ledger.
    app::EngineWrap wrap{};
    actors::EffectsWatch watch{};
    std::function<void(const sched::SetLive&)> on_live{};
    std::shared_ptr<const sched::PolicyRegistry> registry{}; ///< Null: the built-ins.
  };

  /// @param model  checkpoint folder; tokenizer and configuration are used, no weights
  DeterministicSystem(Options options, const std::string& model);
  ~DeterministicSystem();

  app::PromptJob& job() { return *job_; }

  /// Runs until the job ended or `virtual_s` seconds passed. The last state the driver told.
  actors::JobState run(std::int64_t virtual_s);

  /// Runs jobs and timers for `virtual_us`, whatever happens.
  void pass(std::int64_t virtual_us);

  void interrupt(std::int32_t level) {
    caf::anon_send(all_.peers->driver, actors::Interrupt{level});
  }

  const app::SystemActors& actors() const { return all_; }

  /// Delayed messages that the clock holds.
  std::size_t pending_delays() const { return scheduler_.clock().schedule().size(); }

private:
  void drain();

  VirtualTime settings_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  caf::scoped_actor self_;
  std::shared_ptr<app::PromptJob> job_ = std::make_shared<app::PromptJob>();
  app::SystemActors all_;
  actors::JobState last_;
};

} // namespace troupe::test
