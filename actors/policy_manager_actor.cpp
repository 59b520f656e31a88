#include "actors/policy_manager_actor.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<PolicyManagerState>;

/// Publishes what others build from, before a stage hears of it.
void publish(Self& self) {
  PolicyManagerState& state = self.state;
  const sched::ManagerStage& stage = *state.stage;
  ManagerView view;
  view.live = stage.live();
  view.probation = stage.on_probation();
  view.swapping = stage.swapping();
  view.history = stage.history();
  view.faults = stage.faults();
  state.config.facts->publish(std::move(view));
  const sched::SetHistory& last = stage.history().back();
  if (last.set.epoch <= state.told) return;
  state.told = last.set.epoch;
  state.faults_said = 0;
  if (state.config.on_live) state.config.on_live({last.set, last.how, last.reason});
}

/// Each different fault once.
void say_faults(PolicyManagerState& state) {
  const auto& faults = state.stage->faults();
  for (; state.faults_said < faults.size(); ++state.faults_said) {
    const sched::PolicyFault& fault = faults[state.faults_said].fault;
    if (fault.policy.empty()) continue; // Said where it happened.
    if (fault.kind.empty()) {
      spdlog::warn("{}: policy set \"{}\": {}", sched::stage_text(fault.stage), fault.policy,
                   fault.what);
    } else {
      spdlog::warn("{}: {} policy \"{}\" gave no valid answer: {}; the default of its kind decided",
                   sched::stage_text(fault.stage), fault.kind, fault.policy, fault.what);
    }
  }
}

void say(const sched::SwapEnded& ended, const std::string& asked_name) {
  const char* dash = ended.reason.empty() ? "" : ": ";
  if (!ended.ok && ended.cause == sched::SwapCause::rollback) {
    spdlog::warn("there was no way back{}{}; policy set \"{}\", epoch {}, stays live", dash,
                 ended.reason, ended.name, raw(ended.epoch));
  } else if (!ended.ok) {
    spdlog::warn("policy set \"{}\" was not taken{}{}; \"{}\", epoch {}, stays live", asked_name,
                 dash, ended.reason, ended.name, raw(ended.epoch));
  } else if (ended.cause == sched::SwapCause::rollback) {
    spdlog::warn("rolled back to policy set \"{}\", live as epoch {}{}{}", ended.name,
                 raw(ended.epoch), dash, ended.reason);
  } else {
    spdlog::info("policy set \"{}\" is live as epoch {}, by {}{}{}", ended.name, raw(ended.epoch),
                 sched::swap_cause_name(ended.cause), dash, ended.reason);
  }
}

void answer(Self& self) {
  PolicyManagerState& state = self.state;
  for (sched::SwapEnded& ended : state.stage->take_ended()) {
    SwapAsker asker{{}, 0, "the last one that passed"};
    if (const auto found = state.askers.find(ended.question); found != state.askers.end()) {
      asker = std::move(found->second);
      state.askers.erase(found);
    }
    say(ended, asker.name);
    ended.question = asker.question;
    if (!asker.actor || asker.question == 0) continue;
    ++state.config.context.counters->messages;
    self.send(asker.actor, std::move(ended));
  }
}

void perform_all(Self& self, sched::Effects& effects, std::int64_t now) {
  PolicyManagerState& state = self.state;
  const ShellContext& context = state.config.context;
  perform(self, *context.peers, LedgerDesk{}, *context.counters, state.timers, effects, now,
          [](sched::Effect&) { TROUPE_CHECK(false, "an effect that no policy manager asks for"); });
  arm(self, state.timers);
}

/// Runs a call of the stage that fills effects.
template <class Call>
void run(Self& self, Call call) {
  sched::Effects effects;
  const std::int64_t now = now_us(self);
  call(effects, now);
  publish(self);
  perform_all(self, effects, now);
  say_faults(self.state);
  answer(self);
}

template <class Event>
void take(Self& self, const Event& event) {
  run(self, [&](sched::Effects& effects, std::int64_t now) {
    self.state.stage->on(event, now, effects);
  });
}

/// A question of somebody else's numbering: the answer goes to whom it came from.
template <class Event>
void take_question(Self& self, Event event, std::string name) {
  PolicyManagerState& state = self.state;
  SwapAsker asker{caf::actor_cast<caf::actor>(self.current_sender()), event.question,
                  std::move(name)};
  if (!asker.actor) asker.actor = state.config.asker;
  event.question = ++state.questions;
  state.askers.emplace(event.question, std::move(asker));
  take(self, event);
}

void start(Self& self) {
  self.state.told = self.state.config.first.epoch; // Its stages were built before this one.
  run(self, [&](sched::Effects& effects, std::int64_t now) {
    PolicyManagerState& state = self.state;
    state.stage =
        std::make_unique<sched::ManagerStage>(state.config.options, state.config.first, now);
    state.stage->start(now, effects);
  });
}

} // namespace

caf::behavior policy_manager_actor(caf::stateful_actor<PolicyManagerState>* self,
                                   PolicyManagerConfig config) {
  self->state.config = std::move(config);
  drop_unexpected(*self, self->state.config.context.counters);
  start(*self);
  return {
      [=](const sched::SwapAsked& m) { take_question(*self, m, m.set.name); },
      [=](const sched::RollbackAsked& m) { take_question(*self, m, "the one before"); },
      [=](const sched::PromoteAsked& m) { take_question(*self, m, "the live one"); },
      [=](const sched::Prepared& m) { take(*self, m); },
      [=](const sched::Committed& m) { take(*self, m); },
      [=](const sched::SetRequest& m) { take(*self, m); },
      [=](const sched::PolicyFault& m) { take(*self, m); },
      [=](const sched::RankDown& m) { take(*self, m); },
      // Not worth publishing: one a request, and nobody sees a window before it ends.
      [=](const sched::RequestEnded& m) {
        sched::Effects none;
        self->state.stage->on(m, now_us(*self), none);
      },
      [=](const WakeUp& up) {
        self->state.timers.woke(up.due_us);
        for (const sched::Timer& timer : self->state.timers.take_due(now_us(*self)))
          take(*self, timer);
        arm(*self, self->state.timers);
      },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
