// The policies that one stage asks, all of one set.

#pragma once

#include "schedulers/stage/policy_slot.hpp"
#include "schedulers/stage/slot_desk.hpp"

#include <optional>
#include <tuple>
#include <utility>

namespace troupe::sched {

/// One PolicySlot a question, in the order written.
template <class... Questions>
class SlotPack {
public:
  static Result<SlotPack> make(const PolicySet& set, const PolicyRegistry& registry) {
    Status status;
    auto one = [&]<class Question>(const Question*) -> std::optional<PolicySlot<Question>> {
      if (!status.ok()) return std::nullopt;
      auto made = PolicySlot<Question>::make(set, registry);
      if (made.ok()) return std::move(made).value();
      status = made.status();
      return std::nullopt;
    };
    std::tuple<std::optional<PolicySlot<Questions>>...> made{
        one(static_cast<const Questions*>(nullptr))...};
    if (!status.ok()) return status.error();
    return SlotPack(std::move(*std::get<std::optional<PolicySlot<Questions>>>(made))...);
  }

  template <class Question>
  PolicySlot<Question>& of() noexcept {
    return std::get<PolicySlot<Question>>(slots_);
  }
  template <class Question>
  const PolicySlot<Question>& of() const noexcept {
    return std::get<PolicySlot<Question>>(slots_);
  }

  void import_state(const SlotPack& before) {
    (of<Questions>().import_state(before.template of<Questions>()), ...);
  }

  /// As PolicySlot::rehearse, the first kind that fails.
  Status rehearse(const SlotPack& live) {
    Status status;
    ((status.ok() ? void(status = of<Questions>().rehearse(live.template of<Questions>()))
                  : void()),
     ...);
    return status;
  }

private:
  explicit SlotPack(PolicySlot<Questions>... slots) : slots_(std::move(slots)...) {}

  std::tuple<PolicySlot<Questions>...> slots_;
};

/// The driver asks the chunker only for tau of the queue estimate.
using DriverSlots = SlotPack<AdmissionQuestion, ChunkerQuestion>;
using PrefillSlots = SlotPack<QueueQuestion, RouterQuestion, ChunkerQuestion>;
using DecodeSlots = SlotPack<HandoffQuestion, BalancerQuestion>;
using RankSlots = SlotPack<StepQuestion, OverlapQuestion>;
using ExpertSlots = SlotPack<ExpertQuestion>;

} // namespace troupe::sched
