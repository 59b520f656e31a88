// What every stage's actor shares: convert, stage.on(event, now, effects), perform.

#pragma once

#include "actors/effects_runner.hpp"
#include "actors/messages.hpp"
#include "actors/stage_totals.hpp"
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

/// What an actor needs besides its stage.
struct ShellContext {
  std::shared_ptr<const Peers> peers;
  std::shared_ptr<Ledger> ledger;          ///< May be null.
  std::shared_ptr<ShellCounters> counters; ///< Never null.
  StageTap tap;                            ///< May be empty.
  std::shared_ptr<StageTable> stages;      ///< May be null: then nothing is published.
};

/// State of an actor around one stage.
template <class Stage>
struct Shell {
  std::string name;
  ShellContext context;
  std::unique_ptr<Stage> stage;
  std::shared_ptr<StageTotals> totals_of_stage; ///< Taken from the table by the first event.
  StagePublished published;
  std::function<void(sched::Effect&)> other; ///< Effects that are not Send, SetTimer or Record.

  template <class Event>
  void handle(caf::event_based_actor& self, const Event& event) {
    const std::int64_t now = now_us(self);
    if (context.tap) context.tap(name, event, now);
    run(self, now, [&](sched::Effects& effects) { stage->on(event, now, effects); });
  }

  /// Runs a call of the stage that fills effects, and performs them.
  template <class Call>
  void run(caf::event_based_actor& self, std::int64_t now, Call call) {
    sched::Effects effects;
    const auto begin = std::chrono::steady_clock::now();
    call(effects);
    context.counters->scheduling_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(
                                           std::chrono::steady_clock::now() - begin)
                                           .count();
    publish(effects);
    perform(self, *context.peers, context.ledger.get(), *context.counters, effects, now, other);
  }

  void publish(const sched::Effects& effects) {
    if (!context.stages) return;
    if (!totals_of_stage) totals_of_stage = context.stages->of(name);
    totals_of_stage->publish(stage->counts(), published);
    totals_of_stage->count_decisions(effects);
  }
};

/// Counts and drops what no handler takes, instead of CAF's error to the sender.
void drop_unexpected(caf::scheduled_actor& self, std::shared_ptr<ShellCounters> counters);

} // namespace troupe::actors
