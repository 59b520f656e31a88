#include "actors/app/system_actors.hpp"

#include "actors/app/available_memory.hpp"
#include "actors/app/journal_writer.hpp"
#include "actors/app/text_worker.hpp"
#include "actors/balancer_actor.hpp"
#include "actors/chunker_actor.hpp"
#include "actors/driver_actor.hpp"
#include "actors/policy_manager_actor.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

namespace troupe::app {

using actors::Threads;

namespace {

constexpr std::int64_t kUsPerS = 1'000'000;

/// Histograms of the summary, and the metrics when there are any.
actors::RequestWatch watch_requests(const SystemOptions& options, const SystemActors& out) {
  actors::RequestWatch watch;
  const auto metrics = options.metrics;
  if (metrics) watch.arrives = [metrics](const sched::Arrive& arrive) { metrics->arrives(arrive); };
  watch.finishes = [ttft = out.ttft, tpot = out.tpot, metrics](const sched::Finish& finish) {
    if (metrics) metrics->finishes(finish);
    if (finish.output_tokens == 0) return;
    ttft->record(finish.first_token_us - finish.arrival_us);
    const std::int64_t gaps = finish.output_tokens - 1;
    if (gaps > 0) tpot->record((finish.end_us - finish.first_token_us) / gaps);
  };
  return watch;
}

void spawn_experts(caf::actor_system& system, Threads threads, const SystemOptions& options,
                   const actors::ShellContext& context, const std::vector<OpenedRank>& ranks,
                   SystemActors& out) {
  const std::int64_t layers = ranks.empty() ? 0 : ranks.front().layers;
  const std::int64_t experts = ranks.empty() ? 0 : ranks.front().experts;
  out.peers->experts = actors::spawn_stage(
      system, threads, actors::expert_actor,
      actors::ExpertConfig{{context, expert_options(options.config, layers, experts),
                            options.policies, options.registry},
                           out.experts});
}

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
  driver.watch = watch_requests(options, out);
  out.peers->driver =
      actors::spawn_stage(system, Threads::shared, actors::driver_actor, std::move(driver));
}

/// Counts for the metrics and what canaries decide, asks the shadows, and lets somebody look on.
actors::EffectsWatch watch_effects(caf::actor_system& system, const SystemOptions& options,
                                   const SystemActors& out) {
  return [&system, metrics = options.metrics, facts = out.policies, shadows = out.shadows,
          also = options.watch](const std::string& stage, const sched::Effects& effects) {
    if (metrics) metrics->sees(stage, effects, actors::now_us(system));
    for (const sched::Effect& effect : effects.list()) {
      const auto* record = std::get_if<sched::Record>(&effect);
      if (record == nullptr || !record->asked) continue;
      const bool canary =
          std::visit([](const auto& asked) { return asked->canary; }, *record->asked);
      if (canary) facts->count_canary(record->epoch);
    }
    shadows->offer(stage, effects);
    if (also) also(stage, effects);
  };
}

void spawn_manager(caf::actor_system& system, const SystemOptions& options,
                   const actors::ShellContext& context, SystemActors& out) {
  actors::PolicyManagerConfig config;
  config.context = context;
  config.options = manager_options(options.config);
  config.first = options.policies;
  config.facts = out.policies;
  config.on_live = [&system, ledger = out.ledger, shadows = out.shadows,
                    also = options.on_live](const sched::SetLive& live) {
    if (ledger) ledger->append(live, actors::now_us(system));
    shadows->use(live.set);
    if (also) also(live);
  };
  config.asker = options.swap_asker;
  actors::ManagerView first;
  first.live = options.policies;
  // First lives are built, and may decide, before the manager runs.
  out.policies->publish(std::move(first));
  config.on_live({options.policies, sched::SwapCause::start, {}});
  out.peers->manager =
      actors::spawn_stage(system, Threads::shared, actors::policy_manager_actor, std::move(config));
}

sched::SupervisorOptions supervisor_options(const SystemConfig& config,
                                            const std::vector<OpenedRank>& ranks) {
  sched::SupervisorOptions out;
  out.restarts_max = config.limits.rank_restarts_max;
  out.heartbeat_us = config.limits.heartbeat_ms * 1000;
  out.silence_us_max = config.limits.no_progress_s * kUsPerS;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const engine::KvFacts& kv = ranks[i].kv;
    sched::SupervisedRank rank{RankId{static_cast<std::uint32_t>(i)}, ranks[i].group.role,
                               ranks[i].name, 0};
    if (ranks[i].group.device != "null") {
      rank.memory_bytes = kv.blocks * kv.block_bytes + kv.slots * kv.slot_bytes;
    }
    out.ranks.push_back(std::move(rank));
  }
  return out;
}

