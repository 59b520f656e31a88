// Sizes of a cluster: the closed forms of policies.md sections 7.2, 7.4 and 8.

#include "schedulers/kv/unit_chain.hpp"
#include "schedulers/model/sizing.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

namespace troupe::sched {
namespace {

constexpr std::int64_t kPrefillPerS = 90'000;
constexpr std::int64_t kDecodePerS = 13'505;
constexpr std::int64_t kTokenBytes = 890;

/// Of 8 GPUs, in Gb/s.
double link_gbits(std::int64_t hit_millionths) {
  const StoreTraffic traffic = store_traffic(kPrefillPerS, hit_millionths, kTokenBytes);
  return static_cast<double>(traffic.total()) * 8 * 8 / 1e9;
}

TEST(Sizing, TrafficOfTheStoreByHitRate) {
  EXPECT_NEAR(link_gbits(900'000), 103, 0.5);
  EXPECT_NEAR(link_gbits(960'000), 256, 0.5);
  EXPECT_NEAR(link_gbits(970'000), 342, 0.5);
  EXPECT_NEAR(link_gbits(980'000), 513, 0.5);
  // 400 Gb/s are enough up to 97.4 %.
  EXPECT_LT(link_gbits(974'000), 400);
  EXPECT_GT(link_gbits(975'000), 400);
  const StoreTraffic cold = store_traffic(kPrefillPerS, 0, kTokenBytes);
  EXPECT_EQ(cold.read, 0);
  EXPECT_EQ(cold.push, cold.write) << "nothing is cached: all that is computed is pushed";
  const StoreTraffic warm = store_traffic(kPrefillPerS, 960'000, kTokenBytes);
  EXPECT_EQ(warm.read + warm.write, warm.push) << "what is pushed was read or computed";
}

// Section 9.4 for its rows of 0.5 and 0.6 % output: 155 T tokens a day, 96 % hits, 14.4 TB a GPU.
TEST(Sizing, DaysOfRetention) {
  const auto days = [](std::int64_t gpus, double output) {
    const double fresh = 155e12 * ((1 - output) * 0.04 + output);
    return static_cast<double>(retention_millidays(gpus, 14'400'000'000'000,
                                                   static_cast<std::int64_t>(fresh * 890))) /
           1e3;
  };
  EXPECT_NEAR(days(2'012, 0.005), 4.7, 0.05);
  EXPECT_NEAR(days(2'112, 0.006), 4.8, 0.05);
  EXPECT_NEAR(days(2'514, 0.01), 5.3, 0.05);
}

// A copy of 64 KB costs the copy engine 6 us to start and 1.3 us of link: small ones waste it.
TEST(Sizing, ManySmallCopiesPayForTheirStarts) {
  constexpr std::int64_t kStart = 6'000'000;
  constexpr std::int64_t kLink = 50'000'000'000;
  EXPECT_EQ(copy_time_ps(1, kStart, 65'536, kLink), kStart + 1'310'720);
  EXPECT_EQ(copy_time_ps(8, kStart, 8 * kUnitBytes, kLink) -
                copy_time_ps(1, kStart, 8 * kUnitBytes, kLink),
            7 * kStart);
}

TEST(Sizing, PrefillAgainstDecode) {
  const auto ratio = [](std::int64_t input_permille, std::int64_t hit_millionths) {
    return static_cast<double>(prefill_per_decode_permille(
               {input_permille, hit_millionths, kPrefillPerS, kDecodePerS})) /
           1e3;
  };
  EXPECT_NEAR(ratio(167'000, 960'000), 1.002, 0.0005) << "64 : 64 is the balanced point";
  EXPECT_NEAR(ratio(131'000, 942'000), 1.14, 0.005);
  EXPECT_NEAR(ratio(3'600, 560'000), 0.24, 0.005);
}

// t = 10.26 ms · (1 + B / 700).
TEST(Sizing, SequencesOfADecodeRankForASpeed) {
  const std::vector<CostPoint> line = {{0, 10'260'000'000}, {700, 20'520'000'000}};
  const StepCosts costs{line};
  constexpr DecodeTarget kVariable{3'200, 4'500, 230};
  EXPECT_EQ(sequences_within(costs, kVariable, 10'000), 55);
  EXPECT_EQ(sequences_within(costs, {3'290, 6'000, 100}, 10'000), 257);
  EXPECT_EQ(sequences_within(costs, {3'290, 6'000, 300}, 10'000), 8);
  EXPECT_EQ(sequences_within(costs, {3'290, 6'000, 400}, 10'000), 0) << "one is too slow";
  EXPECT_EQ(sequences_within(costs, {3'290, 6'000, 100}, 200), 200);
  // What is offline fills what is left: 15 beside 40 online sequences, and a 16th is one too many.
  const auto speed = [&](std::int64_t sequences) {
    return 3.2e12 / static_cast<double>(costs.at((sequences * 9 + 1) / 2));
  };
  EXPECT_GE(speed(40 + 15), 230);
  EXPECT_LT(speed(40 + 16), 230);
  // Where graphs end, nothing fits.
  const std::vector<CostPoint> graphs = {{8, 1'000'000'000}, {16, 1'100'000'000}};
  StepCosts recorded{graphs};
  recorded.curve = CostCurve::graphs;
  EXPECT_EQ(sequences_within(recorded, {1'000, 1'000, 1}, 10'000), 16);
}

// A sequence that comes back without its windows replays 128 + 12 tokens: 1.4 ms of prefill; an
// exact rebuild of 20 layers takes 2,560.
TEST(Sizing, BoundedReplayOfTheWindows) {
  const CostModel model = testing::sm100_ep4();
  EXPECT_NEAR(static_cast<double>(model.marginal_ps(128 + 12, 0)) / 1e9, 1.4, 0.05);
  EXPECT_NEAR(static_cast<double>(model.marginal_ps(128 * 20, 0)) / 1e9, 26.2, 0.05);
}

} // namespace
} // namespace troupe::sched
