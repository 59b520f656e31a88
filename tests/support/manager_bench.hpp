// A policy manager whose stages answer as the test says.

#pragma once

#include "schedulers/stage/manager_stage.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/stage_probe.hpp"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace troupe::sched::testing {

inline constexpr std::int64_t kTimeout = 5'000'000;
inline constexpr std::int64_t kAgain = 200'000;
inline constexpr std::int64_t kWindow = 30'000'000;

inline const StageRef kDriver{StageKind::driver, {}};
inline const StageRef kPrefill{StageKind::prefill, {}};
inline const StageRef kDecode{StageKind::decode, {}};

inline StageRef rank_stage(std::uint32_t rank, std::uint32_t life = 1) {
  return {StageKind::rank, rank_ref(rank, life)};
}

inline PolicySet fast() { return set_of("fast", {{"decode_balancer", "least_kv"}}); }
inline PolicySet fair() { return set_of("fair", {{"queue", "weighted_fair"}}); }

inline PolicySet on_probation(PolicySet set) {
  set.probation = ProbationSpec{};
  return set;
}

inline ManagerOptions options_of(std::int64_t history_max = 64) {
  ManagerOptions options;
  options.history_max = history_max;
  options.invalid_decisions_max = 3;
  return options;
}

/// A manager whose stages answer as the test says; rank 0 is known.
class ManagerBench {
public:
  explicit ManagerBench(PolicySet first = {}, ManagerOptions options = options_of())
      : stage(options, std::move(first), 0) {
    stage.start(0, effects);
    on(SetRequest{rank_stage(0), stage.live().epoch});
    effects.clear();
  }

  template <class E>
  ManagerBench& on(const E& event) {
    keep();
    effects.clear();
    stage.on(event, now_us, effects);
    for (SwapEnded& one : stage.take_ended())
      ended.push_back(std::move(one));
    return *this;
  }
  ManagerBench& ask(const PolicySet& set, std::uint64_t question = 1) {
    return on(SwapAsked{question, set, SwapCause::command, "because"});
  }
  ManagerBench& roll_back(std::uint64_t question = 2) {
    return on(RollbackAsked{question, "a person's words"});
  }
  /// The timer that the last event asked for.
  ManagerBench& wake(std::int64_t later_us, TimerKind kind = TimerKind::swap) {
    keep();
    now_us += later_us;
    return on(Timer{kind, kind == TimerKind::swap ? swap_key_ : window_key_});
  }
  ManagerBench& prepared(const StageRef& from, bool ok = true, const std::string& why = {}) {
    return on(Prepared{from, asked_epoch(), ok, why});
  }
  ManagerBench& committed(const StageRef& from) { return on(Committed{from, stage.live().epoch}); }
  ManagerBench& all_prepare(const std::vector<StageRef>& stages = everybody()) {
    const PolicyEpoch epoch = asked_epoch();
    for (const StageRef& one : stages)
      on(Prepared{one, epoch, true, {}});
    return *this;
  }
  ManagerBench& all_commit(const std::vector<StageRef>& stages = everybody()) {
    for (const StageRef& one : stages)
      committed(one);
    return *this;
  }
  /// A whole swap, as it goes when nothing is wrong.
  ManagerBench& swap_to(const PolicySet& set) { return ask(set).all_prepare().all_commit(); }
  ManagerBench& go_back() { return roll_back().all_prepare().all_commit(); }

  /// Ends `count` requests and then the window.
  ManagerBench& window(std::int64_t count, RequestEnded request) {
    for (std::int64_t i = 0; i < count; ++i)
      on(request);
    return wake(kWindow, TimerKind::probation);
  }

  static std::vector<StageRef> everybody() { return {kDriver, kPrefill, kDecode, rank_stage(0)}; }
  std::uint64_t epoch() const { return raw(stage.live().epoch); }
  const std::string& name() const { return stage.live().name; }
  /// Of the set that stages were asked to prepare last.
  PolicyEpoch asked_epoch() {
    for (const SwapPrepare& one : sent<SwapPrepare>(effects)) {
      if (!one.is_live) asked_ = one.set.epoch;
    }
    return asked_;
  }

  Effects effects;
  ManagerStage stage;
  std::vector<SwapEnded> ended;
  std::int64_t now_us = 0;

private:
  void keep() {
    asked_epoch();
    for (const Timer& timer : timers(effects, TimerKind::swap))
      swap_key_ = timer.key;
    for (const Timer& timer : timers(effects, TimerKind::probation))
      window_key_ = timer.key;
  }

  PolicyEpoch asked_{};
  std::uint64_t swap_key_ = 0;
  std::uint64_t window_key_ = 1; ///< Of the first window.
};

} // namespace troupe::sched::testing
