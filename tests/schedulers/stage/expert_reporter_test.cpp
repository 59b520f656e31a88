// A rank's side of expert placement: counts of steps add up to reports, plans take effect with the
// next step.

#include "schedulers/stage/expert_reporter.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace troupe::sched {
namespace {

using testing::asked;
using testing::builtins;
using testing::rank_ref;
using testing::ref;
using testing::sent;
using testing::timers;
using testing::work;

using Counts = std::vector<std::int32_t>;

constexpr ExpertReportOptions kTwoLayersOfThree{2, 3, 4, 1000};

ExpertPlan plan(std::uint64_t epoch, std::uint32_t incarnation = 1) {
  return {rank_ref(5, incarnation), ExpertEpoch{epoch}, {3, 3, 1, 1, 1}, {{0, 1, 2}, {0, 1, 2}}};
}

TEST(ExpertReporter, AddsUpStepsAndReportsEveryFewOfThem) {
  ExpertReporter reporter(rank_ref(5), kTwoLayersOfThree);
  EXPECT_TRUE(reporter.counts());
  Effects effects;
  for (std::uint64_t step = 1; step <= 9; ++step)
    reporter.count(step, {}, Counts{1, 2, 3, 4, 5, static_cast<std::int32_t>(step)}, 0, effects);
  const auto reports = sent<ExpertLoads>(effects);
  ASSERT_EQ(reports.size(), 2U) << "the ninth step waits for others or its timer";
  EXPECT_EQ(reports[0].rank, rank_ref(5));
  EXPECT_EQ(reports[0].first_step, 1U);
  EXPECT_EQ(reports[1].first_step, 5U);
  EXPECT_EQ(reports[1].steps, 4);
  ASSERT_EQ(reports[1].layers.size(), 2U);
  EXPECT_EQ(reports[1].layers[0].layer, 0);
  EXPECT_EQ(reports[1].layers[0].counts, (std::vector<std::int64_t>{4, 8, 12}));
  EXPECT_EQ(reports[1].layers[1].layer, 1);
  EXPECT_EQ(reports[1].layers[1].counts, (std::vector<std::int64_t>{16, 20, 5 + 6 + 7 + 8}));
}

TEST(ExpertReporter, ReportsAfterAWhileWhenStepsAreFew) {
  ExpertReporter reporter(rank_ref(5), kTwoLayersOfThree);
  Effects effects;
  reporter.count(7, {}, Counts{1, 0, 0, 0, 0, 1}, 50, effects);
  const auto set = asked<SetTimer>(effects);
  ASSERT_EQ(set.size(), 1U);
  EXPECT_EQ(set[0].kind, TimerKind::experts);
  EXPECT_EQ(set[0].due_us, 1050);
  effects.clear();
  reporter.wake(set[0].key + 1, effects);
  EXPECT_TRUE(effects.list().empty()) << "a timer of another report";
  reporter.wake(set[0].key, effects);
  const auto reports = sent<ExpertLoads>(effects);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].first_step, 7U);
  EXPECT_EQ(reports[0].steps, 1);
  effects.clear();
  reporter.wake(set[0].key, effects);
  EXPECT_TRUE(effects.list().empty()) << "nothing is left to tell";
}

TEST(ExpertReporter, AReportIsAboutOneMap) {
  ExpertReporter reporter(rank_ref(5), kTwoLayersOfThree);
  Effects effects;
  reporter.count(1, ExpertEpoch{3}, Counts(6, 1), 0, effects);
  reporter.count(2, ExpertEpoch{4}, Counts(6, 1), 0, effects);
  const auto reports = sent<ExpertLoads>(effects);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].epoch, ExpertEpoch{3});
  EXPECT_EQ(reports[0].steps, 1);
}

TEST(ExpertReporter, CountsOfAnotherSizeSayNothing) {
  ExpertReporter reporter(rank_ref(5), kTwoLayersOfThree);
  Effects effects;
  for (std::uint64_t step = 1; step <= 8; ++step)
    reporter.count(step, {}, Counts(step == 2 ? 5 : 6, 1), 0, effects);
  const auto reports = sent<ExpertLoads>(effects);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_TRUE(reports[0].layers.empty());
  EXPECT_EQ(reports[1].layers.size(), 2U);
}