void spawn_ranks(caf::actor_system& system, Threads threads, const SystemOptions& options,
                 const actors::ShellContext& context, std::vector<OpenedRank> ranks,
                 SystemActors& out) {
  actors::SupervisorConfig config{
      context,       supervisor_options(options.config, ranks), {}, {}, available_memory_bytes,
      out.supervised};
  const auto maker = std::make_shared<RankMaker>(RankMakerConfig{&system, threads, options.config,
                                                                 out.policies, options.registry,
                                                                 context, out.peers, options.wrap},
                                                 std::move(ranks));
  out.totals = maker->totals();
  for (const sched::SupervisedRank& rank : config.options.ranks) {
    auto life = maker->make({rank.rank, Incarnation{1}});
    TROUPE_CHECK(life.ok(), "a first life has its engine, and rank names are distinct");
    config.ranks.push_back(std::move(*life));
  }
  config.make = [maker](RankRef life) { return maker->make(life); };
  out.supervisor =
      actors::spawn_stage(system, threads, actors::supervisor_actor, std::move(config));
}

std::shared_ptr<actors::Ledger> open_ledger(const SystemOptions& options) {
  if (options.ledger_directory.empty()) return nullptr;
  auto ledger =
      actors::Ledger::open(options.ledger_directory, options.config.ledger.size_max_bytes);
  if (ledger.ok()) return std::move(*ledger);
  spdlog::warn("{}; the job goes on without a ledger", ledger.error().message);
  return nullptr;
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

sched::ExpertOptions expert_options(const SystemConfig& config, std::int64_t layers,
                                    std::int64_t experts) {
  sched::ExpertOptions out;
  out.seed = static_cast<std::uint64_t>(config.cluster.seed);
  out.interval_us = layers > 0 && experts > 0 ? config.experts.interval_ms * 1000 : 0;
  if (out.interval_us == 0) return out;
  std::int64_t ranks = 0;
  for (const RankGroupConfig& group : config.ranks)
    ranks += group.count;
  out.layers = layers;
  out.topology.experts = experts;
  out.topology.gpus = config.experts.gpus > 0 ? config.experts.gpus : ranks;
  out.topology.slots =
      config.experts.slots > 0 ? config.experts.slots : std::max(experts, out.topology.gpus);
  return out;
}

Status check_experts(const SystemConfig& config, std::int64_t experts) {
  const sched::ExpertOptions options = expert_options(config, 1, experts);
  if (options.interval_us == 0) return {};
  const Status fits = sched::check_topology(options.topology);
  if (fits.ok()) return fits;
  return {ErrorCode::bad_argument,
          "experts.slots: " + fits.error().message + "; 0 gives one for each expert"};
}

sched::ManagerOptions manager_options(const SystemConfig& config) {
  sched::ManagerOptions out;
  out.swap_timeout_us = config.swap_timeout_ms * 1000;
  out.commit_again_us =
      std::min(out.commit_again_us, std::max<std::int64_t>(1000, out.swap_timeout_us / 4));
  out.invalid_decisions_max = config.limits.invalid_decisions_max;
  return out;
}

SystemActors spawn_system(caf::actor_system& system, Threads threads, SystemOptions options,
                          std::vector<OpenedRank> ranks, const caf::actor& listener) {
  SystemActors out;
  options.policies.epoch = PolicyEpoch{options.first_epoch};
  out.ledger = open_ledger(options);
  out.shadows = std::make_shared<actors::ShadowLane>(options.registry, out.policies);
  out.peers->listener = listener;
  const actors::ShellContext context{out.peers,
                                     out.ledger,
                                     out.counters,
                                     options.tap,
                                     out.stages,
                                     watch_effects(system, options, out),
                                     options.config.ledger.level == "events"};
  spawn_manager(system, options, context, out);
  spawn_stages(system, options, context, out);
  spawn_experts(system, threads, options, context, ranks, out);
  out.peers->text = actors::spawn_stage(
      system, threads, text_worker,
      TextWorkerConfig{out.peers, out.counters, options.text, options.tell_pieces});
  const JournalConfig& journal = options.config.journal;
  out.peers->store = actors::spawn_stage(
      system, threads, journal_writer,
      JournalWriterConfig{out.peers, out.counters, options.job,
                          journal.sync == JournalSync::line ? 0 : journal.flush_ms * 1000,
                          std::max<std::int64_t>(1, options.inflight_max / 4)});
  spawn_ranks(system, threads, options, context, std::move(ranks), out);
  return out;
}

void start(const SystemActors& all) {
  for (const caf::actor& rank : all.peers->ranks.all())
    caf::anon_send(rank, actors::Start{});
  caf::anon_send(all.peers->experts, actors::Start{});
  caf::anon_send(all.peers->driver, actors::Start{});
  caf::anon_send(all.supervisor, actors::Start{});
}

} // namespace troupe::app
