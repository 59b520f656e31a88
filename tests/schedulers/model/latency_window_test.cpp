// Two windows of endings compared: what the load says about goodput.

#include "schedulers/model/latency_window.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::sched {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

/// Thirty seconds with so many good and bad endings, and `live` requests in the system.
PastWindow window_of(std::int64_t good, std::int64_t bad, std::int64_t live) {
  PastWindow past{LatencyWindow(0), 30 * kSecond};
  for (std::int64_t i = 0; i < good; ++i)
    past.window.add(true, 100'000, 10'000, 0, live);
  for (std::int64_t i = 0; i < bad; ++i)
    past.window.add(false, 0, -1, 0, live);
  return past;
}

const ProbationSpec kRules;
const PastWindow kBefore = window_of(600, 0, 40);

TEST(LatencyWindow, LiveIsTheMeanOverEndings) {
  LatencyWindow window(0);
  EXPECT_EQ(window.live_mean(), 0);
  window.add(true, 1, 1, 0, 10);
  window.add(false, 1, 1, 0, 30);
  EXPECT_EQ(window.live_mean(), 20);
}

// A job that runs out of lines has fewer and fewer requests in the system.
TEST(LatencyWindow, LessLoadIsNoLessGoodput) {
  EXPECT_EQ(broken_guardrail(kRules, kBefore, window_of(60, 0, 12)), "");
}

TEST(LatencyWindow, AsFullAsBeforeFewerEndingsAreLessGoodput) {
  EXPECT_EQ(broken_guardrail(kRules, kBefore, window_of(60, 0, 40)),
            "goodput went from 20000 to 2000 requests in 1000 s, less than 0.80 times");
  EXPECT_NE(broken_guardrail(kRules, kBefore, window_of(60, 0, 20)), "") << "half is not less";
}

TEST(LatencyWindow, WithLessLoadTheShareOfGoodEndingsCounts) {
  EXPECT_EQ(broken_guardrail(kRules, kBefore, window_of(30, 30, 12)),
            "goodput went from 1000 to 500 in 1000 requests, less than 0.80 times");
}

} // namespace
} // namespace troupe::sched
