// The manager of experts: sums over ranks, plans on a timer, what was predicted and what came.

#include "schedulers/core/rng.hpp"
#include "schedulers/stage/expert_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

using testing::asked;
using testing::builtins;
using testing::rank_ref;
using testing::sent;
using testing::timers;

using Loads = std::vector<std::int64_t>;

/// Asks another policy, and keeps what it was asked last.
class Spy final : public ExpertPlacement {
public:
  Spy(std::unique_ptr<Policy> inner, std::shared_ptr<ExpertQuestion> seen)
      : inner_(std::move(inner)), seen_(std::move(seen)) {}

  Decision<ExpertLayout> plan(const ExpertQuery& query,
                              const PolicyContext& ctx) noexcept override {
    ExpertQuestion seen;
    seen.topology = query.topology;
    seen.moves_max = query.moves_max;
    seen.costs = query.costs;
    for (const ExpertLayerView& layer : query.layers) {
      seen.layers.push_back({{layer.loads.begin(), layer.loads.end()},
                             {layer.steps.begin(), layer.steps.end()},
                             {layer.current.begin(), layer.current.end()}});
    }
    *seen_ = std::move(seen);
    return dynamic_cast<ExpertPlacement&>(*inner_).plan(query, ctx);
  }

private:
  std::unique_ptr<Policy> inner_;
  std::shared_ptr<ExpertQuestion> seen_;
};

/// The built-in policies, and "spy" around one of them.
PolicyRegistry with_spy(const std::string& inner, const std::shared_ptr<ExpertQuestion>& seen) {
  PolicyRegistry registry = builtins();
  registry.add("expert_placement", "spy", [=](OptionTable) -> Result<std::unique_ptr<Policy>> {
    auto built = builtins().build("expert_placement", PolicySpec{inner, {}}, {});
    return std::unique_ptr<Policy>(std::make_unique<Spy>(std::move(*built), seen));
  });
  return registry;
}

/// A stage of two layers, four experts, two GPUs, and what it asked for last.
struct Manager {
  explicit Manager(const std::string& policy = "", ExpertOptions given = options())
      : registry(with_spy(policy, seen)), stage(given, set_of("spy"), registry) {
    stage.start(0, effects);
    note_timer();
  }

  static ExpertOptions options() {
    ExpertOptions out;
    out.layers = 2;
    out.topology = {4, 4, 2, 1, 1};
    out.interval_us = 1000;
    return out;
  }

  static PolicySet set_of(const std::string& policy, std::uint64_t epoch = 1) {
    PolicySet set;
    set.epoch = PolicyEpoch{epoch};
    if (!policy.empty()) set.kinds["expert_placement"].policy = policy;
    return set;
  }

  /// Steps [first, first + steps) of a rank, the same loads in both layers.
  void report(const RankRef& rank, std::uint64_t first, const Loads& loads, std::uint64_t epoch = 0,
              std::int64_t steps = 1) {
    effects.clear();
    stage.on(ExpertLoads{rank, ExpertEpoch{epoch}, first, steps, {{0, loads}, {1, loads}}}, now,
             effects);
  }

  /// The interval ends. The decisions that were recorded.
  std::vector<Record> interval() {
    now += 1000;
    effects.clear();
    stage.on(timer, now, effects);
    note_timer();
    return asked<Record>(effects);
  }

  void note_timer() {
    const auto set = timers(effects, TimerKind::experts);
    ASSERT_EQ(set.size(), 1U);
    timer = set[0];
  }

  std::vector<ExpertPlan> plans() const { return sent<ExpertPlan>(effects); }
  const ExpertCounts& counts() const { return stage.counts(); }

  std::shared_ptr<ExpertQuestion> seen = std::make_shared<ExpertQuestion>();
  PolicyRegistry registry;
  ExpertStage stage;
  Effects effects;
  Timer timer;
  std::int64_t now = 0;
};

