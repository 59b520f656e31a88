#include "actors/app/local_system.hpp"

#include "actors/app/journal_writer.hpp"
#include "actors/app/text_worker.hpp"
#include "actors/balancer_actor.hpp"
#include "actors/chunker_actor.hpp"
#include "actors/driver_actor.hpp"
#include "actors/rank_actor.hpp"
#include "transport/loopback/loopback.hpp"

#include <caf/scoped_actor.hpp>
#include <spdlog/spdlog.h>

#include <chrono>
#include <thread>

namespace troupe::app {

using actors::Peers;
using actors::Threads;

namespace {

constexpr std::chrono::milliseconds kPollEvery{100};
constexpr std::chrono::seconds kStopWait{10};
constexpr std::int64_t kUsPerS = 1'000'000;

struct SystemSettings : caf::actor_system_config {
  SystemSettings() {
    add_message_types<caf::id_block::troupe>();
    actors::tune(*this, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
};

std::int64_t wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

sched::DriverOptions driver_options(const SystemConfig& config) {
  sched::DriverOptions out;
  out.cost_model = config.cost_model.model;
  out.requests_max = config.limits.requests_max;
  out.attempts_max = static_cast<std::uint32_t>(config.limits.attempts_max);
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

} // namespace

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
    const engine::EngineOptions options = engine_options(config, group);
    for (std::int64_t i = 0; i < group.count; ++i) {
      Result<std::unique_ptr<engine::Engine>> engine = nullptr;
      if (group.device == "null") {
        const sched::CostModel& cost = group.cost_model.model;
        engine = engine::open_null_engine(options, {cost.step_ps, cost.token_ps, cost.pair_ps,
                                                    cost.sequence_ps, cost.context_token_ps,
                                                    group.cost_model.null_speed});
      } else {
        if (!weights) {
          auto loaded = engine::load_weights(options);
          if (!loaded.ok()) return loaded.error();
          weights = std::move(*loaded);
        }
        engine = engine::open_cpu_engine(weights, options);
      }
      if (!engine.ok()) return engine.error();
      ranks.push_back({group.name + "-" + std::to_string(i), group, std::move(*engine)});
    }
  }
  return ranks;
}

struct LocalSystem::State {
  SystemSettings settings;
  std::unique_ptr<caf::actor_system> system;
  std::shared_ptr<Peers> peers = std::make_shared<Peers>();
  std::shared_ptr<actors::ShellCounters> counters = std::make_shared<actors::ShellCounters>();
  std::shared_ptr<actors::Ledger> ledger;
  std::vector<std::shared_ptr<actors::RankTotals>> totals;
  std::vector<OpenedRank> ranks;
  Histogram ttft; ///< Written by the driver until stop().
  Histogram tpot;
  std::unique_ptr<caf::scoped_actor> self;
  std::int64_t start_us = wall_us();
  bool stopped = false;

  void spawn_stages(const SystemOptions& options, const actors::ShellContext& context) {
    peers->chunker =
        actors::spawn_stage(*system, Threads::shared, actors::chunker_actor,
                            actors::ChunkerConfig{context, prefill_options(options.config),
                                                  options.policies, options.registry});
    peers->balancer =
        actors::spawn_stage(*system, Threads::shared, actors::balancer_actor,
                            actors::BalancerConfig{context, decode_options(options.config),
                                                   options.policies, options.registry});
    const JobFacts& facts = options.job->facts();
    actors::DriverConfig driver{context, driver_options(options.config), options.policies,
                                options.registry};
    driver.inflight_max = options.inflight_max;
    driver.succeeded = facts.succeeded;
    driver.failed = facts.failed;
    driver.on_times = [this](std::int64_t ttft_us, std::int64_t tpot_us) {
      ttft.record(ttft_us);
      if (tpot_us >= 0) tpot.record(tpot_us);
    };
    peers->driver = actors::spawn_stage(*system, Threads::shared, actors::driver_actor, driver);
  }

