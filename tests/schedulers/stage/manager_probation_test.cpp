// What the guardrails of a set on probation end.

#include "tests/support/manager_bench.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

const RequestEnded kUsual{true, 100'000, 10'000, 0};

/// A manager whose window before the swap had 60 usual requests; fair() is on probation.
struct ProbationBench : ManagerBench {
  ProbationBench() : ManagerBench(fast()) {
    window(60, kUsual);
    swap_to(on_probation(fair()));
  }
};

/// What the guardrails say to a window of such requests; "" when the set passes.
std::string verdict(std::int64_t count, RequestEnded request) {
  ProbationBench bench;
  bench.window(count, request);
  if (!bench.stage.on_probation()) return {};
  const std::size_t before = bench.ended.size();
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
  EXPECT_EQ(bench.ended.size(), before + 1);
  EXPECT_EQ(bench.ended.back().question, 0U) << "nobody asked";
  EXPECT_EQ(bench.ended.back().cause, SwapCause::rollback);
  EXPECT_EQ(bench.stage.history().back().reason, bench.ended.back().reason);
  return bench.ended.back().reason;
}

TEST(Probation, ASetThatIsNoWorsePasses) {
  EXPECT_EQ(verdict(60, kUsual), "");
  EXPECT_EQ(verdict(60, {true, 150'000, 15'000, 0}), "") << "at the limits, not beyond";
}

TEST(Probation, EachGuardrailBringsTheLastSetBack) {
  EXPECT_EQ(verdict(60, {true, 150'001, 10'000, 0}),
            "probation of \"fair\": TTFT p95 went from 100000 to 150001 us, more than 1.50 times");
  EXPECT_EQ(verdict(60, {true, 100'000, 15'001, 0}),
            "probation of \"fair\": TPOT p95 went from 10000 to 15001 us, more than 1.50 times");
  EXPECT_NE(verdict(60, {false, 100'000, 10'000, 0}).find("goodput went from 2000 to 0"),
            std::string::npos);
  // 50 in a thousand count as none; 2 times that is allowed.
  EXPECT_NE(verdict(60, {true, 100'000, 10'000, 1}).find("preemptions went from 0 to 1000"),
            std::string::npos);
}

TEST(Probation, TooFewRequestsSayNothingYet) {
  ProbationBench bench;
  bench.window(10, {true, 900'000, 10'000, 0});
  EXPECT_TRUE(bench.stage.on_probation());
  bench.window(40, {true, 900'000, 10'000, 0});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast") << "both windows together are enough";
}

TEST(Probation, AQuietSystemPassesInTheEnd) {
  ProbationBench bench;
  for (int i = 0; i < 9; ++i) {
    bench.window(1, kUsual);
    EXPECT_TRUE(bench.stage.on_probation()) << i;
  }
  bench.window(1, kUsual);
  EXPECT_FALSE(bench.stage.on_probation());
}

TEST(Probation, WithoutAWindowASetPassesAtOnce) {
  ManagerBench bench(fast());
  bench.swap_to(fair());
  EXPECT_FALSE(bench.stage.on_probation());
}

TEST(Probation, ASwapDuringProbationIsComparedWithTheLastSetThatPassed) {
  ProbationBench bench;
  for (int i = 0; i < 60; ++i)
    bench.on(RequestEnded{true, 900'000, 10'000, 0});
  bench.swap_to(on_probation(set_of("third", {{"queue", "sjf"}})));
  bench.window(60, {true, 800'000, 10'000, 0});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast") << "better than the second, worse than the first";
}

TEST(Probation, ABreachWhileAnotherSwapIsUnderWayIsMootWhenThatOneGoesLive) {
  ProbationBench bench;
  bench.ask(on_probation(set_of("third", {{"queue", "sjf"}})), 9);
  bench.window(60, {true, 900'000, 10'000, 0});
  EXPECT_TRUE(sent<SwapPrepare>(bench.effects).empty());
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "third");
  ASSERT_GE(bench.ended.size(), 2U);
  EXPECT_FALSE(bench.ended.back().ok);
  EXPECT_NE(bench.ended.back().reason.find("another set went live"), std::string::npos);
}

TEST(Probation, ABreachWhileAnotherSwapIsUnderWayCountsWhenThatOneFails) {
  ProbationBench bench;
  bench.ask(set_of("third", {{"queue", "sjf"}}), 9);
  const PolicyEpoch third = bench.asked_epoch();
  bench.window(60, {true, 900'000, 10'000, 0});
  bench.on(Prepared{kDriver, third, false, "no"});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
}

} // namespace
} // namespace troupe::sched::testing