TEST(ExpertStage, E10_LoadsAreSummedOverRanks) {
  Manager manager;
  manager.report(rank_ref(0), 1, {5, 1, 0, 0});
  manager.report(rank_ref(1), 1, {0, 0, 7, 2});
  manager.report(rank_ref(1), 2, {0, 3, 0, 0});
  const auto records = manager.interval();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].kind, "expert_placement");
  EXPECT_EQ(records[0].policy, "spy");
  EXPECT_TRUE(records[0].asked.has_value()) << "small enough to be kept";
  EXPECT_EQ(manager.seen->layers[0].loads, (Loads{5, 4, 7, 2}));
  EXPECT_EQ(manager.seen->layers[1].loads, (Loads{5, 4, 7, 2}));
  // Two rounds: both ranks once, then the second report of the second one.
  EXPECT_EQ(manager.seen->layers[0].steps, (Loads{5, 1, 7, 2, 0, 3, 0, 0}));
  EXPECT_EQ(manager.seen->costs.steps, 2);
}

TEST(ExpertStage, E8_TheFirstPlanMovesEverythingAndEveryRankHearsIt) {
  Manager manager;
  manager.report(rank_ref(0, 2), 1, {9, 1, 1, 9});
  manager.report(rank_ref(3), 1, {9, 1, 1, 9});
  const auto records = manager.interval();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_TRUE(manager.seen->layers[0].current.empty());
  EXPECT_EQ(records[0].value, 8);
  const auto plans = manager.plans();
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[0].rank, rank_ref(0, 2));
  EXPECT_EQ(plans[1].rank, rank_ref(3));
  for (const ExpertPlan& plan : plans) {
    EXPECT_EQ(plan.epoch, ExpertEpoch{1});
    EXPECT_EQ(plan.topology.slots, 4);
    ASSERT_EQ(plan.maps.size(), 2U);
    // Each GPU gets one of the two busy experts.
    for (const auto& map : plan.maps)
      EXPECT_NE(map[0] == 0 || map[1] == 0, map[0] == 3 || map[1] == 3);
  }
  EXPECT_EQ(manager.counts().plans, 1);
  EXPECT_EQ(manager.counts().moves, 8);
  EXPECT_EQ(manager.counts().predicted_permille, 1000);
}

TEST(ExpertStage, E13_TheSameLoadTwiceMovesNothingWhateverThePolicy) {
  for (const std::string& policy : builtins().names("expert_placement")) {
    SCOPED_TRACE(policy);
    Manager manager(policy);
    manager.report(rank_ref(0), 1, {70, 20, 33, 4});
    manager.interval();
    ASSERT_EQ(manager.plans().size(), 1U);
    for (std::uint64_t round = 2; round < 6; ++round) {
      manager.report(rank_ref(0), round, {70, 20, 33, 4}, 1);
      const auto records = manager.interval();
      ASSERT_EQ(records.size(), 1U);
      EXPECT_EQ(records[0].value, 0);
      EXPECT_EQ(records[0].reason, Reason::nothing_to_do);
      EXPECT_TRUE(manager.plans().empty());
    }
    EXPECT_EQ(manager.counts().epoch, ExpertEpoch{1});
    EXPECT_EQ(manager.counts().plans, 1);
    EXPECT_EQ(manager.counts().asked, 5);
  }
}

/// Every way in which a report can say nothing of layer 1.
std::map<std::string, std::vector<ExpertLayerLoads>> bad_reports() {
  const Loads good{90, 1, 1, 90};
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  return {{"missing", {{0, good}}},
          {"negative", {{0, good}, {1, {1, -1, 1, 1}}}},
          {"lowest", {{0, good}, {1, {1, kLowest, 1, 1}}}},
          {"absurd", {{0, good}, {1, {kHighest, kHighest, 1, 1}}}},
          {"too short", {{0, good}, {1, {1, 2, 3}}}},
          {"too long", {{0, good}, {1, {1, 2, 3, 4, 5}}}},
          {"twice", {{0, good}, {1, good}, {1, good}}},
          {"of another number", {{0, good}, {2, good}, {-1, good}}}};
}

