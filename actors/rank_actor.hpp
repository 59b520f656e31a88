// A rank: shell of rank_stage around one engine; joins the stage's decisions with the token log.
//
// Its engine computes on a lane of its own (engine_lane.hpp): the actor never waits for a step, and
// messages that arrive meanwhile are handled at once. Plans and results meet the token log here.

#pragma once

#include "actors/engine_lane.hpp"
#include "actors/rank_life.hpp"
#include "actors/records/codec.hpp"
#include "actors/shell.hpp"
#include "actors/step_builder.hpp"
#include "actors/step_runner.hpp"
#include "actors/token_log.hpp"
#include "engine/engine.hpp"
#include "transport/transport.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// What a rank is made of.
struct RankConfig {
  ShellContext context;
  sched::RankOptions options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::shared_ptr<engine::Engine> engine;          ///< Used by this actor's lane only.
  std::shared_ptr<transport::Transport> transport; ///< Used by this actor only.
  std::shared_ptr<RankPulse> pulse;                ///< Never null.
  std::shared_ptr<RankTotals> totals;              ///< Never null.
  /// Steps take the engine's compute_us of the actor clock (null engine).
  bool modelled_time = false;
  bool lane_thread = false; ///< Else the engine is called where it is needed.
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

/// A step on its way through the engine.
struct StepWork {
  sched::RunStep asked;
  PlannedStep planned;
  std::optional<Result<engine::StepResult>> result;
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
  std::int64_t device_free_us = 0; ///< With modelled time: when the last step ends.
  bool stopping = false;
  std::int64_t idle_told_us = 0; ///< Of the lane, in the totals.
  std::unique_ptr<TokenLog> log;
  std::vector<std::shared_ptr<StepWork>> spare; ///< Of steps that are done: their memory is reused.
  std::unique_ptr<StepRunner> runner;
  std::unique_ptr<EngineLane> lane; ///< Last: what it runs uses all of the above.
};

/// Takes Assign, RunChunks from the chunker; Reserve, Renew, Pull, Adopt from the balancer; Release
/// from both; ExpertPlan from the manager of experts.
caf::behavior rank_actor(caf::stateful_actor<RankState>* self, RankConfig config);

} // namespace troupe::actors
