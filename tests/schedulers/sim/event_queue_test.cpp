// The event queue against an ordered map.

#include "schedulers/core/rng.hpp"
#include "schedulers/sim/event_queue.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace troupe::sim {
namespace {

TEST(EventQueue, EarliestFirstAndEqualTimesInOrder) {
  EventQueue<int> queue;
  queue.push(5, 1);
  queue.push(3, 2);
  queue.push(5, 3);
  queue.push(3, 4);
  EXPECT_EQ(queue.next_us(), 3);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), 4);
  queue.push(5, 5);
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 3);
  EXPECT_EQ(queue.pop(), 5);
  EXPECT_TRUE(queue.empty());
}

TEST(EventQueue, TakesValuesThatCannotBeCopied) {
  EventQueue<std::unique_ptr<int>> queue;
  queue.push(1, std::make_unique<int>(7));
  EXPECT_EQ(*queue.pop(), 7);
}

TEST(EventQueue, AgreesWithAnOrderedMap) {
  EventQueue<std::uint64_t> queue;
  std::multimap<std::int64_t, std::uint64_t> model;
  Rng rng(3);
  std::printf("seed 3\n");
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    if (model.empty() || rng.below(100) < 51) {
      const auto due = static_cast<std::int64_t>(rng.below(500));
      queue.push(due, i);
      model.emplace(due, i);
    } else {
      ASSERT_EQ(queue.next_us(), model.begin()->first);
      ASSERT_EQ(queue.pop(), model.begin()->second);
      model.erase(model.begin());
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

} // namespace
} // namespace troupe::sim
