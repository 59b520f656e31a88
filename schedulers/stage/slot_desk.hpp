// The policies of one stage: those that decide now, and those of a set that waits for its commit.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/swap_protocol.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace troupe::sched {

/// Slots has one PolicySlot a kind that its stage asks:
///   static Result<Slots> make(const PolicySet&, const PolicyRegistry&)
///   void import_state(const Slots& before)    Status rehearse(const Slots& live)
template <class Slots>
class SlotDesk {
public:
  /// @pre the set was checked against the registry, which outlives the desk
  SlotDesk(StageRef stage, const PolicySet& set, const PolicyRegistry& registry)
      : stage_(stage), registry_(&registry), live_(must_make(set, registry)), epoch_(set.epoch) {}

  Slots& operator*() noexcept { return live_; }
  Slots* operator->() noexcept { return &live_; }
  const Slots* operator->() const noexcept { return &live_; }
  PolicyEpoch epoch() const noexcept { return epoch_; }
  const StageRef& stage() const noexcept { return stage_; }

  /// Builds the set, lets a throw-away copy answer what was asked lately, and keeps it. A set that
  /// is live elsewhere is taken at once: what was asked lately is no objection any more.
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
    const PolicyEpoch epoch = event.set.epoch;
    if (epoch <= epoch_) return committed(effects); // It is live, or an old one.
    const bool has_it = prepared_ && prepared_->epoch == epoch;
    if (!event.is_live && prepared_ && epoch < prepared_->epoch) return; // Its swap is over.
    Status fit;
    if (!has_it) fit = event.is_live ? catch_up(event.set) : prepare(event.set);
    if (has_it && event.is_live) switch_to(std::move(prepared_->slots), epoch);
    if (event.is_live && fit.ok()) return committed(effects);
    if (fit.ok()) {
      prepared_->due_us = now_us + event.drop_after_us;
      effects.timer(TimerKind::swap, raw(epoch), prepared_->due_us + 1);
    }
    effects.send(Peer::manager, Prepared{stage_, epoch, fit.ok(), fit.error().message});
  }

  /// Switches. What this stage does not have it asks for.
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
    if (prepared_ && now_us > prepared_->due_us) prepared_.reset();
    if (event.epoch == epoch_) return committed(effects);
    if (event.epoch < epoch_) return;
    if (!prepared_ || prepared_->epoch != event.epoch) return announce(effects);
    switch_to(std::move(prepared_->slots), event.epoch);
    committed(effects);
  }

  void on(const SwapAbort& event) {
    if (prepared_ && prepared_->epoch == event.epoch) prepared_.reset();
  }

  /// Drops a prepared set that nobody committed in time.
  void on(const Timer&, std::int64_t now_us) {
    if (prepared_ && now_us > prepared_->due_us) prepared_.reset();
  }

  /// Tells by which set this stage decides: when it begins, and when it lacks one.
  void announce(Effects& effects) const { effects.send(Peer::manager, SetRequest{stage_, epoch_}); }

  /// Asks the live set's policy of this kind. An answer that did not count adds to `invalid`, and
  /// the manager hears of it.
  template <class Question>
  auto decide(Question question, std::int64_t& invalid, Effects& effects) {
    auto answered = live_.template of<Question>().decide(std::move(question), invalid);
    if (!answered.fault.empty()) {
      effects.send(Peer::manager, PolicyFault{stage_, epoch_, std::string(Question::kKind),
                                              answered.faulty, answered.fault});
    }
    return answered;
  }

private:
  struct Waiting {
    PolicyEpoch epoch;
    std::int64_t due_us = 0;
    Slots slots;
    Waiting(PolicyEpoch given, Slots made) : epoch(given), slots(std::move(made)) {}
  };

  /// Keeps the set beside the live one when its instances build and answer validly.
  Status prepare(const PolicySet& set) {
    prepared_.reset();
    auto rehearsal = Slots::make(set, *registry_);
    if (!rehearsal.ok()) return rehearsal.status();
    if (Status fit = rehearsal->rehearse(live_); !fit.ok()) return fit;
    auto made = Slots::make(set, *registry_);
    if (made.ok()) prepared_ = std::make_unique<Waiting>(set.epoch, std::move(*made));
    return made.status();
  }

  Status catch_up(const PolicySet& set) {
    auto made = Slots::make(set, *registry_);
    if (made.ok()) switch_to(std::move(*made), set.epoch);
    return made.status();
  }

  void switch_to(Slots slots, PolicyEpoch epoch) {
    slots.import_state(live_);
    live_ = std::move(slots);
    epoch_ = epoch;
    if (prepared_ && prepared_->epoch <= epoch_) prepared_.reset();
  }

  static Slots must_make(const PolicySet& set, const PolicyRegistry& registry) {
    auto made = Slots::make(set, registry);
    TROUPE_CHECK(made.ok(), "the policy set was checked before a stage is built from it");
    return std::move(made).value();
  }

  void committed(Effects& effects) const { effects.send(Peer::manager, Committed{stage_, epoch_}); }

  StageRef stage_;
  const PolicyRegistry* registry_;
  Slots live_;
  PolicyEpoch epoch_;
  std::unique_ptr<Waiting> prepared_; ///< Null when no set waits.
};

} // namespace troupe::sched
