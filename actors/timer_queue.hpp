// The timers of one actor in order of time, and the wake-ups it asked the clock for.
//
// A wake-up under way stands for every timer due by then, so the clock holds a few messages an
// actor instead of one a timer. There is no cancelling, as in schedulers/stage/effects.hpp.

#pragma once

#include "schedulers/stage/effects.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::actors {

/// Thread: one owner. Cost: O(log timers) each.
class TimerQueue {
public:
  void set(const sched::SetTimer& timer) {
    heap_.push_back({timer.due_us, ++order_, {timer.kind, timer.key}});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  /// Takes out what is due at `now_us`: by due time, equal ones in the order they were set.
  std::vector<sched::Timer> take_due(std::int64_t now_us) {
    std::vector<sched::Timer> due;
    while (!heap_.empty() && heap_.front().due_us <= now_us) {
      due.push_back(heap_.front().timer);
      std::pop_heap(heap_.begin(), heap_.end(), later);
      heap_.pop_back();
    }
    return due;
  }

  /// When to ask the clock for a wake-up; none while one under way comes early enough.
  /// @post the wake-up counts as asked for
  std::optional<std::int64_t> next_wake_us() {
    if (heap_.empty()) return std::nullopt;
    const std::int64_t due_us = heap_.front().due_us;
    if (!wakes_us_.empty() && wakes_us_.back() <= due_us) return std::nullopt;
    wakes_us_.push_back(due_us);
    return due_us;
  }

  /// A wake-up came.
  void woke(std::int64_t due_us) { std::erase(wakes_us_, due_us); }

  std::size_t size() const noexcept { return heap_.size(); }
  std::size_t wakes() const noexcept { return wakes_us_.size(); }

private:
  struct Entry {
    std::int64_t due_us = 0;
    std::uint64_t order = 0;
    sched::Timer timer;
  };

  static bool later(const Entry& a, const Entry& b) noexcept {
    return a.due_us != b.due_us ? a.due_us > b.due_us : a.order > b.order;
  }

  std::vector<Entry> heap_;            ///< Earliest first.
  std::vector<std::int64_t> wakes_us_; ///< Under way, each earlier than the one before.
  std::uint64_t order_ = 0;
};

} // namespace troupe::actors
