// Counts of prefixes in fixed memory: policies.md section 7.2, admission of one-shot traffic.

#include "schedulers/kv/seen_sketch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

namespace troupe::sched {
namespace {

TEST(SeenSketch, CountsUpToItsMost) {
  SeenSketch sketch;
  for (std::int64_t times = 1; times <= 300; ++times)
    EXPECT_EQ(sketch.add(7), std::min<std::int64_t>(times, SeenSketch::kMost));
  EXPECT_EQ(sketch.add(8), 1);
}

// Names drawn from 20,000: a count is never too low, and one in a hundred is too high at most.
TEST(SeenSketch, NeverTooLowAndRarelyTooHigh) {
  std::printf("seed 61\n");
  Rng rng(61);
  SeenSketch sketch;
  std::map<std::uint64_t, std::int64_t> exact;
  int high = 0;
  constexpr int kCalls = 60'000;
  for (int i = 0; i < kCalls; ++i) {
    const std::uint64_t name = rng.below(20'000);
    const std::int64_t times = ++exact[name];
    const std::int64_t counted = sketch.add(name);
    ASSERT_GE(counted, times) << name;
    high += counted > times ? 1 : 0;
  }
  std::printf("%d of %d too high\n", high, kCalls);
  EXPECT_LT(high, kCalls / 100);
}

TEST(SeenSketch, OldAppearancesAreForgotten) {
  SeenSketch sketch(10, 100);
  EXPECT_EQ(sketch.add(1), 1);
  for (std::uint64_t other = 0; other < 99; ++other)
    sketch.add(1'000 + other);
  EXPECT_EQ(sketch.add(1), 1) << "one, halved, and this one";
  EXPECT_EQ(sketch.add(1), 2);
}

} // namespace
} // namespace troupe::sched
