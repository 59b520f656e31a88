#include "actors/app/system_actors.hpp"

#include "actors/app/journal_writer.hpp"
#include "actors/app/text_worker.hpp"
#include "actors/balancer_actor.hpp"
#include "actors/chunker_actor.hpp"
#include "actors/driver_actor.hpp"
#include "transport/loopback/loopback.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

namespace troupe::app {

using actors::Threads;

namespace {

constexpr std::int64_t kUsPerS = 1'000'000;

void spawn_stages(caf::actor_system& system, const SystemOptions& options,
                  const actors::ShellContext& context, SystemActors& out) {
  out.peers->chunker =
      actors::spawn_stage(system, Threads::shared, actors::chunker_actor,
                          actors::ChunkerConfig{context, prefill_options(options.config),
                                                options.policies, options.registry});
  out.peers->balancer =
      actors::spawn_stage(system, Threads::shared, actors::balancer_actor,
                          actors::BalancerConfig{context, decode_options(options.config),
                                                 options.policies, options.registry});
  const JobFacts& facts = options.job->facts();
  actors::DriverConfig driver{context, driver_options(options.config), options.policies,
                              options.registry};
  driver.inflight_max = options.inflight_max;
  driver.succeeded = facts.succeeded;
  driver.failed = facts.failed;
  driver.on_times = [ttft = out.ttft, tpot = out.tpot](std::int64_t ttft_us, std::int64_t tpot_us) {
    ttft->record(ttft_us);
    if (tpot_us >= 0) tpot->record(tpot_us);
  };
  out.peers->driver =
      actors::spawn_stage(system, Threads::shared, actors::driver_actor, std::move(driver));
}

void spawn_ranks(caf::actor_system& system, Threads threads, const SystemOptions& options,
                 const actors::ShellContext& context, const std::vector<OpenedRank>& ranks,
                 SystemActors& out) {
  const auto hub = std::make_shared<transport::LoopbackHub>();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankId id{static_cast<std::uint32_t>(i)};
    out.totals.push_back(std::make_shared<actors::RankTotals>());
    auto endpoint = hub->open(ranks[i].name);
    TROUPE_CHECK(endpoint.ok(), "rank names are distinct");
    actors::RankConfig config{
        context,           rank_options(options.config, ranks[i], id),
        options.policies,  options.registry,
        ranks[i].engine,   std::shared_ptr<transport::Transport>(std::move(*endpoint)),
        out.totals.back(), ranks[i].group.device == "null"};
    out.peers->ranks[id] =
        actors::spawn_stage(system, threads, actors::rank_actor, std::move(config));
  }
}

std::shared_ptr<actors::Ledger> open_ledger(const SystemOptions& options) {
  if (options.ledger_directory.empty()) return nullptr;
  auto ledger =
      actors::Ledger::open(options.ledger_directory, options.config.ledger.size_max_bytes);
  if (ledger.ok()) return std::move(*ledger);
  spdlog::warn("{}; the job goes on without a ledger", ledger.error().message);
  return nullptr;
}

/// Opens one engine; loads the weights for the first CPU rank.
Result<std::unique_ptr<engine::Engine>>
open_engine(const engine::EngineOptions& options, const RankGroupConfig& group,
            std::shared_ptr<const engine::Weights>& weights) {
  if (group.device == "null") {
    const sched::CostModel& cost = group.cost_model.model;
    return engine::open_null_engine(options,
                                    {cost.step_ps, cost.token_ps, cost.pair_ps, cost.sequence_ps,
                                     cost.context_token_ps, group.cost_model.null_speed});
  }
  if (!weights) {
    auto loaded = engine::load_weights(options);
    if (!loaded.ok()) return loaded.error();
    weights = std::move(*loaded);
  }
  return engine::open_cpu_engine(weights, options);
}

} // namespace

