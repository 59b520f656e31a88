#include "actors/balancer_actor.hpp"

#include "schedulers/registry/policy_registry.hpp"

namespace troupe::actors {

caf::behavior balancer_actor(caf::stateful_actor<BalancerState>* self, BalancerConfig config) {
  auto& state = self->state;
  state.name = "decode";
  state.context = std::move(config.context);
  state.stage =
      std::make_unique<sched::DecodeStage>(config.options, config.policies, *config.registry);
  state.other = [](sched::Effect&) {
    TROUPE_CHECK(false, "an effect the balancer cannot perform");
  };
  drop_unexpected(*self, state.context.counters);
  return {
      [=](const sched::PrefillDone& m) { self->state.handle(*self, m); },
      [=](const sched::Cancel& m) { self->state.handle(*self, m); },
      [=](const sched::Reserved& m) { self->state.handle(*self, m); },
      [=](const sched::Refused& m) { self->state.handle(*self, m); },
      [=](const sched::TransferDone& m) { self->state.handle(*self, m); },
      [=](const sched::Adopted& m) { self->state.handle(*self, m); },
      [=](const sched::RankReport& m) { self->state.handle(*self, m); },
      [=](const sched::RankUp& m) { self->state.handle(*self, m); },
      [=](const sched::RankDown& m) { self->state.handle(*self, m); },
      [=](const sched::Timer& m) { self->state.handle(*self, m); },
      [=](const Stop&) { self->quit(); },
  };
}

} // namespace troupe::actors