TEST(ExpertStage, E12_ALayerWithoutUsableLoadsKeepsItsMapAndIsCounted) {
  for (const auto& [what, layers] : bad_reports()) {
    SCOPED_TRACE(what);
    Manager manager("eplb");
    manager.report(rank_ref(0), 1, {90, 80, 2, 1});
    manager.interval();
    const auto before = manager.stage.maps();
    manager.report(rank_ref(0), 2, {90, 1, 1, 90}, 1); // Good, but not all there is.
    manager.effects.clear();
    manager.stage.on(ExpertLoads{rank_ref(1), ExpertEpoch{1}, 1, 1, layers}, 0, manager.effects);
    const auto records = manager.interval();
    ASSERT_EQ(records.size(), 1U);
    EXPECT_TRUE(manager.seen->layers[1].loads.empty());
    EXPECT_NE(manager.stage.maps()[0], before[0]) << "the others are planned";
    EXPECT_EQ(manager.stage.maps()[1], before[1]);
    EXPECT_GE(manager.counts().bad_layers, 1);
    EXPECT_EQ(manager.counts().kept_loads, 1);
    EXPECT_EQ(manager.counts().invalid_decisions, 0);

    manager.report(rank_ref(0), 3, {90, 1, 1, 90}, 2);
    manager.interval();
    EXPECT_EQ(manager.seen->layers[1].loads, (Loads{90, 80 - 55, 2, 1 + 62}))
        << "what came with the bad report does not count";
    EXPECT_NE(manager.stage.maps()[1], before[1]) << "a whole interval is known again";
  }
}

TEST(ExpertStage, RepeatsAndOldLivesCountOnce) {
  Manager manager;
  manager.report(rank_ref(0, 2), 1, {4, 0, 0, 0}, 0, 3);
  manager.report(rank_ref(0, 2), 1, {4, 0, 0, 0}, 0, 3);
  manager.report(rank_ref(0, 2), 3, {4, 0, 0, 0});
  manager.report(rank_ref(0, 1), 9, {4, 0, 0, 0});
  manager.report(rank_ref(0, 2), 4, {0, 5, 0, 0}, 0, 0); // Of no step.
  EXPECT_EQ(manager.counts().stale_dropped, 4);
  manager.report(rank_ref(0, 2), 4, {0, 5, 0, 0});
  manager.report(rank_ref(0, 3), 1, {0, 0, 6, 0}); // The next life counts from 1 again.
  EXPECT_EQ(manager.counts().reports, 3);
  manager.interval();
  EXPECT_EQ(manager.seen->layers[0].loads, (Loads{4, 5, 6, 0}));
}

TEST(ExpertStage, WhoMissedThePlanHearsItWhenItReports) {
  Manager manager;
  manager.report(rank_ref(0), 1, {9, 1, 1, 9});
  manager.interval();
  manager.report(rank_ref(0), 2, {9, 1, 1, 9}, 1);
  EXPECT_TRUE(manager.plans().empty());
  manager.report(rank_ref(0), 3, {9, 1, 1, 9}, 0); // The plan was lost.
  ASSERT_EQ(manager.plans().size(), 1U);
  EXPECT_EQ(manager.plans()[0].epoch, ExpertEpoch{1});
  manager.report(rank_ref(7), 1, {9, 1, 1, 9}, 0); // Began later.
  ASSERT_EQ(manager.plans().size(), 1U);
  EXPECT_EQ(manager.plans()[0].rank, rank_ref(7));
  EXPECT_EQ(manager.plans()[0].maps, manager.stage.maps());
}

TEST(ExpertStage, EpochsGoOnBeyondWhatARankHasSeen) {
  Manager manager;
  manager.report(rank_ref(0), 1, {9, 1, 1, 9}, 41);
  manager.interval();
  EXPECT_EQ(manager.counts().epoch, ExpertEpoch{42});
}

