#include "actors/app/local_system.hpp"

#include <caf/scoped_actor.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>

namespace troupe::app {

namespace {

constexpr std::chrono::milliseconds kPollEvery{100};
constexpr std::chrono::seconds kStopWait{10};

struct SystemSettings : caf::actor_system_config {
  SystemSettings() {
    add_message_types<caf::id_block::troupe>();
    actors::tune(*this, static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
};

std::int64_t steady_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

} // namespace

struct LocalSystem::State {
  SystemSettings settings;
  std::map<caf::actor_addr, std::string> alive; ///< Names of the actors that have not ended.
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<caf::scoped_actor> self;
  std::vector<OpenedRank> ranks;
  SystemActors all;
  std::int64_t start_us = steady_us();
  bool stopped = false;

  /// Watches all actors: one that ends while the job runs would leave it waiting for ever.
  void watch() {
    const actors::Peers& peers = *all.peers;
    const auto add = [&](const caf::actor& actor, const std::string& name) {
      alive.emplace(actor.address(), name);
      (*self)->monitor(actor);
    };
    add(peers.driver, "driver");
    add(peers.chunker, "prefill chunker");
    add(peers.balancer, "decode balancer");
    add(peers.text, "text worker");
    add(peers.store, "journal writer");
    for (const auto& [id, rank] : peers.ranks)
      add(rank, ranks[raw(id)].name);
  }
};

LocalSystem::LocalSystem(SystemOptions options, std::vector<OpenedRank> ranks)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.ranks = std::move(ranks);
  state.system = std::make_unique<caf::actor_system>(state.settings);
  state.self = std::make_unique<caf::scoped_actor>(*state.system);
  state.all = spawn_system(*state.system, actors::Threads::own, options, state.ranks,
                           caf::actor_cast<caf::actor>(state.self->ptr()));
  state.watch();
  start(state.all);
}

LocalSystem::~LocalSystem() { stop(); }

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
            running = false;
            actors::JobState lost;
            lost.ended = true;
            lost.code = ErrorCode::rank_lost;
            lost.message = state_->alive[down.source] + " ended unexpectedly (" +
                           caf::to_string(down.reason) + "); the same command goes on";
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
  actors::Peers& peers = *state.all.peers;
  for (const auto& [address, name] : state.alive) {
    const auto actor = caf::actor_cast<caf::actor>(address);
    if (actor) caf::anon_send(actor, actors::Stop{});
  }
  // Every actor answers Stop at its next message; a rank may be inside a step until then.
  const auto deadline = std::chrono::steady_clock::now() + kStopWait;
  while (!state.alive.empty() && std::chrono::steady_clock::now() < deadline) {
    (*state.self)
        ->receive([&](const caf::down_msg& down) { state.alive.erase(down.source); },
                  [&](const actors::JobState&) {}, [&](const actors::Piece&) {},
                  caf::after(kPollEvery) >> [] {});
  }
  // The actors refer to each other through this table: without clearing it nothing is freed.
  if (state.alive.empty()) peers = actors::Peers{};
  if (state.all.ledger) state.all.ledger->flush();
}

const std::vector<std::shared_ptr<actors::RankTotals>>& LocalSystem::totals() const {
  return state_->all.totals;
}

void LocalSystem::add_to(RunSummary& summary) const {
  const State& state = *state_;
  summary.ttft = *state.all.ttft;
  summary.tpot = *state.all.tpot;
  summary.scheduling_us = state.all.counters->scheduling_ns / 1000;
  summary.messages = state.all.counters->messages;
  summary.wall_us = steady_us() - state.start_us;
  for (std::size_t i = 0; i < state.ranks.size(); ++i) {
    const actors::RankTotals& totals = *state.all.totals[i];
    summary.ranks.push_back(
        {state.ranks[i].name, state.ranks[i].group.role, totals.busy_us, totals.steps});
    summary.steps += totals.steps;
    summary.preemptions += totals.preempted;
  }
}

} // namespace troupe::app