  void spawn_ranks(const SystemOptions& options, const actors::ShellContext& context) {
    const auto hub = std::make_shared<transport::LoopbackHub>();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const RankId id{static_cast<std::uint32_t>(i)};
      totals.push_back(std::make_shared<actors::RankTotals>());
      actors::RankConfig config{context,          rank_options(options.config, ranks[i], id),
                                options.policies, options.registry,
                                ranks[i].engine,  transport::make_loopback(hub),
                                totals.back(),    ranks[i].group.device == "null"};
      peers->ranks[id] =
          actors::spawn_stage(*system, Threads::own, actors::rank_actor, std::move(config));
    }
  }
};

LocalSystem::LocalSystem(SystemOptions options, std::vector<OpenedRank> ranks)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.ranks = std::move(ranks);
  state.system = std::make_unique<caf::actor_system>(state.settings);
  state.self = std::make_unique<caf::scoped_actor>(*state.system);
  if (!options.ledger_directory.empty()) {
    auto ledger =
        actors::Ledger::open(options.ledger_directory, options.config.ledger.size_max_bytes);
    if (ledger.ok()) {
      state.ledger = std::move(*ledger);
    } else {
      spdlog::warn("{}; the job goes on without a ledger", ledger.error().message);
    }
  }
  const actors::ShellContext context{state.peers, state.ledger, state.counters, options.tap};
  state.peers->listener = caf::actor_cast<caf::actor>(state.self->ptr());
  state.spawn_stages(options, context);
  state.peers->text = actors::spawn_stage(
      *state.system, Threads::own, text_worker,
      TextWorkerConfig{state.peers, state.counters, options.text, options.tell_pieces});
  const JournalConfig& journal = options.config.journal;
  state.peers->store = actors::spawn_stage(
      *state.system, Threads::own, journal_writer,
      JournalWriterConfig{state.peers, state.counters, options.job,
                          journal.sync == JournalSync::line ? 0 : journal.flush_ms * 1000});
  state.spawn_ranks(options, context);
  for (const auto& [id, rank] : state.peers->ranks)
    caf::anon_send(rank, actors::Start{});
  caf::anon_send(state.peers->driver, actors::Start{});
}

LocalSystem::~LocalSystem() { stop(); }

actors::JobState LocalSystem::wait(const StateHandler& on_state, const PieceHandler& on_piece,
                                   const std::function<void()>& poll) {
  actors::JobState last;
  while (!last.ended) {
    (*state_->self)
        ->receive(
            [&](const actors::JobState& job) {
              last = job;
              on_state(job);
            },
            [&](const actors::Piece& piece) { on_piece(piece); }, caf::after(kPollEvery) >> [] {});
    poll();
  }
  return last;
}

void LocalSystem::interrupt(std::int32_t level) {
  caf::anon_send(state_->peers->driver, actors::Interrupt{level});
}

void LocalSystem::stop() {
  State& state = *state_;
  if (std::exchange(state.stopped, true)) return;
  std::vector<caf::actor> all{state.peers->driver, state.peers->chunker, state.peers->balancer,
                              state.peers->text, state.peers->store};
  for (const auto& [id, rank] : state.peers->ranks)
    all.push_back(rank);
  for (const caf::actor& actor : all)
    caf::anon_send(actor, actors::Stop{});
  // Every actor answers Stop at its next message; a rank may be inside a step until then.
  for (const caf::actor& actor : all)
    (*state.self)->monitor(actor);
  std::size_t left = all.size();
  const auto deadline = std::chrono::steady_clock::now() + kStopWait;
  while (left > 0 && std::chrono::steady_clock::now() < deadline) {
    (*state.self)
        ->receive([&](const caf::down_msg&) { --left; }, [&](const actors::JobState&) {},
                  [&](const actors::Piece&) {}, caf::after(kPollEvery) >> [] {});
  }
  // The peers refer to each other through this table: without clearing it nothing is ever freed.
  if (left == 0) *state.peers = Peers{};
  if (state.ledger) state.ledger->flush();
}

void LocalSystem::add_to(RunSummary& summary) const {
  const State& state = *state_;
  summary.ttft = state.ttft;
  summary.tpot = state.tpot;
  summary.scheduling_us = state.counters->scheduling_ns / 1000;
  summary.messages = state.counters->messages;
  summary.wall_us = wall_us() - state.start_us;
  for (std::size_t i = 0; i < state.ranks.size(); ++i) {
    const actors::RankTotals& totals = *state.totals[i];
    summary.ranks.push_back(
        {state.ranks[i].name, state.ranks[i].group.role, totals.busy_us, totals.steps});
    summary.steps += totals.steps;
  }
}

} // namespace troupe::app