TEST(ExpertStage, WithoutReportsThePolicyIsNotAsked) {
  Manager manager;
  EXPECT_TRUE(manager.interval().empty());
  manager.report(rank_ref(0), 1, {1, 2, 3, 4});
  EXPECT_EQ(manager.interval().size(), 1U);
  EXPECT_TRUE(manager.interval().empty());
  EXPECT_EQ(manager.counts().asked, 1);
}

// Map {0, 3 | 1, 2} from the first loads: 10 on each GPU. Then GPU 0 gets 24 of 30 tokens, mean 15:
// 15 / 24 = 0.625.
TEST(ExpertStage, RealisedBalanceIsThatOfTheStepsUnderTheLiveMap) {
  ExpertOptions options = Manager::options();
  options.gap_max_millionths = 1LL << 40; // No early plan.
  Manager manager("", options);
  EXPECT_EQ(manager.counts().predicted_permille, -1);
  EXPECT_EQ(manager.counts().realised_permille, -1);
  manager.report(rank_ref(0), 1, {8, 7, 3, 2});
  manager.interval();
  EXPECT_EQ(manager.counts().predicted_permille, 1000);
  EXPECT_EQ(manager.counts().realised_permille, -1) << "no step ran under a map";
  const auto& map = manager.stage.maps()[0];
  ASSERT_EQ((std::set<std::int32_t>{map[0], map[1]}), (std::set<std::int32_t>{0, 3}));
  manager.report(rank_ref(0), 2, {1000, 0, 0, 0}, 0); // Still under the old map.
  manager.report(rank_ref(0), 3, {20, 4, 2, 4}, 1);
  manager.interval();
  EXPECT_EQ(manager.counts().realised_permille, 625);
}

TEST(ExpertStage, APlanComesEarlyOnceWhenBalanceFallsBehind) {
  ExpertOptions options = Manager::options();
  options.look_steps = 10;
  Manager manager("eplb", options);
  manager.report(rank_ref(0), 1, {10, 10, 1, 1});
  manager.interval();
  const Loads other{10, 1, 10, 1}; // What was apart is together now.
  const auto first_map = manager.stage.maps();
  const std::int64_t asked_before = manager.counts().asked;
  manager.report(rank_ref(0), 2, other, 1, 9);
  EXPECT_EQ(manager.counts().asked, asked_before) << "nine steps are too few";
  // Whatever the map is, one of these loads is uneven on it.
  for (const Loads& loads : {other, Loads{10, 1, 1, 10}, Loads{10, 10, 1, 1}})
    manager.report(rank_ref(0), 11 + manager.counts().reports * 10, loads,
                   raw(manager.counts().epoch), 10);
  EXPECT_EQ(manager.counts().early, 1);
  EXPECT_EQ(manager.counts().asked, asked_before + 1) << "once an interval";
  EXPECT_NE(manager.stage.maps(), first_map);
  manager.interval();
  EXPECT_EQ(manager.counts().asked, asked_before + 2);
}

TEST(ExpertStage, TheKindIsSwappedBetweenTwoPlans) {
  Manager manager;
  EXPECT_EQ(manager.counts().asked, 0);
  manager.report(rank_ref(0), 1, {8, 4, 2, 1});
  EXPECT_EQ(manager.interval().at(0).policy, "spy");
  manager.effects.clear();
  manager.stage.on(SwapPrepare{Manager::set_of("eplb", 2)}, 0, manager.effects);
  const auto prepared = sent<Prepared>(manager.effects);
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_TRUE(prepared[0].ok) << prepared[0].reason;
  EXPECT_EQ(stage_text(prepared[0].stage), "experts");
  manager.report(rank_ref(0), 2, {8, 4, 2, 1}, 1);
  EXPECT_EQ(manager.interval().at(0).policy, "spy") << "prepared is not live";
  manager.stage.on(SwapCommit{PolicyEpoch{2}}, 0, manager.effects);
  manager.report(rank_ref(0), 3, {1, 2, 4, 8}, 1);
  const auto records = manager.interval();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].policy, "eplb");
  EXPECT_EQ(records[0].epoch, PolicyEpoch{2});
  EXPECT_FALSE(manager.stage.maps().empty()) << "the live map stays";
  EXPECT_EQ(manager.counts().invalid_decisions, 0);
}

