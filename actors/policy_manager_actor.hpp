// The policy manager: shell of manager_stage. Answers who asked for a swap, publishes what is live,
// and says each swap and each rollback in the log.

#pragma once

#include "actors/manager_facts.hpp"
#include "actors/shell.hpp"
#include "schedulers/stage/ledger_entry.hpp"
#include "schedulers/stage/manager_stage.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace troupe::actors {

struct PolicyManagerConfig {
  ShellContext context;
  sched::ManagerOptions options;
  sched::PolicySet first;              ///< The set that every stage is built from.
  std::shared_ptr<ManagerFacts> facts; ///< Never null.
  /// Hears of each set after the first before any stage decides by it. May be empty.
  std::function<void(const sched::SetLive&)> on_live;
  /// Hears SwapEnded of questions that came without a sender; may be empty.
  caf::actor asker;
};

/// Who waits for the end of a swap.
struct SwapAsker {
  caf::actor actor;           ///< May be empty.
  std::uint64_t question = 0; ///< As it was asked.
  std::string name;           ///< Of the set.
};

struct PolicyManagerState {
  PolicyManagerConfig config;
  std::unique_ptr<sched::ManagerStage> stage;
  TimerQueue timers;
  std::map<std::uint64_t, SwapAsker> askers; ///< By the number that the stage knows.
  std::uint64_t questions = 0;
  PolicyEpoch told{}; ///< Newest set that was told.
  std::size_t faults_said = 0;
};

/// Takes SwapAsked, RollbackAsked, PromoteAsked from outside; Prepared, Committed, SetRequest,
/// PolicyFault of stages; RequestEnded of the driver; RankDown of the supervisor.
caf::behavior policy_manager_actor(caf::stateful_actor<PolicyManagerState>* self,
                                   PolicyManagerConfig config);

} // namespace troupe::actors
