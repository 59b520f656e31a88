#include "actors/app/local_system.hpp"

#include "actors/app/control_documents.hpp"
#include "actors/app/manager_desk.hpp"
#include "actors/app/steady_clock.hpp"

#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::chrono::milliseconds kPollEvery{100};
constexpr std::chrono::seconds kStopWait{10};
constexpr const char* kDesk = "control desk";
constexpr std::chrono::milliseconds kShadowWait{2000};

struct SystemSettings : caf::actor_system_config {
  SystemSettings() {
    add_message_types<caf::id_block::troupe>();
    actors::tune(*this, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
};

/// Time is taken after the mark: no entry before the mark is later than it.
LedgerReply write_ledger(const std::shared_ptr<actors::Ledger>& ledger, const std::string& folder) {
  if (!ledger) return [] { return LedgerPlace{{}, 0, steady_us()}; };
  const actors::LedgerMark mark = ledger->mark();
  return
      [ledger, mark,
       place = LedgerPlace{folder, mark.next_number, steady_us()}]() -> std::optional<LedgerPlace> {
        if (!ledger->is_written(mark)) return std::nullopt;
        return place;
      };
}

} // namespace

struct LocalSystem::State {
  SystemSettings settings;
  std::map<caf::actor_addr, std::string> alive; ///< Names of the actors that have not ended.
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<caf::scoped_actor> self;
  std::vector<std::string> names;  ///< Of ranks, ascending by id.
  std::vector<sched::Role> roles;  ///< Likewise.
  std::vector<engine::KvFacts> kv; ///< Likewise.
  std::string ledger_folder;       ///< Absolute; "" = none is kept.
  SystemActors all;
  std::int64_t start_us = steady_us();
  bool stopped = false;
  bool shadow_hangs = false; ///< A shadow policy does not return.
  bool lost = false;         ///< An actor that cannot be replaced ended.
  State* parked_before = nullptr;

  void add(const caf::actor& actor, const std::string& name) {
    alive.emplace(actor.address(), name);
    (*self)->monitor(actor);
  }

  /// Every actor answers Stop at its next message; a rank may be inside a step until then, and the
  /// supervisor waits for its ranks.
  void end_all(std::chrono::steady_clock::time_point deadline) {
    for (const auto& [address, name] : alive) {
      const auto actor = caf::actor_cast<caf::actor>(address);
      if (actor) caf::anon_send(actor, actors::Stop{});
    }
    while (!alive.empty() && std::chrono::steady_clock::now() < deadline) {
      (*self)->receive([&](const caf::down_msg& down) { alive.erase(down.source); },
                       [](const actors::JobState&) {}, [](const actors::Piece&) {},
                       caf::after(kPollEvery) >> [] {});
    }
  }

  bool hangs() const { return !alive.empty() || all.supervised->hanging > 0 || shadow_hangs; }

