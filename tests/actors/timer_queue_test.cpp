// Timers come in order of time, and few wake-ups stand for many timers.

#include "actors/timer_queue.hpp"
#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>

#include <map>

namespace troupe::actors {
namespace {

using sched::TimerKind;

std::vector<std::uint64_t> keys(const std::vector<sched::Timer>& timers) {
  std::vector<std::uint64_t> out;
  for (const sched::Timer& timer : timers)
    out.push_back(timer.key);
  return out;
}

TEST(TimerQueue, EarliestFirstAndEqualOnesAsTheyWereSet) {
  TimerQueue queue;
  queue.set({TimerKind::lease, 1, 30});
  queue.set({TimerKind::lease, 2, 10});
  queue.set({TimerKind::retry, 3, 10});
  queue.set({TimerKind::lease, 4, 20});
  EXPECT_TRUE(queue.take_due(9).empty());
  EXPECT_EQ(keys(queue.take_due(20)), (std::vector<std::uint64_t>{2, 3, 4}));
  EXPECT_EQ(keys(queue.take_due(1000)), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(queue.size(), 0U);
}

TEST(TimerQueue, OneWakeUpForWhatIsDueByThen) {
  TimerQueue queue;
  EXPECT_FALSE(queue.next_wake_us());
  queue.set({TimerKind::lease, 1, 100});
  EXPECT_EQ(queue.next_wake_us(), 100);
  queue.set({TimerKind::lease, 2, 100});
  queue.set({TimerKind::lease, 3, 200});
  EXPECT_FALSE(queue.next_wake_us());
  queue.set({TimerKind::retry, 4, 50});
  EXPECT_EQ(queue.next_wake_us(), 50);
  queue.woke(50);
  EXPECT_EQ(queue.take_due(50).size(), 1U);
  EXPECT_FALSE(queue.next_wake_us()) << "the one at 100 is still under way";
  queue.woke(100);
  EXPECT_EQ(queue.take_due(100).size(), 2U);
  EXPECT_EQ(queue.next_wake_us(), 200);
}

// A long run of an actor: each event sets a timer 60 s ahead, one in ten also one 10 ms ahead. The
// clock holds at most one wake-up for each of the two distances, and every timer comes in its time.
TEST(TimerQueue, WakeUpsStayFewHoweverManyTimers) {
  constexpr std::int64_t kEvents = 200'000;
  TimerQueue queue;
  Rng rng(20261130);
  std::multimap<std::int64_t, bool> clock;
  std::int64_t now_us = 0;
  std::int64_t fired = 0;
  std::int64_t set = 0;
  const auto arm = [&] {
    if (const auto due_us = queue.next_wake_us()) clock.emplace(*due_us, true);
    ASSERT_LE(clock.size(), 3U);
    ASSERT_EQ(clock.size(), queue.wakes());
  };
  const auto run_until = [&](std::int64_t end_us) {
    while (!clock.empty() && clock.begin()->first <= end_us) {
      now_us = clock.begin()->first;
      clock.erase(clock.begin());
      queue.woke(now_us);
      for (const sched::Timer& timer : queue.take_due(now_us)) {
        ASSERT_EQ(timer.key, static_cast<std::uint64_t>(now_us));
        ++fired;
      }
      arm();
    }
    now_us = end_us;
  };
  for (std::int64_t i = 0; i < kEvents; ++i) {
    run_until(now_us + static_cast<std::int64_t>(rng.below(2000)));
    std::int64_t due_us = now_us + 60'000'000;
    queue.set({TimerKind::lease, static_cast<std::uint64_t>(due_us), due_us});
    ++set;
    arm();
    if (i % 10 != 0) continue;
    due_us = now_us + 10'000;
    queue.set({TimerKind::retry, static_cast<std::uint64_t>(due_us), due_us});
    ++set;
    arm();
  }
  run_until(now_us + 60'000'000);
  EXPECT_EQ(fired, set);
  EXPECT_EQ(queue.size(), 0U);
}

} // namespace
} // namespace troupe::actors
