// A rank: shell of rank_stage around one engine; joins the stage's decisions with the token log.
//
// It blocks in engine steps, so it has a thread of its own. Messages that arrive during a step wait
// and are handled before the step's result.

#pragma once

#include "actors/rank_life.hpp"
#include "actors/records/codec.hpp"
#include "actors/shell.hpp"
#include "actors/step_builder.hpp"
#include "actors/token_log.hpp"
#include "engine/engine.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace troupe::actors {

/// What a rank is made of.
struct RankConfig {
  ShellContext context;
  sched::RankOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::shared_ptr<engine::Engine> engine;          ///< Used by this actor only.
  std::shared_ptr<transport::Transport> transport; ///< Used by this actor only.
  std::shared_ptr<RankPulse> pulse;                ///< Never null.
  std::shared_ptr<RankTotals> totals;              ///< Never null.
  /// Steps take the engine's compute_us of the actor clock (null engine).
  bool modelled_time = false;
};

/// Bytes another rank may read until the sequence is forgotten.
struct RegisteredSequence {
  std::string log; ///< Encoded SequenceLog; owned here.
  std::vector<transport::RegionId> regions;
};

/// A pull that has not completed.
struct PendingPull {
  sched::ImportSequence wanted;
  HandoffRecord record;
  std::vector<std::byte> log; ///< Filled by the transport.
};

struct RankState : Shell<sched::RankStage> {
  RankRef rank;
  std::shared_ptr<RankPulse> pulse;
  std::shared_ptr<RankTotals> totals;
  // The memory of registered regions outlives the transport, which others read it through.
  std::shared_ptr<engine::Engine> engine;
  std::map<RequestRef, RegisteredSequence> registered;
  std::map<transport::TransferId, PendingPull> pulls;
  std::shared_ptr<transport::Transport> transport;
  bool modelled_time = false;
  std::unique_ptr<TokenLog> log;
  engine::StepPlan plan; ///< Reused from step to step.
};

/// Takes Assign, RunChunks from the chunker; Reserve, Renew, Pull, Adopt from the balancer; Release
/// from both; ExpertPlan from the manager of experts.
caf::behavior rank_actor(caf::stateful_actor<RankState>* self, RankConfig config);

} // namespace troupe::actors
