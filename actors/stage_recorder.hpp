// Keeps every event of one life of a stage in a ledger of level `events`.

#pragma once

#include "actors/ledger.hpp"
#include "schedulers/registry/policy_set.hpp"
#include "schedulers/stage/effect_digest.hpp"
#include "schedulers/stage/ledger_entry.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe::actors {

/// Keeps nothing until it is begun. Thread: one owner.
class StageRecorder {
public:
  /// In place of an event: the stage was started.
  static constexpr const sched::Timer* kStart = nullptr;

  /// @param ledger  may be null
  void begin(std::shared_ptr<Ledger> ledger, const sched::StageRef& stage,
             sched::StageOptions options, const sched::PolicySet& policies, std::int64_t now_us) {
    ledger_ = std::move(ledger);
    stage_ = stage;
    if (ledger_) ledger_->append(stage_, sched::StageBegan{std::move(options), policies}, now_us);
  }

  /// What the stage said of `event`, before it is performed.
  template <class Event>
  void took(const Event* event, const sched::Effects& effects, std::int64_t now_us) {
    if (!ledger_) return;
    const auto begin = std::chrono::steady_clock::now();
    sched::StageTook entry;
    entry.number = ++events_;
    if (event != nullptr) entry.event = std::make_shared<const sched::Event>(*event);
    entry.effects = sched::digests_of(effects);
    ledger_->charge(std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::steady_clock::now() - begin)
                        .count());
    ledger_->append(stage_, std::move(entry), now_us);
  }

private:
  std::shared_ptr<Ledger> ledger_;
  sched::StageRef stage_;
  std::uint64_t events_ = 0;
};

} // namespace troupe::actors