TEST(ExpertStage, ASetThatDoesNotFitIsRefusedAndTheLiveOneStays) {
  Manager manager;
  manager.report(rank_ref(0), 1, {8, 4, 2, 1});
  manager.interval();
  manager.effects.clear();
  manager.stage.on(SwapPrepare{Manager::set_of("ebpl", 2)}, 0, manager.effects);
  const auto prepared = sent<Prepared>(manager.effects);
  ASSERT_EQ(prepared.size(), 1U);
  EXPECT_FALSE(prepared[0].ok);
  EXPECT_NE(prepared[0].reason.find("did you mean \"eplb\"?"), std::string::npos);
}

TEST(ExpertStage, SaysByWhichSetItDecidesAndSwapsEvenWhenItPlansNothing) {
  ExpertOptions off;
  off.interval_us = 0;
  ExpertStage stage(off, Manager::set_of("", 7), builtins());
  Effects effects;
  stage.start(0, effects);
  const auto asks = sent<SetRequest>(effects);
  ASSERT_EQ(asks.size(), 1U);
  EXPECT_EQ(asks[0].stage.kind, StageKind::experts);
  EXPECT_EQ(asks[0].epoch, PolicyEpoch{7});
  EXPECT_TRUE(timers(effects, TimerKind::experts).empty());
  effects.clear();
  stage.on(SwapPrepare{Manager::set_of("eplb", 8)}, 0, effects);
  stage.on(SwapCommit{PolicyEpoch{8}}, 0, effects);
  EXPECT_EQ(sent<Committed>(effects).size(), 1U);
}

/// Forgets every expert but the first.
class Forgetful final : public ExpertPlacement {
public:
  Decision<ExpertLayout> plan(const ExpertQuery& query, const PolicyContext&) noexcept override {
    ExpertLayout layout;
    for (std::size_t i = 0; i < query.layers.size(); ++i)
      layout.layers.push_back(
          {std::vector<std::int32_t>(static_cast<std::size_t>(query.topology.slots), 0)});
    return {layout, Reason::lowest_score};
  }
};

TEST(ExpertStage, AnInvalidPlanIsReplacedByTheDefaultAndReported) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  registry.add("expert_placement", "forgetful", [](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<Forgetful>());
  });
  ExpertStage stage(Manager::options(), Manager::set_of("forgetful"), registry);
  Effects effects;
  stage.start(0, effects);
  const Timer timer = timers(effects, TimerKind::experts).at(0);
  stage.on(ExpertLoads{rank_ref(0), {}, 1, 1, {{0, {1, 2, 3, 4}}, {1, {1, 2, 3, 4}}}}, 0, effects);
  effects.clear();
  stage.on(timer, 1000, effects);
  EXPECT_EQ(stage.counts().invalid_decisions, 1);
  const auto faults = sent<PolicyFault>(effects);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].policy, "forgetful");
  EXPECT_EQ(faults[0].what, "a map that leaves a slot or an expert out");
  EXPECT_EQ(asked<Record>(effects).at(0).reason, Reason::replaced_invalid);
  EXPECT_EQ(sent<ExpertPlan>(effects).size(), 1U) << "the default's plan";
}

