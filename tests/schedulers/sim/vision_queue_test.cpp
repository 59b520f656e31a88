// Images in virtual time: encoders by cost, by patches and in turn (policies.md section 8).

#include "schedulers/policies/vision_balancer/least_cost.hpp"
#include "schedulers/policies/vision_balancer/round_robin.hpp"
#include "schedulers/sim/vision_queue.hpp"
#include "tests/support/draws.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

namespace troupe::sim {
namespace {

using sched::ImageCost;
using sched::VisionBalancer;
using sched::testing::Draws;
using sched::testing::mean_and_error;

constexpr std::uint64_t kStream = 8;
constexpr std::uint64_t kSeeds = 8;
constexpr std::uint32_t kEncoders = 4;

/// Requests of 1 to 8 images, each small (546 x 546), middling (1008 x 1008) or large (1302 x
/// 1302).
std::vector<VisionArrival> requests(std::uint64_t seed, int count, double gap_us) {
  constexpr std::array<std::int64_t, 3> kPatches = {1'521, 5'184, 8'649};
  Draws draws(seed, kStream);
  std::vector<VisionArrival> made;
  double at = 0;
  for (int i = 0; i < count; ++i) {
    at += draws.exponential(gap_us);
    VisionArrival arrival{static_cast<std::int64_t>(at), {}, 500 + draws.below(2'000)};
    const std::int64_t images = 1 + draws.below(8);
    for (std::int64_t image = 0; image < images; ++image)
      arrival.patches.push_back(kPatches[static_cast<std::size_t>(draws.below(3))]);
    made.push_back(std::move(arrival));
  }
  return made;
}

VisionQueueOptions options_of(ImageCost told) {
  VisionQueueOptions options;
  options.encoders = kEncoders;
  options.told_cost = told;
  options.prefill_token_ps = 2'000'000; // Five ranks would share what is one queue here.
  return options;
}

VisionTotals checked(VisionBalancer& policy, const std::vector<VisionArrival>& arrivals,
                     const VisionQueueOptions& options) {
  VisionTotals totals = run_vision(policy, arrivals, options);
  std::int64_t images = 0;
  std::int64_t busy_us = 0;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    images += static_cast<std::int64_t>(arrivals[i].patches.size());
    for (const std::int64_t patches : arrivals[i].patches)
      busy_us += (options.cost.of(patches) + options.flop_per_us - 1) / options.flop_per_us;
    EXPECT_GT(totals.encoded_us[i], 0);
    EXPECT_GT(totals.ttft_us[i], totals.encoded_us[i]);
  }
  EXPECT_EQ(totals.invalid, 0);
  EXPECT_EQ(totals.images, images) << "every image once";
  EXPECT_EQ(std::accumulate(totals.busy_us.begin(), totals.busy_us.end(), std::int64_t{0}),
            busy_us);
  EXPECT_EQ(totals.idle_beside_work, 0);
  return totals;
}

double mean_of(const std::vector<std::int64_t>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

//   encoder 0   |--- 9 ---|- 5 -| 4 |      images 9 7 6 5 5 4 of one request at once
//   encoder 1   |-- 7 --|- 6 -|- 5 -|
TEST(VisionQueue, OneRequestIsDoneWhenItsLastImageIs) {
  VisionQueueOptions options;
  options.encoders = 2;
  options.cost = options.told_cost = {1'000'000'000, 0};
  options.prefill_token_ps = 1'000'000; // 1 us a token.
  sched::LeastCostVision policy;
  const std::vector<VisionArrival> one = {{100, {9, 7, 6, 5, 5, 4}, 3}};
  const VisionTotals totals = checked(policy, one, options);
  EXPECT_EQ(totals.encoded_us[0], 18);
  EXPECT_EQ(totals.busy_us, (std::vector<std::int64_t>{18, 18}));
  EXPECT_EQ(totals.ttft_us[0], 18 + 3 + 1) << "3 of text, 1 of the nine patches";
}

// Load of 0.8: a request has 4.5 images of 9.1 TFLOP on average. The three see the same requests.
TEST(VisionQueue, BalancingCostBeatsBalancingPatchesAndTurns) {
  std::printf("seeds 1 to 8\n");
  std::vector<double> over_patches, over_turns, over_prefill;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto arrivals = requests(seed, 2'000, 12'500);
    sched::LeastCostVision by_cost;
    sched::LeastCostVision by_patches;
    sched::RoundRobinVision turns;
    const ImageCost patches_only{ImageCost{}.per_patch, 0};
    const VisionTotals cost = checked(by_cost, arrivals, options_of({}));
    const VisionTotals patches = checked(by_patches, arrivals, options_of(patches_only));
    const VisionTotals turn = checked(turns, arrivals, options_of({}));
    const double ours = mean_of(cost.encoded_us);
    over_patches.push_back(mean_of(patches.encoded_us) / ours - 1);
    over_turns.push_back(mean_of(turn.encoded_us) / ours - 1);
    over_prefill.push_back(mean_of(turn.ttft_us) / mean_of(cost.ttft_us) - 1);
  }
  const auto patches = mean_and_error(over_patches);
  const auto turns = mean_and_error(over_turns);
  const auto prefill = mean_and_error(over_prefill);
  std::printf("longer until encoded: by patches %+.2f %% +- %.2f, in turn %+.2f %% +- %.2f; "
              "until the first token in turn %+.2f %% +- %.2f\n",
              100 * patches.mean, 100 * patches.error, 100 * turns.mean, 100 * turns.error,
              100 * prefill.mean, 100 * prefill.error);
  EXPECT_GT(patches.mean, 3 * patches.error);
  EXPECT_GT(turns.mean, 3 * turns.error);
  EXPECT_GT(prefill.mean, 3 * prefill.error);
}

// A budget keeps images back for whichever encoder is free first; no encoder idles beside them.
TEST(VisionQueue, ABudgetKeepsEncodersBusyAndLateImagesFree) {
  std::printf("seed 9\n");
  const auto arrivals = requests(9, 1'000, 12'500);
  VisionQueueOptions options = options_of({});
  options.budget = options.told_cost.of(8'649);
  sched::LeastCostVision least;
  sched::RoundRobinVision turns;
  const double kept_back = mean_of(checked(turns, arrivals, options).encoded_us);
  const double at_once = mean_of(checked(turns, arrivals, options_of({})).encoded_us);
  EXPECT_LT(kept_back, at_once) << "turns only bind what an encoder can start soon";
  checked(least, arrivals, options);
}

TEST(VisionQueue, TheSameTwice) {
  const auto arrivals = requests(10, 300, 12'500);
  sched::LeastCostVision one, two;
  const VisionTotals a = checked(one, arrivals, options_of({}));
  const VisionTotals b = checked(two, arrivals, options_of({}));
  EXPECT_EQ(a.ttft_us, b.ttft_us);
  EXPECT_EQ(a.busy_us, b.busy_us);
}

} // namespace
} // namespace troupe::sim