TEST(ExpertReporter, WithoutLayersItSaysNothing) {
  ExpertReporter reporter(rank_ref(5), {});
  Effects effects;
  EXPECT_FALSE(reporter.counts());
  for (std::uint64_t step = 1; step <= 200; ++step)
    reporter.count(step, {}, {}, 0, effects);
  EXPECT_TRUE(effects.list().empty());
}

TEST(ExpertReporter, TakesNewerPlansOfItsModelOnly) {
  ExpertReporter reporter(rank_ref(5), kTwoLayersOfThree);
  EXPECT_EQ(reporter.epoch(), ExpertEpoch{});
  EXPECT_TRUE(reporter.take(plan(2)));
  EXPECT_FALSE(reporter.take(plan(2))) << "a repeat";
  EXPECT_FALSE(reporter.take(plan(1))) << "overtaken";
  ExpertPlan other = plan(9);
  other.maps.pop_back();
  EXPECT_FALSE(reporter.take(other)) << "of another model";
  EXPECT_EQ(reporter.epoch(), ExpertEpoch{2});
}

// step 1 (epoch 0) runs ── plan of epoch 6 arrives ── step 1 ends ── step 2 (epoch 6)
TEST(RankExperts, APlanTakesEffectAtAStepBoundary) {
  RankOptions options;
  options.rank = rank_ref(5);
  options.kv_blocks = 16;
  options.block_tokens = 4;
  options.slots = 4;
  options.step_tokens_max = 2;
  options.experts = {2, 3, 1, 1000};
  RankStage rank(options, {}, builtins());
  Effects effects;
  rank.start(0, effects);
  rank.on(Assign{ref(1), rank_ref(5), work(4, 3), 0, {}, 0, 0}, 0, effects);
  effects.clear();
  rank.on(RunChunks{rank_ref(5), 1, {{ref(1), 0, 2, false}}}, 0, effects);
  auto steps = asked<RunStep>(effects);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].expert_epoch, ExpertEpoch{});
  EXPECT_TRUE(steps[0].count_experts);

  effects.clear();
  rank.on(plan(6), 1, effects);
  rank.on(plan(7, 2), 1, effects);
  rank.on(plan(3), 1, effects);
  EXPECT_TRUE(effects.list().empty()) << "nothing changes under a running step";
  EXPECT_EQ(rank.counts().stale_dropped, 2) << "another life's plan, and an older one";

  StepDone done;
  done.step = 1;
  done.rows.push_back({ref(1), ErrorCode::ok, 2, false, {}});
  done.expert_counts = {0, 2, 0, 1, 1, 0};
  rank.on(done, 2, effects);
  const auto reports = sent<ExpertLoads>(effects);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].epoch, ExpertEpoch{}) << "the map that the step ran under";
  EXPECT_EQ(reports[0].layers[0].counts, (std::vector<std::int64_t>{0, 2, 0}));

  effects.clear();
  rank.on(RunChunks{rank_ref(5), 2, {{ref(1), 2, 2, true}}}, 3, effects);
  steps = asked<RunStep>(effects);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].expert_epoch, ExpertEpoch{6});
}

TEST(RankExperts, AStepThatFailedIsNotCounted) {
  RankOptions options;
  options.rank = rank_ref(5);
  options.kv_blocks = 16;
  options.block_tokens = 4;
  options.experts = {2, 3, 1, 1000};
  RankStage rank(options, {}, builtins());
  Effects effects;
  rank.start(0, effects);
  rank.on(Assign{ref(1), rank_ref(5), work(4, 3), 0, {}, 0, 0}, 0, effects);
  rank.on(RunChunks{rank_ref(5), 1, {{ref(1), 0, 2, false}}}, 0, effects);
  StepDone done;
  done.step = 1;
  done.code = ErrorCode::engine_failed;
  rank.on(done, 2, effects);
  EXPECT_TRUE(sent<ExpertLoads>(effects).empty());
  EXPECT_TRUE(timers(effects, TimerKind::experts).empty());
}

} // namespace
} // namespace troupe::sched