TEST(ExpertStage, RanksAndRoundsAreBounded) {
  ExpertOptions options = Manager::options();
  options.ranks_max = 3;
  options.round_cells_max = 2 * 4 * 5;
  Manager manager("", options);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    for (std::uint32_t rank = 0; rank < 5; ++rank)
      manager.report(rank_ref(rank), step, {static_cast<std::int64_t>(step), 1, 1, 1});
  }
  EXPECT_EQ(manager.counts().reports, 60);
  EXPECT_EQ(manager.counts().stale_dropped, 40);
  manager.interval();
  const Loads& rounds = manager.seen->layers[0].steps;
  ASSERT_EQ(rounds.size(), 5U * 4U) << "the newest five";
  EXPECT_EQ(rounds[0], 3 * 16);
  EXPECT_EQ(rounds[16], 3 * 20);
}

/// Reports of lossy, repeating links against a plain account of what should count.
TEST(ExpertStage, WhatCountsIsEachReportOnceUnderAnyRepeatsAndLosses) {
  constexpr std::uint64_t kSeed = 71;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  ExpertOptions options = Manager::options();
  options.weight_permille = 1000; // The mean is the newest interval.
  Manager manager("window_greedy", options);
  std::vector<std::uint64_t> next(4, 1);
  ExpertEpoch last{};
  for (int interval = 0; interval < 60; ++interval) {
    Loads sum(4, 0);
    for (int i = 0; i < 30; ++i) {
      const auto rank = static_cast<std::uint32_t>(rng.below(4));
      Loads loads(4);
      for (std::int64_t& load : loads)
        load = static_cast<std::int64_t>(rng.below(50));
      const std::uint64_t epoch =
          raw(manager.counts().epoch) - (last == ExpertEpoch{} ? 0 : rng.below(2));
      const std::uint64_t first = next[rank];
      next[rank] += 2;
      if (rng.below(5) == 0) continue; // Lost.
      for (std::uint64_t times = 1 + rng.below(3); times > 0; --times)
        manager.report(rank_ref(rank), first, loads, epoch, 2);
      for (std::size_t e = 0; e < 4; ++e)
        sum[e] += loads[e];
    }
    const auto records = manager.interval();
    ASSERT_EQ(records.size(), 1U);
    ASSERT_EQ(manager.seen->layers[1].loads, sum);
    ASSERT_GE(manager.counts().epoch, last);
    last = manager.counts().epoch;
    for (const auto& map : manager.stage.maps())
      ASSERT_EQ((std::set<std::int32_t>(map.begin(), map.end()).size()), 4U);
  }
  EXPECT_EQ(manager.counts().bad_layers, 0);
  EXPECT_EQ(manager.counts().invalid_decisions, 0);
}

/// Times are printed; the bound is one that only a wrong order of growth would break.
TEST(ExpertStageSpeed, ReportsOfALargeModelAreCheap) {
  ExpertOptions options;
  options.layers = 40;
  options.topology = {384, 448, 64, 1, 1};
  options.interval_us = 1000;
  ExpertStage stage(options, {}, builtins());
  Effects effects;
  stage.start(0, effects);
  const Timer timer = timers(effects, TimerKind::experts).at(0);
  ExpertLoads loads{rank_ref(0), {}, 1, 64, {}};
  for (std::int32_t layer = 0; layer < 40; ++layer) {
    loads.layers.push_back({layer, Loads(384)});
    for (std::size_t e = 0; e < 384; ++e)
      loads.layers.back().counts[e] = static_cast<std::int64_t>(mix64(e * 40 + layer) % 1000);
  }
  constexpr int kReports = 200;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kReports; ++i) {
    stage.on(loads, 0, effects);
    loads.first_step += 64;
  }
  const double per_report_us =
      1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kReports;
  const std::clock_t asks = std::clock();
  stage.on(timer, 1000, effects);
  const double plan_ms = 1e3 * static_cast<double>(std::clock() - asks) / CLOCKS_PER_SEC;
  std::printf("40 layers of 384 experts: %.0f us of CPU a report, %.1f ms the first plan\n",
              per_report_us, plan_ms);
  EXPECT_EQ(stage.counts().plans, 1);
  EXPECT_LT(per_report_us, 20'000);
  EXPECT_LT(plan_ms, 10'000);
}

} // namespace
} // namespace troupe::sched
