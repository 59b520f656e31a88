#include "actors/expert_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace troupe::actors {

namespace {

using Self = caf::stateful_actor<ExpertState>;

/// Says what an operator may want to know, and publishes the counts.
void tell(ExpertState& state, const sched::ExpertCounts& before) {
  const sched::ExpertCounts& after = state.stage->counts();
  if (after.plans > before.plans) {
    spdlog::info("expert map {}: {} moves, balancedness {} of 1000 predicted", raw(after.epoch),
                 after.moves - before.moves, after.predicted_permille);
  }
  if (after.bad_layers > 0 && before.bad_layers == 0) {
    spdlog::warn("a rank reported no usable expert loads of some layers; those keep their map, "
                 "further ones are counted only");
  }
  state.facts->publish(after);
}

template <class Call>
void work(Self& self, Call call) {
  const sched::ExpertCounts before = self.state.stage->counts();
  call();
  tell(self.state, before);
}

template <class Event>
void take(Self& self, const Event& event) {
  work(self, [&] { self.state.handle(self, event); });
}

} // namespace

caf::behavior expert_actor(caf::stateful_actor<ExpertState>* self, ExpertConfig config) {
  ExpertState& state = self->state;
  state.name = "experts";
  state.ref = {sched::StageKind::experts, {}};
  state.context = std::move(config.stage.context);
  state.facts = std::move(config.facts);
  state.begin_life(*self, config.stage.options, config.stage.policies);
  state.stage = std::make_unique<sched::ExpertStage>(config.stage.options, config.stage.policies,
                                                     *config.stage.registry);
  state.other = [](sched::Effect&) {
    TROUPE_CHECK(false, "an effect that the manager of experts cannot perform");
  };
  drop_unexpected(*self, state.context.counters);
  return {
      [=](const Start&) { self->state.start(*self); },
      [=](const sched::ExpertLoads& m) { take(*self, m); },
      [=](const sched::SwapPrepare& m) { take(*self, m); },
      [=](const sched::SwapCommit& m) { take(*self, m); },
      [=](const sched::SwapAbort& m) { take(*self, m); },
      [=](const WakeUp& up) {
        self->state.wake(*self, up, [&](const sched::Timer& timer) { take(*self, timer); });
      },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
