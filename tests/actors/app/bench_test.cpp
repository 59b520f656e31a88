// The arithmetic of the benches' reports, and that their floors do what they say. No time is
// judged.

#include "actors/app/bench_routes.hpp"
#include "actors/app/bench_step.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace troupe::app {
namespace {

BenchFigure figure(double cost_ns, double floor_ns, double goal_ratio, double goal_us) {
  BenchFigure made{"route", "a route", "a floor", goal_ratio, goal_us};
  made.cost_ns = cost_ns;
  made.floor_ns = floor_ns;
  return made;
}

TEST(BenchFigure, ARatioIsMetUpToItsGoal) {
  EXPECT_DOUBLE_EQ(figure(2500, 1000, 3, 0).ratio(), 2.5);
  EXPECT_TRUE(figure(3000, 1000, 3, 0).met());
  EXPECT_FALSE(figure(3001, 1000, 3, 0).met());
  EXPECT_FALSE(figure(3000, 0, 3, 0).met()) << "no floor was measured";
  EXPECT_EQ(figure(3000, 0, 3, 0).ratio(), 0);
}

TEST(BenchFigure, ATimeIsMetWhateverTheFloor) {
  EXPECT_TRUE(figure(20'000, 1, 0, 20).met());
  EXPECT_FALSE(figure(20'001, 1, 0, 20).met());
  EXPECT_FALSE(figure(1, 1, 0, 0).has_goal());
}

TEST(BenchFigure, TextAndJsonSayTheSame) {
  const std::vector<BenchFigure> figures = {
      figure(2500, 1000, 3, 0), figure(25'000'000, 1000, 0, 20'000), figure(480, 240, 0, 0)};
  EXPECT_EQ(bench_text(figures), "a route: 2.50 us, a floor 1.00 us, ratio 2.50; goal 3 x: met\n"
                                 "a route: 25.00 ms, a floor 1.00 us, ratio 25000.00; goal 20.00 "
                                 "ms: not met\n"
                                 "a route: 480 ns, a floor 240 ns, ratio 2.00\n");
  std::vector<BenchFigure> named = figures;
  named[1].key = "plan";
  named[2].key = "free";
  const auto document = nlohmann::json::parse(bench_json(named));
  EXPECT_EQ(document["route"],
            nlohmann::json::parse(
                R"({"ns":2500,"floor_ns":1000,"ratio":2.5,"goal_ratio":3,"met":true})"));
  EXPECT_EQ(document["plan"]["goal_us"], 20'000);
  EXPECT_EQ(document["plan"]["met"], false);
  EXPECT_FALSE(document["free"].contains("met"));
  EXPECT_EQ(bench_json({}), "{}");
}

TEST(BenchFigure, TheMedianIsTheUpperOfTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 3);
  EXPECT_EQ(median({7}), 7);
}

TEST(BenchFloors, ThePlainArgminIsTheFirstLowestWithRoom) {
  const auto ranks = loaded_ranks(sched::Role::prefill, 512, 63, 1);
  ASSERT_EQ(ranks.size(), 512U);
  std::size_t best = ranks.size(), without_room = 0;
  for (std::size_t i = ranks.size(); i-- > 0;) {
    without_room += ranks[i].kv_blocks_free < 63 ? 1 : 0;
    if (ranks[i].kv_blocks_free < 63) continue;
    if (best == ranks.size() || ranks[i].work_ps <= ranks[best].work_ps) best = i;
  }
  EXPECT_EQ(plain_argmin(ranks, 63, &sched::RankView::work_ps), best);
  EXPECT_GT(without_room, 20U) << "the filter has something to do";
  EXPECT_EQ(plain_argmin(ranks, 1 << 20, &sched::RankView::work_ps), ranks.size());
}

// 64 positions a block: each of 3 sequences takes one more block in any 64 steps.
TEST(BenchFloors, APlainStepMovesEverySequenceOnByOnePosition) {
  PlainSteps plain(3, 128);
  const engine::StepPlan before = plain.plan();
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(plain.step(42), 0);
  const engine::StepPlan& after = plain.plan();
  EXPECT_EQ(after.step - before.step, 64U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(after.first_position[i] - before.first_position[i], 64);
    EXPECT_EQ(after.blocks_of[i].count - before.blocks_of[i].count, 1);
    EXPECT_EQ(after.tokens[i], 42);
    EXPECT_EQ(after.sampling[i].output_position, 64);
    EXPECT_EQ(plain.streamed()[i].index, 63);
  }
  EXPECT_EQ(plain.step(1), 3) << "the end token ends all";
}

} // namespace
} // namespace troupe::app
