// The policies of one stage: those that decide now, and those of a set that waits for its commit.

#pragma once

#include "schedulers/registry/policy_registry.hpp"
#include "schedulers/stage/effects.hpp"
#include "schedulers/stage/swap_protocol.hpp"

#include <cstdint>
#include <optional>
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

  /// Builds the set, lets a throw-away copy answer what was asked lately, and keeps it.
  void on(const SwapPrepare& event, std::int64_t now_us, Effects& effects) {
    Prepared answer{stage_, event.set.epoch, false, {}};
    if (event.set.epoch <= epoch_) return committed(effects); // It is live, or an old one.
    auto rehearsal = Slots::make(event.set, *registry_);
    Status fit = rehearsal.status();
    if (fit.ok()) fit = rehearsal->rehearse(live_);
    if (fit.ok()) {
      auto made = Slots::make(event.set, *registry_);
      fit = made.status();
      if (fit.ok())
        prepared_.emplace(event.set.epoch, now_us + event.drop_after_us, std::move(*made));
    }
    answer.ok = fit.ok();
    answer.reason = fit.error().message;
    effects.send(Peer::manager, std::move(answer));
  }

  /// Switches. What this stage does not have it asks for.
  void on(const SwapCommit& event, std::int64_t now_us, Effects& effects) {
    if (prepared_ && now_us > prepared_->due_us) prepared_.reset();
    if (event.epoch == epoch_) return committed(effects);
    if (event.epoch < epoch_) return;
    if (!prepared_ || prepared_->epoch != event.epoch) {
      effects.send(Peer::manager, SetRequest{stage_, epoch_});
      return;
    }
    prepared_->slots.import_state(live_);
    live_ = std::move(prepared_->slots);
    epoch_ = event.epoch;
    prepared_.reset();
    committed(effects);
  }

  void on(const SwapAbort& event) {
    if (prepared_ && prepared_->epoch == event.epoch) prepared_.reset();
  }

  /// A stage that begins tells by which set it decides.
  void announce(Effects& effects) const { effects.send(Peer::manager, SetRequest{stage_, epoch_}); }

  /// What to say of an answer that did not count; nothing when it did.
  template <class Answered>
  void report_fault(const Answered& answered, Effects& effects) const {
    if (answered.fault.empty()) return;
    effects.send(Peer::manager, PolicyFault{stage_, epoch_, std::string(answered.question().kKind),
                                            answered.faulty, answered.fault});
  }

private:
  struct Waiting {
    PolicyEpoch epoch;
    std::int64_t due_us;
    Slots slots;
    Waiting(PolicyEpoch given, std::int64_t due, Slots made)
        : epoch(given), due_us(due), slots(std::move(made)) {}
  };

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
  std::optional<Waiting> prepared_;
};

} // namespace troupe::sched