sched::DriverOptions driver_options(const SystemConfig& config) {
  sched::DriverOptions out;
  out.cost_model = config.cost_model.model;
  out.requests_max = config.limits.requests_max;
  out.attempts_max = static_cast<std::uint32_t>(config.limits.attempts_max);
  out.reservation = config.kv.reserve;
  out.expected_permille = std::llround(config.kv.reserve_quantile * 1000.0);
  out.preemptions_max = config.limits.preemptions_max;
  out.request_timeout_us = config.limits.request_timeout_s * kUsPerS;
  out.no_progress_us = config.limits.no_progress_s * kUsPerS;
  out.stuck_after_us = config.limits.stuck_after_s * kUsPerS;
  out.seed = static_cast<std::uint64_t>(config.cluster.seed);
  return out;
}

sched::PrefillOptions prefill_options(const SystemConfig& config) {
  sched::PrefillOptions out;
  for (const RankGroupConfig& group : config.ranks) {
    if (sched::prefills(group.role)) {
      out.cost_model = group.cost_model.model;
      break;
    }
  }
  out.queue_max = config.limits.requests_max;
  out.lease_us = config.limits.lease_ms * 1000;
  out.attempts_max = static_cast<std::uint32_t>(config.limits.attempts_max);
  out.seed = static_cast<std::uint64_t>(config.cluster.seed);
  return out;
}

sched::DecodeOptions decode_options(const SystemConfig& config) {
  sched::DecodeOptions out;
  for (const RankGroupConfig& group : config.ranks) {
    if (sched::decodes(group.role)) {
      out.cost_model = group.cost_model.model;
      break;
    }
  }
  out.attempts_max = static_cast<std::uint32_t>(config.limits.attempts_max);
  out.lease_us = config.limits.lease_ms * 1000;
  out.waiting_max = config.limits.requests_max; // Each request waits once at most.
  out.seed = static_cast<std::uint64_t>(config.cluster.seed);
  return out;
}

sched::RankOptions rank_options(const SystemConfig& config, const OpenedRank& rank, RankId id) {
  const engine::KvFacts& kv = rank.engine->kv();
  sched::RankOptions out;
  out.rank = {id, Incarnation{1}};
  out.role = rank.group.role;
  out.name = rank.name;
  out.kv_blocks = kv.blocks;
  out.block_tokens = kv.block_tokens;
  out.slots = kv.slots;
  out.step_tokens_max = config.limits.step_tokens_max;
  out.context_max = rank.engine->model().context_max;
  out.lease_us = config.limits.lease_ms * 1000;
  out.cost_model = rank.group.cost_model.model;
  out.seed = static_cast<std::uint64_t>(config.cluster.seed) + raw(id);
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
      ranks.push_back({group.name + "-" + std::to_string(i), group, std::move(*engine)});
    }
  }
  return ranks;
}

SystemActors spawn_system(caf::actor_system& system, Threads threads, const SystemOptions& options,
                          const std::vector<OpenedRank>& ranks, const caf::actor& listener) {
  SystemActors out;
  out.ledger = open_ledger(options);
  out.peers->listener = listener;
  const actors::ShellContext context{out.peers, out.ledger, out.counters, options.tap};
  spawn_stages(system, options, context, out);
  out.peers->text = actors::spawn_stage(
      system, threads, text_worker,
      TextWorkerConfig{out.peers, out.counters, options.text, options.tell_pieces});
  const JournalConfig& journal = options.config.journal;
  out.peers->store = actors::spawn_stage(
      system, threads, journal_writer,
      JournalWriterConfig{out.peers, out.counters, options.job,
                          journal.sync == JournalSync::line ? 0 : journal.flush_ms * 1000,
                          std::max<std::int64_t>(1, options.inflight_max / 4)});
  spawn_ranks(system, threads, options, context, ranks, out);
  return out;
}

void start(const SystemActors& all) {
  for (const auto& [id, rank] : all.peers->ranks)
    caf::anon_send(rank, actors::Start{});
  caf::anon_send(all.peers->driver, actors::Start{});
}

} // namespace troupe::app
