#include "actors/chunker_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

namespace troupe::actors {

caf::behavior chunker_actor(caf::stateful_actor<ChunkerState>* self, ChunkerConfig config) {
  auto& state = self->state;
  state.name = "prefill";
  state.context = std::move(config.context);
  state.stage =
      std::make_unique<sched::PrefillStage>(config.options, config.policies, *config.registry);
  state.other = [](sched::Effect&) { TROUPE_CHECK(false, "an effect the chunker cannot perform"); };
  drop_unexpected(*self, state.context.counters);
  return {
      [=](const sched::Submit& m) { self->state.handle(*self, m); },
      [=](const sched::AnswersExpected& m) { self->state.handle(*self, m); },
      [=](const sched::Cancel& m) { self->state.handle(*self, m); },
      [=](const sched::Assigned& m) { self->state.handle(*self, m); },
      [=](const sched::Refused& m) { self->state.handle(*self, m); },
      [=](const sched::RankReport& m) { self->state.handle(*self, m); },
      [=](const sched::RankUp& m) { self->state.handle(*self, m); },
      [=](const sched::RankDown& m) { self->state.handle(*self, m); },
      [=](const sched::Timer& m) { self->state.handle(*self, m); },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
