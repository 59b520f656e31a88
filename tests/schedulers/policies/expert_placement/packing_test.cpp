// Packing and copying by heaps come to what a look at every bin and every expert comes to: the
// published algorithm as it is written down.

#include "schedulers/core/rng.hpp"
#include "schedulers/model/integer_math.hpp"
#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/eplb_refined.hpp"
#include "schedulers/policies/expert_placement/incremental.hpp"
#include "schedulers/policies/expert_placement/refine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <vector>

namespace troupe::sched {
namespace {

using Weights = std::vector<std::int64_t>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// Some equal, some zero.
Weights weights(Rng& rng, std::size_t count) {
  Weights out;
  const std::uint64_t spread = std::uint64_t{1} << rng.below(30);
  for (std::size_t i = 0; i < count; ++i)
    out.push_back(rng.below(6) == 0 ? 0 : static_cast<std::int64_t>(rng.below(spread)));
  return out;
}

/// Section 4.1: heaviest first, each to the lightest bin with room; ties to the lower index.
Packing plain_pack(const Weights& weights, const Weights& capacity) {
  Packing packing;
  packing.bin.resize(weights.size());
  packing.rank.resize(weights.size());
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  Weights load(capacity.size(), 0), held(capacity.size(), 0);
  for (const std::size_t item : order) {
    std::size_t best = capacity.size();
    for (std::size_t bin = 0; bin < capacity.size(); ++bin) {
      if (held[bin] == capacity[bin]) continue;
      if (best == capacity.size() || load[bin] < load[best]) best = bin;
    }
    packing.bin[item] = static_cast<std::int64_t>(best);
    packing.rank[item] = held[best]++;
    load[best] += weights[item];
  }
  return packing;
}

/// Section 4.1: one more copy of whoever carries most per copy; ties to the lower index.
std::vector<std::int32_t> plain_replicate(const Weights& weights, std::int64_t slots,
                                          std::int64_t copies_max) {
  const auto experts = static_cast<std::int64_t>(weights.size());
  std::vector<std::int32_t> copies(at(slots));
  std::iota(copies.begin(), copies.begin() + experts, 0);
  Weights times(weights.size(), 1);
  const std::int64_t limit = std::max(copies_max, (slots + experts - 1) / experts);
  for (std::int64_t slot = experts; slot < slots; ++slot) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      if (times[at(e)] >= limit) continue;
      if (best < 0 || ratio_less(weights[at(best)], times[at(best)], weights[at(e)], times[at(e)]))
        best = e;
    }
    ++times[at(best)];
    copies[at(slot)] = static_cast<std::int32_t>(best);
  }
  return copies;
}

TEST(ExpertPacking, ByAHeapIsAsByALookAtEveryBin) {
  std::printf("seed 97\n");
  Rng rng(97);
  for (int round = 0; round < 2000; ++round) {
    Weights capacity;
    const std::size_t bins = 1 + rng.below(9);
    for (std::size_t bin = 0; bin < bins; ++bin)
      capacity.push_back(static_cast<std::int64_t>(rng.below(2) + rng.below(6)));
    capacity[0] += 2; // With one item a bin the rule is another one.
    const std::int64_t room = std::accumulate(capacity.begin(), capacity.end(), std::int64_t{0});
    const Weights items = weights(rng, at(room));
    const Packing made = pack(items, capacity);
    const Packing plain = plain_pack(items, capacity);
    ASSERT_EQ(made.bin, plain.bin) << round;
    ASSERT_EQ(made.rank, plain.rank) << round;
  }
}

TEST(ExpertPacking, CopiesByAHeapAreAsByALookAtEveryExpert) {
  std::printf("seed 101\n");
  Rng rng(101);
  for (int round = 0; round < 2000; ++round) {
    const Weights loads = weights(rng, 1 + rng.below(40));
    const auto experts = static_cast<std::int64_t>(loads.size());
    const std::int64_t slots = experts + static_cast<std::int64_t>(rng.below(60));
    const std::int64_t most = rng.below(2) == 0 ? std::numeric_limits<std::int64_t>::max()
                                                : 1 + static_cast<std::int64_t>(rng.below(4));
    ASSERT_EQ(replicate(loads, slots, most), plain_replicate(loads, slots, most)) << round;
  }
}

