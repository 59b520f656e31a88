// What scenarios draw: requests, gaps, tenants, faults.

#include "schedulers/sim/faults.hpp"
#include "schedulers/sim/workload.hpp"

#include <gtest/gtest.h>

#include <map>

namespace troupe::sim {
namespace {

TEST(Workload, StaysWithinItsRangesAndAscends) {
  WorkloadSpec spec;
  spec.requests = 500;
  spec.prompt = {3, 9};
  spec.new_tokens = {2, 4};
  spec.ends_itself_permille = 500;
  Rng rng(1);
  const auto plans = make_workload(spec, rng);
  ASSERT_EQ(plans.size(), 500U);
  std::int64_t last_us = 0;
  std::int64_t short_ones = 0;
  for (const RequestPlan& plan : plans) {
    EXPECT_GE(plan.at_us, last_us);
    EXPECT_LE(plan.at_us, 205'000);
    last_us = plan.at_us;
    EXPECT_TRUE(plan.prompt >= 3 && plan.prompt <= 9);
    EXPECT_TRUE(plan.new_tokens_max >= 2 && plan.new_tokens_max <= 4);
    short_ones += plan.answer_tokens > 0;
  }
  EXPECT_GT(short_ones, 150);
  EXPECT_LT(short_ones, 350);
}

TEST(Workload, TheSameDrawsGiveTheSameRequests) {
  WorkloadSpec spec;
  spec.arrivals = Arrivals::poisson;
  Rng one(9);
  Rng two(9);
  const auto a = make_workload(spec, one);
  const auto b = make_workload(spec, two);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].at_us, b[i].at_us);
    EXPECT_EQ(a[i].prompt, b[i].prompt);
  }
}

// An exponential distribution: mean as asked, e^-1 of the gaps above it, e^-2 above twice of it.
TEST(Workload, ExponentialGaps) {
  constexpr std::int64_t kMean = 10'000;
  constexpr std::int64_t kDraws = 200'000;
  Rng rng(4);
  std::int64_t sum = 0;
  std::int64_t above = 0;
  std::int64_t far_above = 0;
  for (std::int64_t i = 0; i < kDraws; ++i) {
    const std::int64_t gap = exponential(kMean, rng);
    ASSERT_GE(gap, 0);
    sum += gap;
    above += gap > kMean;
    far_above += gap > 2 * kMean;
  }
  EXPECT_NEAR(static_cast<double>(sum) / kDraws, kMean, 100);
  EXPECT_NEAR(static_cast<double>(above) / kDraws, 0.3679, 0.005);
  EXPECT_NEAR(static_cast<double>(far_above) / kDraws, 0.1353, 0.005);
}

TEST(Workload, TenantsByShare) {
  WorkloadSpec spec;
  spec.requests = 1000;
  spec.tenants = {{"a", 9}, {"b", 1}};
  Rng rng(2);
  std::map<std::string, int> count;
  for (const RequestPlan& plan : make_workload(spec, rng))
    ++count[plan.tenant];
  EXPECT_NEAR(count["a"], 900, 40);
  EXPECT_EQ(count["a"] + count["b"], 1000);
}

TEST(Workload, RowsOfATrace) {
  WorkloadSpec spec;
  spec.start_us = 100;
  spec.rows = {{0, 5, 2}, {700, 6, 3}};
  Rng rng(2);
  const auto plans = make_workload(spec, rng);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans[1].at_us, 800);
  EXPECT_EQ(plans[1].prompt, 6);
  EXPECT_EQ(plans[1].new_tokens_max, 3);
}

TEST(Faults, NameRanksByNameByRoleOrAny) {
  std::vector<sched::RankOptions> ranks(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    ranks[i].rank.rank = RankId{i};
  ranks[0].name = "prefill-0";
  ranks[0].role = sched::Role::prefill;
  ranks[1].name = "decode-0";
  ranks[2].name = "decode-1";
  ranks[1].role = ranks[2].role = sched::Role::decode;
  EXPECT_EQ(ranks_named("decode-1", ranks), std::vector<RankId>{RankId{2}});
  EXPECT_EQ(ranks_named("decode", ranks).size(), 2U);
  EXPECT_EQ(ranks_named("", ranks).size(), 3U);
  EXPECT_TRUE(ranks_named("both", ranks).empty());
  Rng rng(1);
  const auto faults =
      draw_faults({{FaultKind::kill, "decode", 40, {10, 20}, 5, -1, 0}}, ranks, rng);
  ASSERT_EQ(faults.size(), 40U);
  for (const Fault& fault : faults) {
    EXPECT_NE(fault.rank, RankId{0});
    EXPECT_TRUE(fault.at_us >= 10 && fault.at_us <= 20);
  }
}

} // namespace
} // namespace troupe::sim
