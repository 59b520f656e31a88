// Expert placement: the published example, what improves on it, odd shapes and loads.

#include "schedulers/model/expert_statistics.hpp"
#include "schedulers/policies/expert_placement/eplb.hpp"
#include "schedulers/policies/expert_placement/eplb_refined.hpp"
#include "schedulers/policies/expert_placement/incremental.hpp"
#include "schedulers/policies/expert_placement/window_greedy.hpp"
#include "schedulers/policy/validate_experts.hpp"
#include "tests/support/expert_cases.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

namespace troupe::sched {
namespace {

using testing::kAdversarial;
using testing::kExample0;
using testing::kExample1;
using testing::Loads;
using testing::Map;

constexpr ExpertTopology kPublished{12, 16, 8, 4, 2};
constexpr ExpertTopology kFlat{12, 16, 8, 1, 1};
constexpr ExpertTopology kEightOnEight{8, 16, 8, 1, 1};

std::vector<double> loads_of(const ExpertTopology& topology, const Map& slots, const Loads& loads) {
  const FineLoads fine(loads);
  std::vector<double> sums;
  for (const std::int64_t load : gpu_loads(topology, slots, fine))
    sums.push_back(static_cast<double>(load) / static_cast<double>(fine.unit()));
  return sums;
}

double highest(const ExpertTopology& topology, const Map& slots, const Loads& loads) {
  const auto sums = loads_of(topology, slots, loads);
  return *std::max_element(sums.begin(), sums.end());
}

Decision<ExpertLayout> plan(ExpertPlacement& policy, const ExpertTopology& topology,
                            const std::vector<ExpertLayerView>& layers,
                            std::int64_t moves_max = 1 << 20) {
  ExpertQuery query;
  query.topology = topology;
  query.layers = layers;
  query.moves_max = moves_max;
  auto decision = policy.plan(query, {});
  EXPECT_TRUE(validate(decision, query).ok());
  return decision;
}

TEST(ExpertPlacement, E4_ThePublishedExampleExactly) {
  EplbPlacement policy;
  const auto decision = plan(policy, kPublished, {{kExample0, {}, {}}, {kExample1, {}, {}}});
  EXPECT_EQ(decision.value->layers[0].slots,
            (Map{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(decision.value->layers[1].slots,
            (Map{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
  EXPECT_EQ(loads_of(kPublished, decision.value->layers[0].slots, kExample0),
            (std::vector<double>{121.5, 86.5, 125, 113, 147.5, 131.5, 156, 152}));
  EXPECT_EQ(loads_of(kPublished, decision.value->layers[1].slots, kExample1),
            (std::vector<double>{173, 179.5, 120.5, 172, 123, 152, 118.5, 117.5}));
  // Mean over highest: 0.8277 and 0.8050.
  EXPECT_NEAR(1e6 / static_cast<double>(decision.value->layers[0].imbalance_millionths), 0.8277,
              0.00005);
  EXPECT_NEAR(1e6 / static_cast<double>(decision.value->layers[1].imbalance_millionths), 0.8050,
              0.00005);
}

TEST(ExpertPlacement, E4_TheExampleWithoutGroups) {
  EplbPlacement policy;
  const auto decision = plan(policy, kFlat, {{kExample0, {}, {}}, {kExample1, {}, {}}});
  const Map& slots = decision.value->layers[0].slots;
  EXPECT_EQ(slots, (Map{10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1}));
  EXPECT_EQ(highest(kFlat, slots, kExample0), 138.5);
  EXPECT_NEAR(129.125 / 138.5, 0.9323, 0.00005);
  EXPECT_EQ(highest(kFlat, decision.value->layers[1].slots, kExample1), 172);
  EXPECT_NEAR(144.5 / 172, 0.8401, 0.00005);
}

TEST(ExpertPlacement, TheAdversarialCaseAndItsBounds) {
  EplbPlacement policy;
  const auto decision = plan(policy, kEightOnEight, {{kAdversarial, {}, {}}});
  const Map& slots = decision.value->layers[0].slots;
  EXPECT_EQ(highest(kEightOnEight, slots, kAdversarial), 232);
  EXPECT_NEAR(static_cast<double>(decision.value->layers[0].imbalance_millionths) / 1e6, 1.280,
              0.0005);
  const double sum = std::accumulate(kAdversarial.begin(), kAdversarial.end(), 0.0);
  EXPECT_EQ(sum / 8, 181.25);
  // With free splitting on this placement the highest load is the densest set of experts: the load
  // of some experts over the GPUs that hold any of them (the dual of the linear program).
  double densest = 0;
  for (unsigned set = 1; set < 256; ++set) {
    double load = 0;
    std::set<std::int64_t> gpus;
    for (std::int64_t slot = 0; slot < 16; ++slot) {
      if ((set >> slots[static_cast<std::size_t>(slot)] & 1U) != 0) {
        gpus.insert(kEightOnEight.gpu_of(slot));
      }
    }
    for (std::size_t e = 0; e < 8; ++e)
      load += (set >> e & 1U) != 0 ? static_cast<double>(kAdversarial[e]) : 0.0;
    densest = std::max(densest, load / static_cast<double>(gpus.size()));
  }
  EXPECT_DOUBLE_EQ(densest, 200);
}

TEST(ExpertPlacement, RefinedReachesTheOptimumOfEveryCase) {
  EplbRefinedPlacement refined({});
  EplbPlacement published;
  struct Case {
    ExpertTopology topology;
    Loads loads;
    double optimum; // 0 = not known.
  };
  const std::vector<Case> cases = {{kFlat, kExample0, 136.0},
                                   {kFlat, kExample1, 172.0},
                                   {kEightOnEight, kAdversarial, 196.0 + 2.0 / 3},
                                   {kPublished, kExample0, 0},
                                   {kPublished, kExample1, 0}};
  for (const Case& one : cases) {
    const auto better = plan(refined, one.topology, {{one.loads, {}, {}}});
    const auto base = plan(published, one.topology, {{one.loads, {}, {}}});
    const Map& slots = better.value->layers[0].slots;
    const double ours = highest(one.topology, slots, one.loads);
    EXPECT_LE(ours, highest(one.topology, base.value->layers[0].slots, one.loads));
    EXPECT_FALSE(has_twins(one.topology, slots));
    if (one.optimum > 0) {
      EXPECT_NEAR(ours, one.optimum, 1e-9);
    }
  }
}

/// Lowest highest pair over all ways to pair the items from `first` on without twins.
std::int64_t best_pairing(std::vector<std::pair<std::int64_t, int>>& items, std::size_t first) {
  if (first == items.size()) return 0;
  std::int64_t best = INT64_MAX;
  for (std::size_t with = first + 1; with < items.size(); ++with) {
    if (items[with].second == items[first].second) continue;
    std::swap(items[first + 1], items[with]);
    const std::int64_t pair = items[first].first + items[first + 1].first;
    best = std::min(best, std::max(pair, best_pairing(items, first + 2)));
    std::swap(items[first + 1], items[with]);
  }
  return best;
}

// Small shapes by brute force: all counts of 5 experts in 8 slots, all pairings on 4 GPUs.
TEST(ExpertPlacement, RefinedComesNearEnumerationOnSmallShapes) {
  std::printf("seed 11\n");
  Rng rng(11);
  EplbRefinedPlacement refined({});
  int exact = 0;
  for (int round = 0; round < 40; ++round) {
    const ExpertTopology topology{5, 8, 4, 1, 1};
    Loads loads;
    for (int e = 0; e < 5; ++e)
      loads.push_back(1 + static_cast<std::int64_t>(rng.below(1000)));
    const FineLoads fine(loads);
    std::int64_t optimum = INT64_MAX;
    for (int ways = 0; ways < 256; ++ways) { // Copies 1 to 4 of four experts, the rest of the last.
      std::array<int, 5> copies = {1 + ways % 4, 1 + ways / 4 % 4, 1 + ways / 16 % 4, 1 + ways / 64,
                                   0};
      copies[4] = 8 - copies[0] - copies[1] - copies[2] - copies[3];
      if (copies[4] < 1 || copies[4] > 4) continue;
      std::vector<std::pair<std::int64_t, int>> items;
      for (int e = 0; e < 5; ++e) {
        const int count = copies[static_cast<std::size_t>(e)];
        items.insert(items.end(), static_cast<std::size_t>(count), {fine.share(e, count), e});
      }
      optimum = std::min(optimum, best_pairing(items, 0));
    }
    const auto made = plan(refined, topology, {{loads, {}, {}}});
    const auto sums = gpu_loads(topology, made.value->layers[0].slots, fine);
    const std::int64_t ours = *std::max_element(sums.begin(), sums.end());
    EXPECT_GE(ours, optimum) << round;
    EXPECT_LE(static_cast<double>(ours), 1.02 * static_cast<double>(optimum)) << round;
    exact += ours == optimum ? 1 : 0;
  }
  EXPECT_GE(exact, 36);
}

TEST(ExpertPlacement, NeverTwinsWhileThereAreNoMoreCopiesThanGpus) {
  std::printf("seed 29\n");
  Rng rng(29);
  EplbRefinedPlacement refined({.exchanges_max = 64, .ways_max = 500});
  IncrementalPlacement incremental({.moves_max = 16, .gain_min_millionths = 0, .fresh = {}});
  for (int round = 0; round < 150; ++round) {
    ExpertTopology topology;
    topology.experts = 2 + static_cast<std::int64_t>(rng.below(24));
    topology.gpus = 1 + static_cast<std::int64_t>(rng.below(8));
    const std::int64_t most = topology.experts * topology.gpus;
    topology.slots = std::max(topology.experts, topology.gpus);
    topology.slots += static_cast<std::int64_t>(rng.below(
        static_cast<std::uint64_t>(std::min<std::int64_t>(most - topology.slots, 30) + 1)));
    if ((topology.slots + topology.gpus - 1) / topology.gpus > topology.experts) continue;
    Map current;
    for (int step = 0; step < 4; ++step) {
      Loads loads;
      for (std::int64_t e = 0; e < topology.experts; ++e)
        loads.push_back(static_cast<std::int64_t>(rng.below(1ULL << rng.below(16))));
      loads[0] += 1;
      const auto fresh = plan(refined, topology, {{loads, {}, {}}});
      ASSERT_FALSE(has_twins(topology, fresh.value->layers[0].slots)) << round;
      const auto moved = plan(incremental, topology, {{loads, {}, current}});
      current = moved.value->layers[0].slots;
      ASSERT_FALSE(has_twins(topology, current)) << round;
    }
  }
}

TEST(ExpertPlacement, E5_UnevenSlotsAreAllowedAndTooFewAreAClearError) {
  EplbPlacement published;
  EplbRefinedPlacement refined({});
  IncrementalPlacement incremental({});
  WindowGreedyPlacement greedy({});
  const ExpertTopology uneven{8, 9, 4, 1, 1};
  const Loads loads = {9, 1, 1, 1, 1, 1, 1, 1};
  for (ExpertPlacement* policy :
       {static_cast<ExpertPlacement*>(&published), static_cast<ExpertPlacement*>(&refined),
        static_cast<ExpertPlacement*>(&incremental), static_cast<ExpertPlacement*>(&greedy)}) {
    const auto made = plan(*policy, uneven, {{loads, {}, {}}});
    EXPECT_EQ(copies_of(made.value->layers[0].slots, 8)[0], 2);
    EXPECT_LE(highest(uneven, made.value->layers[0].slots, loads), 6.5);
    ExpertQuery few;
    few.topology = {8, 4, 4, 1, 1};
    EXPECT_EQ(policy->plan(few, {}).reason, Reason::no_room);
  }
  EXPECT_EQ(uneven.slots_of(0), 3);
  EXPECT_EQ(uneven.first_slot(3), 7);
  for (std::int64_t slot = 0; slot < 9; ++slot) {
    const std::int64_t gpu = uneven.gpu_of(slot);
    EXPECT_LE(uneven.first_slot(gpu), slot);
    EXPECT_LT(slot, uneven.first_slot(gpu) + uneven.slots_of(gpu));
  }
  EXPECT_EQ(check_topology({8, 4, 4, 1, 1}).error().message,
            "found 4 slots for 8 experts; every expert needs one: use at least 8 slots");
  EXPECT_FALSE(check_topology({8, 8, 9, 1, 1}).ok());
  EXPECT_FALSE(check_topology({0, 8, 4, 1, 1}).ok());
}

TEST(ExpertPlacement, E6_NodesThatDoNotDivideTheGpusAreOneNode) {
  EplbPlacement policy;
  ExpertTopology odd = kFlat;
  odd.groups = 6;
  odd.nodes = 3; // 8 GPUs.
  EXPECT_FALSE(odd.by_node());
  EXPECT_EQ(plan(policy, odd, {{kExample0, {}, {}}}).value->layers[0].slots,
            plan(policy, kFlat, {{kExample0, {}, {}}}).value->layers[0].slots);
}

TEST(ExpertPlacement, E7_StepsBesideTheLoadsChangeNothingForThoseWhoDoNotLook) {
  EplbPlacement published;
  EplbRefinedPlacement refined({});
  IncrementalPlacement incremental({});
  const Loads steps = {0, 50, 9, 2, 1, 1, 1, 1, 1, 1, 1, 1};
  for (ExpertPlacement* policy :
       {static_cast<ExpertPlacement*>(&published), static_cast<ExpertPlacement*>(&refined),
        static_cast<ExpertPlacement*>(&incremental)}) {
    EXPECT_EQ(plan(*policy, kFlat, {{kExample0, steps, {}}}).value->layers[0].slots,
              plan(*policy, kFlat, {{kExample0, {}, {}}}).value->layers[0].slots);
  }
}

TEST(ExpertPlacement, E8_TheFirstPlacementMovesEverything) {
  IncrementalPlacement policy({.moves_max = 2, .gain_min_millionths = 1000, .fresh = {}});
  const auto made = plan(policy, kFlat, {{kExample0, {}, {}}}, 2);
  EXPECT_EQ(made.value->layers[0].change, LayerChange::placed);
  EXPECT_EQ(made.value->layers[0].moves, 16);
  EXPECT_EQ(highest(kFlat, made.value->layers[0].slots, kExample0), 136);
  const Map broken(16, 0); // Names expert 0 only: no map.
  EXPECT_EQ(plan(policy, kFlat, {{kExample0, {}, broken}}, 2).value->layers[0].moves, 16);
}

TEST(ExpertPlacement, E12_ALayerWithoutUsableLoadsKeepsItsMap) {
  EplbPlacement published;
  EplbRefinedPlacement refined({});
  IncrementalPlacement incremental({});
  WindowGreedyPlacement greedy({});
  const Map map = eplb_layer(kFlat, kExample1);
  Loads negative = kExample0;
  negative[3] = -1;
  const Loads zero(12, 0);
  const Loads short_one(11, 5);
  for (ExpertPlacement* policy :
       {static_cast<ExpertPlacement*>(&published), static_cast<ExpertPlacement*>(&refined),
        static_cast<ExpertPlacement*>(&incremental), static_cast<ExpertPlacement*>(&greedy)}) {
    for (const Loads& bad : {negative, zero, short_one, Loads{}}) {
      const auto made = plan(*policy, kFlat, {{bad, {}, map}, {kExample0, {}, map}});
      EXPECT_EQ(made.value->layers[0].slots, map);
      EXPECT_EQ(made.value->layers[0].change, LayerChange::kept_loads);
      EXPECT_EQ(made.value->layers[0].moves, 0);
      EXPECT_EQ(made.value->layers[1].change, LayerChange::moved) << "the others are planned";
      const auto none = plan(*policy, kFlat, {{bad, {}, {}}});
      EXPECT_EQ(none.value->layers[0].change, LayerChange::kept_loads);
      EXPECT_FALSE(has_twins(kFlat, none.value->layers[0].slots));
    }
  }
}

TEST(ExpertPlacement, E13_TheSameLoadTwiceMovesNothing) {
  EplbPlacement published;
  EplbRefinedPlacement refined({});
  IncrementalPlacement incremental({});
  WindowGreedyPlacement greedy({});
  for (ExpertPlacement* policy :
       {static_cast<ExpertPlacement*>(&published), static_cast<ExpertPlacement*>(&refined),
        static_cast<ExpertPlacement*>(&incremental), static_cast<ExpertPlacement*>(&greedy)}) {
    for (const Loads& loads : {kExample0, kExample1}) {
      const auto first = plan(*policy, kFlat, {{loads, {}, {}}});
      const Map& map = first.value->layers[0].slots;
      const auto second = plan(*policy, kFlat, {{loads, {}, map}});
      EXPECT_EQ(second.value->moves, 0);
      EXPECT_EQ(second.value->layers[0].slots, map);
      EXPECT_EQ(second.reason, Reason::nothing_to_do);
    }
  }
}

TEST(ExpertStatistics, SumsOverRanksAndMovesItsMean) {
  // E10: two ranks with half of the traffic each; what counts is the sum.
  ExpertStatistics loads(1, 3, 700);
  EXPECT_TRUE(loads.add(0, Loads{10, 0, 0}));
  EXPECT_TRUE(loads.add(0, Loads{0, 20, 30}));
  loads.close();
  EXPECT_EQ(loads.mean(0), (Loads{10, 20, 30}));
  EXPECT_TRUE(loads.add(0, Loads{20, 20, 0}));
  loads.close();
  EXPECT_EQ(loads.mean(0), (Loads{17, 20, 9}));
  loads.close(); // An interval without counts changes nothing.
  EXPECT_EQ(loads.mean(0), (Loads{17, 20, 9}));
  EXPECT_FALSE(loads.add(0, Loads{1, 2}));
  EXPECT_FALSE(loads.add(0, Loads{1, -2, 3}));
  EXPECT_FALSE(loads.add(1, Loads{1, 2, 3}));
  loads.close();
  EXPECT_EQ(loads.mean(0), (Loads{17, 20, 9}));
}

TEST(ExpertPlacement, MovesAreCountedAndRelabellingSavesThem) {
  const ExpertTopology two{4, 4, 2, 1, 1};
  EXPECT_EQ(count_moves(two, Map{0, 1, 2, 3}, Map{2, 3, 0, 1}), 4);
  EXPECT_EQ(keep_places(two, Map{0, 1, 2, 3}, Map{2, 3, 0, 1}), (Map{0, 1, 2, 3}));
  EXPECT_EQ(keep_places(two, Map{0, 1, 2, 3}, Map{2, 3, 1, 0}), (Map{0, 1, 2, 3}));
  EXPECT_EQ(keep_places(two, Map{0, 1, 2, 3}, Map{3, 0, 1, 2}), (Map{0, 3, 2, 1}));
  EXPECT_EQ(count_moves(two, Map{}, Map{0, 1, 2, 3}), 4);
  // GPUs of different nodes keep their names.
  const ExpertTopology nodes{4, 4, 2, 2, 2};
  EXPECT_EQ(keep_places(nodes, Map{0, 1, 2, 3}, Map{2, 3, 0, 1}), (Map{2, 3, 0, 1}));
}

// Section 4.5: 752 MB for a slot in 40 layers; 5.26 GB in 5.9 ms at 900 GB/s, 105 ms at 50.
TEST(ExpertPlacement, CostsOfMoves) {
  ExpertMoveCosts costs;
  EXPECT_NEAR(40.0 * static_cast<double>(costs.expert_bytes) / 1e6, 752, 0.1);
  EXPECT_NEAR(7.0 * 40 * static_cast<double>(costs.expert_bytes) / 1e9, 5.26, 0.005);
  EXPECT_NEAR(static_cast<double>(move_ps(costs, 280)) / 1e9, 105, 0.5);
  costs.link_bytes_per_s = 900'000'000'000;
  EXPECT_NEAR(static_cast<double>(move_ps(costs, 280)) / 1e9, 5.9, 0.06);
}

TEST(ExpertPlacement, AMoveMustPayForItself) {
  ExpertMoveCosts costs;
  costs.layer_ps = 100'000'000; // 100 us a layer and step.
  costs.steps = 10'000;
  // 0.01 of 100 us in 10,000 steps = 10 ms; 26 moves take 9.78 ms at 50 GB/s, 27 take 10.15.
  EXPECT_TRUE(worth_moving(costs, 1'130'000, 1'120'000, 26));
  EXPECT_FALSE(worth_moving(costs, 1'130'000, 1'120'000, 27));
  costs.disturbance_ps = 300'000'000;
  EXPECT_FALSE(worth_moving(costs, 1'130'000, 1'120'000, 26));
  // D7: a small drift moves nothing when the next plan comes soon.
  costs = {};
  costs.layer_ps = 100'000'000;
  costs.steps = 10;
  IncrementalPlacement policy({.moves_max = 32, .gain_min_millionths = 0, .fresh = {}});
  Loads drifted = kExample0;
  drifted[5] += 20;
  const Map map = refined_layer(kFlat, kExample0, {});
  const ExpertLayerView layer{drifted, {}, map};
  ExpertQuery query{kFlat, {&layer, 1}, 32, costs};
  EXPECT_EQ(policy.plan(query, {}).value->layers[0].change, LayerChange::kept_costs);
  query.costs.steps = 1'000'000;
  const auto made = policy.plan(query, {});
  EXPECT_EQ(made.value->layers[0].change, LayerChange::moved);
  EXPECT_GT(made.value->moves, 0);
}

TEST(ExpertPlacement, IncrementalKeepsItsBudgetAndNeverGetsWorse) {
  std::printf("seed 31\n");
  Rng rng(31);
  const ExpertTopology topology{64, 80, 16, 1, 1};
  for (const std::int64_t budget : {1, 2, 3, 8, 24}) {
    IncrementalPlacement policy({.moves_max = 24, .gain_min_millionths = 0, .fresh = {}});
    Loads loads;
    for (int e = 0; e < 64; ++e)
      loads.push_back(100 + static_cast<std::int64_t>(rng.below(1000)));
    Map map = eplb_layer(topology, loads);
    for (int step = 0; step < 20; ++step) {
      for (std::int64_t& load : loads)
        load = std::max<std::int64_t>(1, load + static_cast<std::int64_t>(rng.below(201)) - 100);
      const double before = highest(topology, map, loads);
      const auto made = plan(policy, topology, {{loads, {}, map}}, budget);
      ASSERT_LE(made.value->moves, budget);
      map = made.value->layers[0].slots;
      ASSERT_LE(highest(topology, map, loads), before);
    }
  }
}

// With groups, experts never leave the node of their group's map.
TEST(ExpertPlacement, IncrementalStaysInsideANode) {
  Rng rng(37);
  const ExpertTopology topology{16, 24, 8, 4, 2};
  Loads loads;
  for (int e = 0; e < 16; ++e)
    loads.push_back(100 + static_cast<std::int64_t>(rng.below(900)));
  IncrementalPlacement policy({.moves_max = 24, .gain_min_millionths = 0, .fresh = {}});
  const Map map = plan(policy, topology, {{loads, {}, {}}}).value->layers[0].slots;
  for (std::int64_t& load : loads)
    load = 100 + static_cast<std::int64_t>(rng.below(900));
  const auto made = plan(policy, topology, {{loads, {}, map}});
  EXPECT_GT(made.value->moves, 0);
  const auto experts_of = [&](const Map& slots, std::size_t node) {
    return std::set<std::int32_t>(slots.begin() + static_cast<std::ptrdiff_t>(node * 12),
                                  slots.begin() + static_cast<std::ptrdiff_t>(node * 12 + 12));
  };
  EXPECT_EQ(experts_of(made.value->layers[0].slots, 0), experts_of(map, 0));
  EXPECT_EQ(experts_of(made.value->layers[0].slots, 1), experts_of(map, 1));
}

// Two steps by hand: experts 0 and 1 are busy together, 2 and 3 alone.
//
//   step   e0  e1  e2  e3        sum of the highest copy: 8 + 6 = 14
//      0    8   7   0   0
//      1    0   0   6   5
//
// A spare slot: e0 -> 7 + 6 (e1 is next), e2 -> 8 + 5. Both lower it by 1: the lower index wins.
TEST(WindowGreedyPlacement, SmallCasesByHand) {
  const Loads steps = {8, 7, 0, 0, 0, 0, 6, 5};
  const Loads sums = {8, 7, 6, 5};
  WindowGreedyPlacement policy({});
  const ExpertTopology spare{4, 5, 5, 1, 1};
  const auto copied = plan(policy, spare, {{sums, steps, {}}});
  EXPECT_EQ(copies_of(copied.value->layers[0].slots, 4), (std::vector<std::int64_t>{2, 1, 1, 1}));
  // Packing 2 GPUs of 2 slots: e0 to GPU 0; e1 to GPU 1 (8 instead of 15); e2 to either (14 both
  // ways: the lower); e3 has only GPU 1. Means alone could pair 8 with 7's rival just as well.
  const ExpertTopology two{4, 4, 2, 1, 1};
  const auto packed = plan(policy, two, {{sums, steps, {}}});
  EXPECT_EQ(packed.value->layers[0].slots, (Map{0, 2, 1, 3}));
}

// Experts 0 and 1 burst in the same steps, 2 and 3 in the others: means cannot tell, steps can.
TEST(WindowGreedyPlacement, SeesExpertsThatAreBusyTogether) {
  Loads steps;
  for (int s = 0; s < 10; ++s) {
    const Loads step = s % 2 == 0 ? Loads{10, 10, 0, 0} : Loads{0, 0, 10, 10};
    steps.insert(steps.end(), step.begin(), step.end());
  }
  const Loads sums = {50, 50, 50, 50};
  WindowGreedyPlacement policy({});
  const ExpertTopology two{4, 4, 2, 1, 1};
  const Map slots = plan(policy, two, {{sums, steps, {}}}).value->layers[0].slots;
  EXPECT_NE(two.gpu_of(std::find(slots.begin(), slots.end(), 0) - slots.begin()),
            two.gpu_of(std::find(slots.begin(), slots.end(), 1) - slots.begin()));
  // The window: only the newest steps count.
  Loads turned = Loads(400, 0);
  for (std::size_t s = 0; s < 100; ++s)
    turned[4 * s + (s < 50 ? 0 : 3)] = 100;
  WindowGreedyPlacement brief({.window_steps = 50});
  const ExpertTopology spare{4, 5, 5, 1, 1};
  EXPECT_EQ(copies_of(plan(brief, spare, {{sums, turned, {}}}).value->layers[0].slots, 4)[3], 2);
  EXPECT_EQ(copy_of_row(3, 5, 4), (3 + 23'333 * 5) % 4);
}

} // namespace
} // namespace troupe::sched