/// ExpertPool::fill as it is said: the heaviest share first, each on the lightest GPU with room
/// that has no copy of it; empty when a copy fits nowhere.
std::vector<std::vector<std::int32_t>> plain_fill(const FineLoads& loads, const Weights& capacity,
                                                  const Weights& copies) {
  std::vector<std::int32_t> items;
  for (std::size_t e = 0; e < copies.size(); ++e)
    items.insert(items.end(), at(copies[e]), static_cast<std::int32_t>(e));
  const auto share = [&](std::int32_t e) { return loads.share(e, copies[at(e)]); };
  std::stable_sort(items.begin(), items.end(),
                   [&](std::int32_t a, std::int32_t b) { return share(a) > share(b); });
  std::vector<std::vector<std::int32_t>> held(capacity.size());
  Weights load(capacity.size(), 0);
  for (const std::int32_t expert : items) {
    std::size_t best = held.size();
    for (std::size_t gpu = 0; gpu < held.size(); ++gpu) {
      const auto& has = held[gpu];
      if (static_cast<std::int64_t>(has.size()) == capacity[gpu]) continue;
      if (std::find(has.begin(), has.end(), expert) != has.end()) continue;
      if (best == held.size() || load[gpu] < load[best]) best = gpu;
    }
    if (best == held.size()) return {};
    held[best].push_back(expert);
    load[best] += share(expert);
  }
  return held;
}

TEST(ExpertPacking, APoolIsFilledAsByALookAtEveryGpu) {
  std::printf("seed 103\n");
  Rng rng(103);
  int filled = 0;
  for (int round = 0; round < 2000; ++round) {
    const std::size_t gpus = 2 + rng.below(6);
    const auto each = static_cast<std::int64_t>(1 + rng.below(5));
    const Weights capacity(gpus, each);
    Weights copies;
    for (std::int64_t left = each * static_cast<std::int64_t>(gpus); left > 0;
         left -= copies.back())
      copies.push_back(
          std::min<std::int64_t>(left, 1 + static_cast<std::int64_t>(rng.below(gpus))));
    const FineLoads loads(weights(rng, copies.size()));
    const auto plain = plain_fill(loads, capacity, copies);
    ExpertPool pool(loads, capacity);
    pool.fill(copies);
    if (plain.empty()) continue;
    ++filled;
    ASSERT_EQ(pool.held(), plain) << round;
  }
  EXPECT_GT(filled, 1000);
}

/// Plans of a policy over loads that drift, shape by shape, as one number.
std::uint64_t plans_of(ExpertPlacement& policy, std::uint64_t seed) {
  Rng rng(seed);
  std::uint64_t sum = 0;
  for (int shape = 0; shape < 60; ++shape) {
    ExpertTopology topology{6 + static_cast<std::int64_t>(rng.below(60)), 0,
                            2 + static_cast<std::int64_t>(rng.below(12)), 1, 1};
    if (shape % 5 == 0) topology = {24, 36, 12, 4, 2};
    if (topology.slots == 0) {
      const std::int64_t least = std::max(topology.experts, topology.gpus);
      topology.slots = least + static_cast<std::int64_t>(rng.below(20));
    }
    Weights loads = weights(rng, at(topology.experts));
    loads[0] += 1;
    std::vector<std::int32_t> map;
    for (int step = 0; step < 6; ++step) {
      const ExpertLayerView layer{loads, {}, map};
      ExpertQuery query{topology, {&layer, 1}, 4 + static_cast<std::int64_t>(rng.below(40)), {}};
      map = policy.plan(query, {}).value->layers[0].slots;
      for (const std::int32_t expert : map)
        sum = mix64(sum ^ static_cast<std::uint64_t>(expert));
      for (std::int64_t& load : loads)
        load += static_cast<std::int64_t>(rng.below(1 + static_cast<std::uint64_t>(load) / 4));
    }
  }
  return sum;
}

// Made by the searches that looked at every GPU and every pair in order, before they began with the
// lightest one: 360 plans each, ties included.
TEST(ExpertPacking, PlansAreThoseOfTheSearchesThatLookAtEverything) {
  std::printf("seed 107\n");
  EplbPlacement published;
  EplbRefinedPlacement refined({.exchanges_max = 64, .ways_max = 200});
  IncrementalPlacement incremental({.moves_max = 24, .gain_min_millionths = 0, .fresh = {}});
  EXPECT_EQ(plans_of(published, 107), 2863632336609535170ULL);
  EXPECT_EQ(plans_of(refined, 107), 6384135727834876656ULL);
  EXPECT_EQ(plans_of(incremental, 107), 9219806909338622856ULL);
}

} // namespace
} // namespace troupe::sched
