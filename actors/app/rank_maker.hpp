// Makes the lives of ranks: an engine over the shared weights, an endpoint, and the actor on top.

#pragma once

#include "actors/app/system_config.hpp"
#include "actors/manager_facts.hpp"
#include "actors/rank_actor.hpp"
#include "actors/rank_life.hpp"
#include "actors/shell.hpp"
#include "engine/engine.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "transport/loopback/loopback.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::app {

/// A rank with its first engine.
struct OpenedRank {
  std::string name; ///< "prefill-0"
  RankGroupConfig group;
  std::shared_ptr<engine::Engine> engine;         ///< Of its first life.
  std::shared_ptr<const engine::Weights> weights; ///< Of all its lives; null on device "null".
  engine::KvFacts kv;
  std::int64_t context_max = 0;
  std::int64_t layers = 0;
  std::int64_t experts = 0; ///< Of each layer.
};

/// Engine options of a rank group.
engine::EngineOptions engine_options(const SystemConfig& config, const RankGroupConfig& group);

/// Opens the engines of all ranks of `config`, one set of weights for all CPU ranks.
Result<std::vector<OpenedRank>> open_ranks(const SystemConfig& config);

/// Options of a rank's stage in its first life.
sched::RankOptions rank_options(const SystemConfig& config, const OpenedRank& rank, RankId id);

/// Puts an engine of a life in place of the one that was opened, or none, as if it had not been
/// opened; for drills with faults.
using EngineWrap = std::function<std::shared_ptr<engine::Engine>(
    const std::string& rank, RankRef life, std::shared_ptr<engine::Engine> engine)>;

/// What all lives of all ranks share.
struct RankMakerConfig {
  caf::actor_system* system = nullptr;
  actors::Threads threads = actors::Threads::own;
  SystemConfig config;
  std::shared_ptr<const actors::ManagerFacts> policies; ///< What a life is built from.
  std::shared_ptr<const sched::PolicyRegistry> registry;
  actors::ShellContext context;
  std::shared_ptr<actors::Peers> peers;
  EngineWrap wrap; ///< May be empty.
};

/// Thread: one caller at a time.
class RankMaker {
public:
  RankMaker(RankMakerConfig config, std::vector<OpenedRank> ranks);

  /// A new life, in the table of peers; it waits for Start. @pre `life.rank` is one of the ranks
  Result<actors::RankLife> make(RankRef life);

  /// Of each rank over all its lives, ascending.
  const std::vector<std::shared_ptr<actors::RankTotals>>& totals() const noexcept {
    return totals_;
  }

private:
  Result<std::shared_ptr<engine::Engine>> engine_of(OpenedRank& rank) const;
  sched::PolicySet policies_of(const std::string& name, RankRef life) const;

  RankMakerConfig config_;
  std::vector<OpenedRank> ranks_; ///< Ascending by id.
  std::vector<std::shared_ptr<actors::RankTotals>> totals_;
  std::shared_ptr<transport::LoopbackHub> hub_ = std::make_shared<transport::LoopbackHub>();
};

} // namespace troupe::app
