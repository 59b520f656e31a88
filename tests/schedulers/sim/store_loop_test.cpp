// A store in virtual time: what a shorter time to live loses (policies.md section 7.3), and what
// segments cost and save (section 7.2).

#include "schedulers/policies/retention/by_class.hpp"
#include "schedulers/policies/retention/lru.hpp"
#include "schedulers/sim/store_loop.hpp"
#include "tests/support/draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

namespace troupe::sim {
namespace {

using sched::RetentionClass;
using sched::testing::Draws;

constexpr double kDayUs = 86'400e6;
constexpr double kThetaDays = 2;
constexpr std::uint64_t kStream = 7;

/// Requests of `days` days; the share `reuse` of them comes back after an exponential time.
std::vector<StoreUse> chat_uses(std::uint64_t seed, int fresh, double days, double reuse) {
  Draws draws(seed, kStream);
  std::vector<StoreUse> uses;
  for (int unit = 0; unit < fresh; ++unit) {
    double at = draws.uniform() * days * kDayUs;
    uses.push_back({static_cast<std::int64_t>(at), static_cast<std::uint64_t>(unit)});
    while (draws.uniform() < reuse) {
      at += draws.exponential(kThetaDays * kDayUs);
      uses.push_back({static_cast<std::int64_t>(at), static_cast<std::uint64_t>(unit)});
    }
  }
  std::sort(uses.begin(), uses.end(), [](const StoreUse& a, const StoreUse& b) {
    return a.at_us != b.at_us ? a.at_us < b.at_us : a.unit < b.unit;
  });
  return uses;
}

StoreTotals keep_for(std::int64_t days, const std::vector<StoreUse>& uses) {
  sched::ByClassRetention policy({.chat_ttl_s = days * 86'400});
  const StoreTotals totals = run_store(policy, uses, {});
  EXPECT_EQ(totals.invalid, 0);
  EXPECT_EQ(totals.uses, static_cast<std::int64_t>(uses.size()));
  EXPECT_EQ(totals.hits + totals.written, totals.uses) << "what is no hit is stored";
  EXPECT_LE(totals.ended, totals.written);
  EXPECT_EQ(totals.lost, 0);
  return totals;
}

/// Share of requests, in points, that hit with 7 days and no more with 3.
double lost_points(std::uint64_t seed, double reuse) {
  const auto uses = chat_uses(seed, 200'000, 40, reuse);
  const StoreTotals week = keep_for(7, uses);
  const StoreTotals short_one = keep_for(3, uses);
  return 100 * static_cast<double>(week.hits - short_one.hits) / static_cast<double>(uses.size());
}

// Published: 7 to 3 days cost 0.5 to 1 point. With a mean of 2 days between uses that is a share of
// 2.6 to 5.2 % of requests that come back: lost = share · (e^-1.5 - e^-3.5).
TEST(StoreLoop, AShorterTimeToLiveLosesHalfAPointToOne) {
  std::printf("seed 1\n");
  for (const double share : {0.026, 0.039, 0.052}) {
    const double expected = 100 * share * (std::exp(-1.5) - std::exp(-3.5));
    const double lost = lost_points(1, share);
    std::printf("share %.1f %%: %.3f points lost, %.3f by the formula\n", 100 * share, lost,
                expected);
    EXPECT_NEAR(lost, expected, 0.06) << share;
  }
  const double middle = lost_points(2, 0.039);
  EXPECT_GE(middle, 0.5);
  EXPECT_LE(middle, 1.0);
}

// Without a limit nothing that comes back is missed: the ceiling (N - U) / N.
TEST(StoreLoop, WithoutAnEndEveryRepeatHits) {
  const auto uses = chat_uses(3, 20'000, 10, 0.5);
  sched::LruRetention policy;
  const StoreTotals totals = run_store(policy, uses, {});
  EXPECT_EQ(totals.hits, totals.uses - 20'000);
  EXPECT_EQ(totals.written, 20'000);
  EXPECT_EQ(totals.segment_drops, 0);
}

// One operation drops a segment with hundreds of units, and a hit rewrites only what has less than
// a quarter of its time left.
TEST(StoreLoop, SegmentsDropManyUnitsAtOnce) {
  std::printf("seed 4\n");
  const auto uses = chat_uses(4, 150'000, 4, 0.3);
  const StoreTotals totals = keep_for(1, uses);
  const auto hits = static_cast<double>(totals.hits);
  std::printf("%.1f units a drop; %.1f %% of hits rewrite\n",
              static_cast<double>(totals.ended) / static_cast<double>(totals.segment_drops),
              100 * static_cast<double>(totals.copied) / hits);
  EXPECT_GT(totals.ended, 150 * totals.segment_drops) << "294 fit, but the last hours are sparse";
  EXPECT_GT(totals.copied, 0);
  EXPECT_LT(static_cast<double>(totals.copied), 0.3 * hits);
}

TEST(StoreLoop, ABudgetOfBytesIsNeverExceeded) {
  const auto uses = chat_uses(5, 20'000, 4, 0.3);
  sched::ByClassRetention policy({});
  StoreLoopOptions options;
  options.segments.bytes_max = 1'000'000'000;
  const StoreTotals totals = run_store(policy, uses, options);
  EXPECT_LE(totals.bytes_most, options.segments.bytes_max);
  EXPECT_GT(totals.bytes_most, options.segments.bytes_max - options.segments.segment_bytes);
  EXPECT_GT(totals.lost, 0);
  EXPECT_GT(totals.hits, 0);
  EXPECT_EQ(totals.hits + totals.written, totals.uses);
}

// What is seen once is not stored; what comes again is, and then hits.
TEST(StoreLoop, OneShotTrafficIsStoredWhenSeenTwice) {
  sched::ByClassRetention policy({});
  const std::vector<StoreUse> uses = {{0, 1, RetentionClass::once},
                                      {1, 2, RetentionClass::once},
                                      {2, 1, RetentionClass::once},
                                      {3, 1, RetentionClass::once}};
  const StoreTotals totals = run_store(policy, uses, {});
  EXPECT_EQ(totals.written, 1);
  EXPECT_EQ(totals.hits, 1);
}

} // namespace
} // namespace troupe::sim
