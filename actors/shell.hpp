// What every stage's actor shares: convert, stage.on(event, now, effects), perform.

#pragma once

#include "actors/effects_runner.hpp"
#include "actors/messages.hpp"
#include "actors/stage_recorder.hpp"
#include "actors/stage_totals.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/event.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace troupe::actors {

/// Sees every event before its stage does; for parity checks and recordings.
using StageTap =
    std::function<void(const std::string& stage, const sched::Event& event, std::int64_t now_us)>;

/// Sees what a stage said in one event, before it is performed.
using EffectsWatch = std::function<void(const std::string& stage, const sched::Effects& effects)>;

/// What an actor needs besides its stage.
struct ShellContext {
  std::shared_ptr<const Peers> peers;
  std::shared_ptr<Ledger> ledger;          ///< May be null.
  std::shared_ptr<ShellCounters> counters; ///< Never null.
  StageTap tap;                            ///< May be empty.
  std::shared_ptr<StageTable> stages;      ///< May be null: then nothing is published.
  EffectsWatch watch;                      ///< May be empty.
  bool events = false;                     ///< The ledger keeps every event of the stages too.
};

/// State of an actor around one stage.
template <class Stage>
struct Shell {
  std::string name;
  sched::StageRef ref; ///< What the ledger calls this stage.
  ShellContext context;
  std::unique_ptr<Stage> stage;
  std::shared_ptr<StageTotals> totals_of_stage; ///< Taken from the table by the first event.
  StagePublished published;
  std::function<void(sched::Effect&)> other; ///< Effects that are not Send, SetTimer or Record.
  TimerQueue timers;
  StageRecorder recorder;

  /// Tells the ledger what the stage is built from. Once, before its first event.
  template <class Options>
  void begin_life(const caf::event_based_actor& self, const Options& options,
                  const sched::PolicySet& policies) {
    if (context.events) recorder.begin(context.ledger, ref, options, policies, now_us(self));
  }

  template <class Event>
  void handle(caf::event_based_actor& self, const Event& event) {
    const std::int64_t now = now_us(self);
    if (context.tap) context.tap(name, event, now);
    run(self, now, &event, [&](sched::Effects& effects) { stage->on(event, now, effects); });
  }

  /// Starts a stage that wants to be started.
  void start(caf::event_based_actor& self) {
    const std::int64_t now = now_us(self);
    run(self, now, StageRecorder::kStart,
        [&](sched::Effects& effects) { stage->start(now, effects); });
  }

  /// Runs a call of the stage that fills effects, and performs them.
  template <class Event, class Call>
  void run(caf::event_based_actor& self, std::int64_t now, const Event* event, Call call) {
    sched::Effects effects;
    const auto begin = std::chrono::steady_clock::now();
    call(effects);
    context.counters->scheduling_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           std::chrono::steady_clock::now() - begin)
                                           .count();
    publish(effects);
    recorder.took(event, effects, now);
    if (context.watch) context.watch(name, effects);
    const LedgerDesk desk{context.ledger.get(), ref};
    perform(self, *context.peers, desk, *context.counters, timers, effects, now, other);
    arm(self, timers);
  }

  /// Gives the timers that are due to `take`, one after the other.
  template <class Take>
  void wake(caf::event_based_actor& self, const WakeUp& up, Take take) {
    timers.woke(up.due_us);
    for (const sched::Timer& timer : timers.take_due(now_us(self)))
      take(timer);
    arm(self, timers);
  }

  void publish(const sched::Effects& effects) {
    if (!context.stages) return;
    if (!totals_of_stage) totals_of_stage = context.stages->of(name);
    totals_of_stage->publish(stage->counts(), published);
    totals_of_stage->count_decisions(effects);
  }
};

/// Counts and drops what no handler takes, instead of CAF's error to the sender. An exception in a
/// handler ends the actor with its text as the reason.
void drop_unexpected(caf::scheduled_actor& self, std::shared_ptr<ShellCounters> counters);

/// What an actor that is nothing but a stage is made of.
template <class Options>
struct StageConfig {
  ShellContext context;
  Options options;
  sched::PolicySet policies;
  std::shared_ptr<const sched::PolicyRegistry> registry;
};

/// Body of an actor that is nothing but a stage: takes `Events`, timers and Stop.
template <class... Events, class Stage, class Options>
caf::behavior stage_behavior(caf::stateful_actor<Shell<Stage>>* self, const char* name,
                             sched::StageKind kind, StageConfig<Options> config) {
  Shell<Stage>& state = self->state;
  state.name = name;
  state.ref.kind = kind;
  state.context = std::move(config.context);
  state.begin_life(*self, config.options, config.policies);
  state.stage = std::make_unique<Stage>(config.options, config.policies, *config.registry);
  state.other = [](sched::Effect&) {
    TROUPE_CHECK(false, "an effect that no stage asks for here");
  };
  drop_unexpected(*self, state.context.counters);
  const auto take = [self](const auto& event) { self->state.handle(*self, event); };
  return {
      [=](const Events& event) { take(event); }...,
      [=](const WakeUp& up) { self->state.wake(*self, up, take); },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
