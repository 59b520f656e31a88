// The timer by which a stage asks again: after a refusal, and when a policy said "not now".

#pragma once

#include "schedulers/stage/effects.hpp"

#include <algorithm>
#include <cstdint>

namespace troupe::sched {

inline constexpr std::int64_t kAgainSoonestUs = 100;      ///< A policy cannot make a stage spin.
inline constexpr std::int64_t kAgainLatestUs = 1'000'000; ///< Nor keep it from asking.

/// When a policy that named `retry_at_us` is asked again, though nothing happens before. A time
/// that is no later than now is none: it is asked after `pause_us`.
inline std::int64_t again_us(std::int64_t retry_at_us, std::int64_t pause_us, std::int64_t now_us) {
  const std::int64_t wait_us = retry_at_us > now_us ? retry_at_us - now_us : pause_us;
  return now_us + std::clamp(wait_us, kAgainSoonestUs, kAgainLatestUs);
}

/// At most one of its timers counts: the earliest. One key-0 retry timer a stage.
class RetryTimer {
public:
  /// Nothing is set when an earlier one is under way already.
  void at(std::int64_t due_us, Effects& effects) {
    if (due_us_ >= 0 && due_us_ <= due_us) return;
    due_us_ = due_us;
    effects.timer(TimerKind::retry, 0, due_us);
  }

  /// For a policy that said "not now"; 0 names no time: the next event asks again.
  void named(std::int64_t retry_at_us, std::int64_t pause_us, std::int64_t now_us,
             Effects& effects) {
    if (retry_at_us != 0) at(again_us(retry_at_us, pause_us, now_us), effects);
  }

  /// Whether the timer that came is the one that counts; it is spent then.
  bool fires(std::int64_t now_us) {
    if (due_us_ < 0 || now_us < due_us_) return false;
    due_us_ = -1;
    return true;
  }

private:
  std::int64_t due_us_ = -1; ///< -1: none is under way.
};

} // namespace troupe::sched
