// Every actor of one process, spawned and wired: ranks, supervisor, policy manager, chunker,
// balancer, manager of experts, driver, text worker, journal writer.

#pragma once

#include "actors/app/histogram.hpp"
#include "actors/app/journal.hpp"
#include "actors/app/rank_maker.hpp"
#include "actors/app/system_config.hpp"
#include "actors/app/text_desk.hpp"
#include "actors/expert_actor.hpp"
#include "actors/manager_facts.hpp"
#include "actors/metrics.hpp"
#include "actors/shadow_lane.hpp"
#include "actors/shell.hpp"
#include "actors/supervisor_actor.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::app {

/// Everything a system is made of, besides its engines.
struct SystemOptions {
  SystemConfig config;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
  std::shared_ptr<BatchJob> job;
  TextOptions text;             ///< Complete but for what the model decides.
  std::string ledger_directory; ///< "" = no ledger.
  std::int64_t inflight_max = 256;
  bool tell_pieces = false;
  actors::StageTap tap;                     ///< May be empty.
  actors::EffectsWatch watch;               ///< May be empty.
  EngineWrap wrap;                          ///< May be empty.
  std::shared_ptr<actors::Metrics> metrics; ///< Hears of requests; may be null.
  std::uint64_t first_epoch = 1; ///< Of `policies`: above every epoch of the ledger's folder.
  /// Hears of every set that goes live, the first one included; may be empty. Thread: any, one
  /// call at a time.
  std::function<void(const sched::SetLive&)> on_live;
  caf::actor swap_asker; ///< Hears SwapEnded of asks without a sender; may be empty.
};

/// Options of the stages that a configuration means.
sched::DriverOptions driver_options(const SystemConfig& config);
sched::PrefillOptions prefill_options(const SystemConfig& config);
sched::DecodeOptions decode_options(const SystemConfig& config);
/// @param layers, experts  of the model; without layers no plan is made
sched::ExpertOptions expert_options(const SystemConfig& config, std::int64_t layers,
                                    std::int64_t experts);
/// Whether `[experts]` asks for a shape that a model of so many experts can have.
Status check_experts(const SystemConfig& config, std::int64_t experts);
sched::ManagerOptions manager_options(const SystemConfig& config);

/// What was spawned, and what it counts.
struct SystemActors {
  std::shared_ptr<actors::Peers> peers = std::make_shared<actors::Peers>();
  std::shared_ptr<actors::ShellCounters> counters = std::make_shared<actors::ShellCounters>();
  caf::actor supervisor;
  std::shared_ptr<actors::SupervisorFacts> supervised = std::make_shared<actors::SupervisorFacts>();
  std::shared_ptr<actors::ExpertFacts> experts = std::make_shared<actors::ExpertFacts>();
  std::shared_ptr<actors::StageTable> stages = std::make_shared<actors::StageTable>();
  std::shared_ptr<actors::ManagerFacts> policies = std::make_shared<actors::ManagerFacts>();
  std::shared_ptr<actors::ShadowLane> shadows;                     ///< Never null once spawned.
  std::shared_ptr<actors::Ledger> ledger;                          ///< May be null.
  std::vector<std::shared_ptr<actors::RankTotals>> totals;         ///< Ascending by rank.
  std::shared_ptr<Histogram> ttft = std::make_shared<Histogram>(); ///< Written by the driver.
  std::shared_ptr<Histogram> tpot = std::make_shared<Histogram>();
};

/// Spawns all actors. Nothing runs before start(). Engines belong to their ranks from then on.
///
/// @param threads   Threads::own in production, Threads::shared under virtual time
/// @param listener  hears JobState and Piece; may be empty
SystemActors spawn_system(caf::actor_system& system, actors::Threads threads, SystemOptions options,
                          std::vector<OpenedRank> ranks, const caf::actor& listener);

/// First messages: ranks announce themselves, the driver asks for lines.
void start(const SystemActors& all);

} // namespace troupe::app
