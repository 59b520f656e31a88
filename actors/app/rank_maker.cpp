#include "actors/app/rank_maker.hpp"

#include "actors/messages.hpp"
#include "schedulers/stage/slot_pack.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace troupe::app {

namespace {

/// Several reports an interval, and no more than a hundred a second.
constexpr std::int64_t kExpertWaitUsMin = 10'000;
constexpr std::int64_t kExpertWaitUsMax = 1'000'000;

/// Opens one engine; loads the weights for the first CPU rank.
Result<std::unique_ptr<engine::Engine>>
open_engine(const engine::EngineOptions& options, const RankGroupConfig& group,
            std::shared_ptr<const engine::Weights>& weights) {
  if (group.device == "null") {
    const sched::CostModel& cost = group.cost_model.model;
    return engine::open_null_engine(options,
                                    {cost.step_ps, cost.token_ps, cost.pair_ps, cost.sequence_ps,
                                     cost.context_token_ps, group.cost_model.null_speed,
                                     false}); // The actor waits for as long.
  }
  if (!weights) {
    auto loaded = engine::load_weights(options);
    if (!loaded.ok()) return loaded.error();
    weights = std::move(*loaded);
  }
  return engine::open_cpu_engine(weights, options);
}

} // namespace

sched::RankOptions rank_options(const SystemConfig& config, const OpenedRank& rank, RankId id) {
  sched::RankOptions out;
  out.rank = {id, Incarnation{1}};
  out.role = rank.group.role;
  out.name = rank.name;
  out.kv_blocks = rank.kv.blocks;
  out.block_tokens = rank.kv.block_tokens;
  out.slots = rank.kv.slots;
  out.step_tokens_max = config.limits.step_tokens_max;
  out.context_max = rank.context_max;
  out.lease_us = config.limits.lease_ms * 1000;
  out.cost_model = rank.group.cost_model.model;
  out.seed = static_cast<std::uint64_t>(config.cluster.seed) + raw(id);
  if (const std::int64_t interval_us = config.experts.interval_ms * 1000; interval_us > 0) {
    out.experts.layers = rank.layers;
    out.experts.experts = rank.experts;
    out.experts.wait_us = std::clamp(interval_us / 4, kExpertWaitUsMin, kExpertWaitUsMax);
  }
  return out;
}

engine::EngineOptions engine_options(const SystemConfig& config, const RankGroupConfig& group) {
  engine::EngineOptions out;
  out.model_path = config.model.path;
  out.activation_quant = config.model.activation_quant;
  out.cpu_path = config.model.cpu_path;
  out.context_max = config.model.context_max;
  out.block_tokens = config.kv.block_tokens;
  out.kv_memory_bytes = config.kv.memory_bytes;
  out.sequences_max = config.limits.sequences_max;
  out.step_tokens_max = config.limits.step_tokens_max;
  out.threads = static_cast<int>(group.threads);
  return out;
}

Result<std::vector<OpenedRank>> open_ranks(const SystemConfig& config) {
  std::vector<OpenedRank> ranks;
  std::shared_ptr<const engine::Weights> weights;
  for (const RankGroupConfig& group : config.ranks) {
    for (std::int64_t i = 0; i < group.count; ++i) {
      auto engine = open_engine(engine_options(config, group), group, weights);
      if (!engine.ok()) return engine.error();
      OpenedRank rank;
      rank.name = group.name + "-" + std::to_string(i);
      rank.group = group;
      rank.engine = std::move(*engine);
      if (group.device != "null") rank.weights = weights;
      rank.kv = rank.engine->kv();
      rank.context_max = rank.engine->model().context_max;
      rank.layers = rank.engine->model().layers;
      rank.experts = rank.engine->model().experts;
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

RankMaker::RankMaker(RankMakerConfig config, std::vector<OpenedRank> ranks)
    : config_(std::move(config)), ranks_(std::move(ranks)) {
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    totals_.push_back(std::make_shared<actors::RankTotals>());
}

Result<std::shared_ptr<engine::Engine>> RankMaker::engine_of(OpenedRank& rank) const {
  if (rank.engine) return std::exchange(rank.engine, nullptr);
  auto opened = open_engine(engine_options(config_.config, rank.group), rank.group, rank.weights);
  if (!opened.ok()) return opened.error();
  return std::shared_ptr<engine::Engine>(std::move(*opened));
}

/// The live set; the compiled-in policies under its epoch when it cannot be built any more, so that
/// the rank works on while somebody mends it.
sched::PolicySet RankMaker::policies_of(const std::string& name, RankRef life) const {
  sched::PolicySet live = config_.policies->live();
  const auto built = sched::RankSlots::make(live, *config_.registry);
  if (built.ok()) return live;
  const std::string why = "policy set \"" + live.name +
                          "\" cannot be built any more: " + built.error().message +
                          "; this life uses the compiled-in policies";
  spdlog::error("{}: {}", name, why);
  caf::anon_send(config_.peers->manager,
                 sched::PolicyFault{{sched::StageKind::rank, life}, live.epoch, {}, {}, why});
  sched::PolicySet compiled_in;
  compiled_in.epoch = live.epoch;
  return compiled_in;
}

Result<actors::RankLife> RankMaker::make(RankRef life) {
  OpenedRank& rank = ranks_.at(raw(life.rank));
  auto engine = engine_of(rank);
  if (!engine.ok()) return engine.error();
  // A name of its own for each life: reads from an old one cannot meet the new one's memory.
  auto endpoint = hub_->open(rank.name + "#" + std::to_string(raw(life.incarnation)));
  if (!endpoint.ok()) return endpoint.error();
  actors::RankConfig config;
  config.context = config_.context;
  config.options = rank_options(config_.config, rank, life.rank);
  config.options.rank = life;
  config.policies = policies_of(rank.name, life);
  config.registry = config_.registry;
  config.engine = std::move(*engine);
  if (config_.wrap) config.engine = config_.wrap(rank.name, life, std::move(config.engine));
  if (!config.engine) return Error{ErrorCode::engine_failed, "its engine does not open"};
  config.transport = std::shared_ptr<transport::Transport>(std::move(*endpoint));
  config.pulse = std::make_shared<actors::RankPulse>();
  config.totals = totals_[raw(life.rank)];
  config.modelled_time = rank.group.device == "null";
  config.lane_thread = config_.threads == actors::Threads::own && !config.modelled_time;
  actors::RankLife made{life, {}, config.pulse, config.totals};
  made.actor =
      actors::spawn_stage(*config_.system, config_.threads, actors::rank_actor, std::move(config));
  config_.peers->ranks.put(life.rank, made.actor);
  return made;
}

} // namespace troupe::app
