// A layer that changed step by step is as one that is read anew from the same slots.

#include "schedulers/core/rng.hpp"
#include "schedulers/policies/expert_placement/placed_layer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace troupe::sched {
namespace {

std::vector<std::int64_t> slots_of(const PlacedLayer& layer, std::int32_t expert) {
  std::vector<std::int64_t> found;
  for (std::int64_t slot = layer.first_slot(expert); slot != PlacedLayer::kNone;
       slot = layer.next_slot(slot)) {
    found.push_back(slot);
  }
  std::sort(found.begin(), found.end());
  return found;
}

void expect_equal(const ExpertTopology& topology, const PlacedLayer& changed,
                  const PlacedLayer& anew) {
  EXPECT_TRUE(std::ranges::equal(changed.loads(), anew.loads()));
  EXPECT_TRUE(std::ranges::equal(changed.spare_slots(), anew.spare_slots()));
  for (std::int32_t expert = 0; expert < topology.experts; ++expert) {
    EXPECT_EQ(changed.copies(expert), anew.copies(expert));
    EXPECT_EQ(changed.share(expert), anew.share(expert));
    EXPECT_EQ(changed.share_of_more(expert), anew.share_of_more(expert));
    EXPECT_EQ(changed.share_of_fewer(expert), anew.share_of_fewer(expert));
    EXPECT_EQ(slots_of(changed, expert), slots_of(anew, expert));
    for (std::int64_t gpu = 0; gpu < topology.gpus; ++gpu)
      EXPECT_EQ(changed.holds(gpu, expert), anew.holds(gpu, expert));
  }
}

TEST(PlacedLayer, ChangedStepByStepIsAsReadAnew) {
  std::printf("seed 137\n");
  Rng rng(137);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n)));
  };
  int overwritten = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t experts = 1 + below(12);
    const std::int64_t slots = experts + below(20);
    const ExpertTopology topology{experts, slots, 1 + below(6)};
    std::vector<std::int64_t> weights;
    for (std::int64_t e = 0; e < experts; ++e)
      weights.push_back(below(1000));
    std::vector<std::int32_t> map;
    for (std::int64_t slot = 0; slot < slots; ++slot)
      map.push_back(static_cast<std::int32_t>(slot < experts ? slot : below(experts)));
    const FineLoads loads(weights);
    PlacedLayer layer(topology, loads, map);
    for (int step = 0; step < 12; ++step) {
      const std::int64_t slot = below(slots);
      const auto expert = static_cast<std::int32_t>(below(experts));
      if (rng.below(2) == 0) {
        const std::int64_t other = below(slots);
        if (other != slot) layer.exchange(slot, other);
      } else if (layer.copies(layer.expert(slot)) > 1 && layer.expert(slot) != expert) {
        layer.overwrite(slot, expert);
        ++overwritten;
      }
    }
    expect_equal(topology, layer, PlacedLayer(topology, loads, layer.slots()));
    if (HasFailure()) FAIL() << "round " << round;
  }
  EXPECT_GT(overwritten, 300);
}

} // namespace
} // namespace troupe::sched