  /// Watches what cannot be replaced: an actor that ends while the job runs would leave it waiting
  /// for ever. The supervisor watches the ranks.
  void watch() {
    const actors::Peers& peers = *all.peers;
    add(peers.driver, "driver");
    add(peers.chunker, "prefill chunker");
    add(peers.balancer, "decode balancer");
    add(peers.experts, "manager of experts");
    add(peers.text, "text worker");
    add(peers.store, "journal writer");
    add(all.supervisor, "supervisor");
    add(peers.manager, "policy manager");
  }
};

LocalSystem::State*& LocalSystem::parked() noexcept {
  static State* last = nullptr;
  return last;
}

void LocalSystem::park() noexcept {
  state_->parked_before = std::exchange(parked(), state_.get());
  static_cast<void>(state_.release()); // parked() has it from now on.
}

LocalSystem::LocalSystem(SystemOptions options, std::vector<OpenedRank> ranks)
    : state_(std::make_unique<State>()) {
  try {
    start_all(std::move(options), std::move(ranks));
  } catch (...) {
    // No room for a thread, say. Nobody tells the actors that run already to end, so that
    // destroying their system would wait for ever.
    park();
    throw;
  }
}

void LocalSystem::start_all(SystemOptions options, std::vector<OpenedRank> ranks) {
  State& state = *state_;
  for (const OpenedRank& rank : ranks) {
    state.names.push_back(rank.name);
    state.roles.push_back(rank.group.role);
    state.kv.push_back(rank.kv);
  }
  if (!options.ledger_directory.empty()) {
    state.ledger_folder = std::filesystem::absolute(options.ledger_directory).lexically_normal();
  }
  state.system = std::make_unique<caf::actor_system>(state.settings);
  state.self = std::make_unique<caf::scoped_actor>(*state.system);
  state.all = spawn_system(*state.system, actors::Threads::own, std::move(options),
                           std::move(ranks), caf::actor_cast<caf::actor>(state.self->ptr()));
  state.watch();
  start(state.all);
}

LocalSystem::~LocalSystem() {
  stop();
  // Destroying an actor system waits for all its actors, for ever if one hangs.
  // After a loss nobody knows which of them still can.
  if (state_->hangs() || state_->lost) park();
}

bool LocalSystem::left_threads() noexcept { return parked() != nullptr; }

bool LocalSystem::receive(const StateHandler& on_state, const PieceHandler& on_piece) {
  bool running = true;
  (*state_->self)
      ->receive(
          [&](const actors::JobState& job) {
            running = !job.ended;
            on_state(job);
          },
          [&](const actors::Piece& piece) { on_piece(piece); },
          [&](const caf::down_msg& down) {
            // A job that serves no control socket lets go of its desk.
            if (state_->alive[down.source] == kDesk) {
              state_->alive.erase(down.source);
              return;
            }
            running = false;
            state_->lost = true;
            actors::JobState lost;
            lost.ended = true;
            lost.code = ErrorCode::rank_lost;
            lost.message = state_->alive[down.source] + " ended unexpectedly (" +
                           caf::to_string(down.reason) + ")";
            state_->alive.erase(down.source);
            on_state(lost);
          },
          caf::after(kPollEvery) >> [] {});
  return running;
}

void LocalSystem::interrupt(std::int32_t level) {
  caf::anon_send(state_->all.peers->driver, actors::Interrupt{level});
}

void LocalSystem::stop() {
  State& state = *state_;
  if (std::exchange(state.stopped, true)) return;
  const auto deadline = std::chrono::steady_clock::now() + kStopWait;
  state.end_all(deadline);
  state.shadow_hangs = !state.all.shadows->stop(kShadowWait);
  // The supervisor has ended its ranks, unless it was lost itself.
  if (!state.hangs()) {
    for (const caf::actor& rank : state.all.peers->ranks.all())
      state.add(rank, "rank");
    state.end_all(deadline);
  }
  // The actors refer to each other through this table: without clearing it nothing is freed.
  if (!state.hangs()) state.all.peers->clear();
  if (state.all.ledger) state.all.ledger->flush();
}

std::shared_ptr<ControlDesk> LocalSystem::open_desk(std::shared_ptr<const TopBoard> board) {
  ManagerDeskParts parts;
  parts.manager = state_->all.peers->manager;
  parts.facts = state_->all.policies;
  parts.top = [this, board = std::move(board)](const actors::ManagerView& view) {
    TopSample top = board->sample(steady_us());
    top.metrics.requests_running = top.job.running;
    top.metrics.requests_waiting = top.metrics.requests_deferred = top.job.waiting;
    add_to(top.metrics);
    top.decisions = state_->all.stages->recent();
    return top_document(top, view);
  };
  parts.write_ledger = [ledger = state_->all.ledger, folder = state_->ledger_folder] {
    return write_ledger(ledger, folder);
  };
  OpenedDesk opened = app::open_desk(*state_->system, std::move(parts));
  state_->add(opened.asker, kDesk);
  return std::move(opened.desk);
}

const std::vector<std::shared_ptr<actors::RankTotals>>& LocalSystem::totals() const {
  return state_->all.totals;
}

const SystemActors& LocalSystem::actors() const { return state_->all; }

const std::vector<std::string>& LocalSystem::rank_names() const { return state_->names; }

void LocalSystem::add_to(RunSummary& summary) const {
  const State& state = *state_;
  summary.ttft = *state.all.ttft;
  summary.tpot = *state.all.tpot;
  summary.scheduling_us = state.all.counters->scheduling_ns / 1000;
  if (state.all.ledger) summary.ledger_us = state.all.ledger->cost_us();
  summary.messages = state.all.counters->messages;
  summary.rank_restarts = state.all.supervised->restarts;
  summary.wall_us = steady_us() - state.start_us;
  for (std::size_t i = 0; i < state.names.size(); ++i) {
    const actors::RankTotals& totals = *state.all.totals[i];
    summary.ranks.push_back({state.names[i], state.roles[i], totals.busy_us, totals.steps});
    summary.steps += totals.steps;
    summary.preemptions += totals.preempted;
  }
}

RequestCounts LocalSystem::count_requests(std::int64_t running, std::int64_t waiting) const {
  std::int64_t queued = 0;
  for (const auto& [name, totals] : state_->all.stages->all()) {
    if (name == "prefill") queued = totals->waiting;
  }
  return request_counts(running, waiting, queued);
}

void LocalSystem::add_to(actors::MetricsSample& sample) const {
  const State& state = *state_;
  const actors::ShellCounters& counters = *state.all.counters;
  sample.messages = counters.messages;
  sample.unexpected_messages = counters.unexpected;
  sample.scheduling_ns = counters.scheduling_ns;
  sample.rank_losses = state.all.supervised->lost;
  sample.rank_restarts = state.all.supervised->restarts;
  const sched::ExpertCounts experts = state.all.experts->counts();
  sample.experts = {static_cast<std::int64_t>(raw(experts.epoch)),
                    experts.predicted_permille,
                    experts.realised_permille,
                    experts.reports,
                    experts.bad_layers,
                    experts.plans,
                    experts.moves};
  if (state.all.ledger) {
    sample.ledger_records = state.all.ledger->records();
    sample.ledger_lost = state.all.ledger->lost();
  }
  for (const auto& [name, totals] : state.all.stages->all()) {
    sample.stages.push_back({name, totals->stale_dropped, totals->invalid_decisions,
                             totals->retried, totals->decisions()});
  }
  const RequestCounts now = count_requests(sample.requests_running, sample.requests_waiting);
  sample.requests_running = now.running;
  sample.requests_waiting = now.waiting;
  for (std::size_t i = 0; i < state.names.size(); ++i) {
    const actors::RankTotals& totals = *state.all.totals[i];
    const engine::KvFacts& kv = state.kv[i];
    sample.ranks.push_back({state.names[i], totals.kv_blocks_held, kv.blocks, kv.block_tokens,
                            totals.slots_held, kv.slots, totals.steps, totals.busy_us,
                            totals.preempted, totals.idle_us, totals.steps_ahead});
  }
}

} // namespace troupe::app
