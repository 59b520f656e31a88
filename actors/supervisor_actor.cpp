#include "actors/supervisor_actor.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<SupervisorState>;

void watch(Self& self, RankLife life) {
  SupervisorState& state = self.state;
  self.monitor(life.actor);
  state.watched.emplace(life.actor.address(), life.rank);
  state.lives[life.rank.rank] = std::move(life);
}

std::string name_of(const SupervisorState& state, RankId rank) {
  for (const sched::SupervisedRank& known : state.config.options.ranks) {
    if (known.rank == rank) return known.name;
  }
  return "rank " + std::to_string(raw(rank));
}

void start_rank(Self& self, RankRef rank) {
  SupervisorState& state = self.state;
  auto life = state.config.make(rank);
  sched::RankStarted started{rank, life.status().error().code, life.status().error().message};
  if (life.ok()) {
    spdlog::warn("{} starts again: restart {} of {}", name_of(state, rank.rank),
                 raw(rank.incarnation) - 1, state.config.options.restarts_max);
    self.send(life->actor, Start{});
    watch(self, std::move(*life));
  }
  self.send(&self, std::move(started));
}

void perform_other(Self& self, sched::Effect& effect) {
  SupervisorState& state = self.state;
  if (const auto* start = std::get_if<sched::StartRank>(&effect)) {
    start_rank(self, start->rank);
  } else if (const auto* abandon = std::get_if<sched::AbandonRank>(&effect)) {
    spdlog::error("{}: {}", name_of(state, abandon->rank.rank), abandon->detail);
    state.lives.at(abandon->rank.rank).pulse->fence();
    state.lives.erase(abandon->rank.rank);
    state.abandoned.insert(abandon->rank);
    ++state.config.facts->hanging;
  } else {
    TROUPE_CHECK(false, "an effect the supervisor cannot perform");
  }
}

template <class Event>
void take(Self& self, const Event& event) {
  SupervisorState& state = self.state;
  state.handle(self, event);
  state.config.facts->lost = state.stage->counts().lost;
  state.config.facts->restarts = state.stage->counts().restarts;
}

void beat(Self& self) {
  SupervisorState& state = self.state;
  sched::Heartbeat event;
  event.memory_available_bytes = state.config.memory_available_bytes();
  for (const auto& [id, life] : state.lives) {
    const std::uint64_t actor = life.pulse->actor();
    const std::uint64_t lane = life.pulse->lane();
    event.ranks.push_back(
        {life.rank, (actor + 1) / 2, actor % 2 == 1, (lane + 1) / 2, lane % 2 == 1});
  }
  take(self, event);
}

/// An actor of a rank has ended, whatever the reason.
void rank_ended(Self& self, const caf::down_msg& down) {
  SupervisorState& state = self.state;
  const auto found = state.watched.find(caf::actor_cast<caf::actor_addr>(down.source));
  if (found == state.watched.end()) return;
  const RankRef rank = found->second;
  state.watched.erase(found);
  if (state.abandoned.erase(rank) != 0) {
    --state.config.facts->hanging;
    return;
  }
  const auto life = state.lives.find(rank.rank);
  life->second.totals->kv_blocks_held = 0;
  life->second.totals->slots_held = 0;
  state.lives.erase(life);
  if (state.stopping) {
    if (state.lives.empty()) self.quit();
    return;
  }
  const std::string why = caf::to_string(down.reason);
  spdlog::error("{} ended: {}", name_of(state, rank.rank), why);
  take(self, sched::RankEnded{rank, why});
}

void stop(Self& self) {
  SupervisorState& state = self.state;
  state.stopping = true;
  for (const auto& [id, life] : state.lives)
    self.send(life.actor, Stop{});
  if (state.lives.empty()) self.quit();
}

} // namespace

caf::behavior supervisor_actor(caf::stateful_actor<SupervisorState>* self,
                               SupervisorConfig config) {
  SupervisorState& state = self->state;
  state.name = "supervisor";
  state.context = config.context;
  state.heartbeat_every = std::chrono::milliseconds{config.options.heartbeat_us / 1000};
  state.stage = std::make_unique<sched::SupervisorStage>(config.options);
  state.other = [self](sched::Effect& effect) { perform_other(*self, effect); };
  state.config = std::move(config);
  drop_unexpected(*self, state.context.counters);
  self->set_down_handler([self](caf::down_msg& down) { rank_ended(*self, down); });
  for (RankLife& life : std::exchange(state.config.ranks, {}))
    watch(*self, std::move(life));
  return {
      [=](const Start&) { self->delayed_send(self, self->state.heartbeat_every, Tick{}); },
      [=](const Tick&) {
        if (self->state.stopping) return;
        beat(*self);
        self->delayed_send(self, self->state.heartbeat_every, Tick{});
      },
      [=](const sched::RankStarted& m) {
        if (!self->state.stopping) take(*self, m);
      },
      [=](const WakeUp& up) { self->state.wake(*self, up, [](const sched::Timer&) {}); },
      [=](const Stop&) { stop(*self); },
  };
}

} // namespace troupe::actors
