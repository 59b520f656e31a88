// The scores of policies.md section 3.2 beside those of the worked example's own test.

#include "schedulers/policies/decode_balancer/normalised_max.hpp"
#include "schedulers/policies/decode_balancer/random.hpp"
#include "schedulers/policies/decode_balancer/round_robin.hpp"
#include "schedulers/policies/decode_balancer/two_choices.hpp"
#include "schedulers/policies/decode_balancer/weighted_sum.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;
using testing::sm100_ep4;

constexpr std::uint32_t kA = 0, kB = 1, kC = 2;

/// A(60, 2.4 M), B(58, 6.0 M), C(61, 1.0 M) of section 3.4.
ClusterBuilder example() {
  ClusterBuilder cluster;
  cluster.decode_rank(kA).running(60).context_tokens(2'400'000);
  cluster.decode_rank(kB).running(58).context_tokens(6'000'000);
  cluster.decode_rank(kC).running(61).context_tokens(1'000'000);
  return cluster;
}

std::uint32_t choice(DecodeBalancer& balancer, const ClusterBuilder& cluster,
                     ContextBuilder& builder) {
  const PlacementQuery query{request(1, 100, 100), {}};
  const auto decision = balancer.place(query, cluster.ranks(), builder.context());
  EXPECT_TRUE(validate(decision, query, cluster.ranks()).ok());
  return decision.value ? raw(decision.value->rank) : 999;
}

TEST(DecodeBalancer, StepTimesOfTheWorkedExample) {
  const CostModel model = sm100_ep4();
  const ClusterBuilder cluster = example();
  const std::array<double, 3> expected_ms = {14.501, 14.661, 14.453};
  for (std::size_t i = 0; i < 3; ++i) {
    const RankView& rank = cluster.ranks()[i];
    const std::int64_t ps =
        10'260'000'000 + model.decode_load_ps(rank.running, rank.context_tokens);
    EXPECT_NEAR(static_cast<double>(ps) / 1e9, expected_ms[i], 0.0005);
  }
  // One request costs as much as 822 thousand tokens of context; 6.4 thousand in an MLA-like model.
  EXPECT_NEAR(67'400'000.0 / 82, 822'000, 200);
  EXPECT_NEAR(67'400'000.0 / 10'500, 6'400, 25);
}

TEST(NormalisedMaxBalancer, LooksAtWhatRunsAheadOfItsMean) {
  ContextBuilder builder;
  // n / mean: 1.006, 0.972, 1.022; K / mean: 0.766, 1.915, 0.319. Maxima 1.006, 1.915, 1.022.
  NormalisedMaxBalancer balancer({});
  EXPECT_EQ(choice(balancer, example(), builder), kA);
  // Equal maxima: the lower sum wins, here the one with less context.
  ClusterBuilder equal;
  equal.decode_rank(0).running(4).context_tokens(40).decode_rank(1).running(4).context_tokens(0);
  EXPECT_EQ(choice(balancer, equal, builder), 1U);
  // Without any context the count decides.
  ClusterBuilder fresh;
  fresh.decode_rank(0).running(2).decode_rank(1).running(1);
  EXPECT_EQ(choice(balancer, fresh, builder), 1U);
}

TEST(WeightedSumBalancer, WeightsCountAgainstContext) {
  ContextBuilder builder;
  WeightedSumBalancer both({{}, 500, 500});
  EXPECT_EQ(choice(both, example(), builder), kC);
  WeightedSumBalancer count_only({{}, 1000, 0});
  EXPECT_EQ(choice(count_only, example(), builder), kB);
  // A is 0.0335 above B in count and 1.149 below in context: B from a ratio of weights of 34.3 on.
  WeightedSumBalancer below({{}, 970, 30});
  EXPECT_EQ(choice(below, example(), builder), kA);
  WeightedSumBalancer above({{}, 973, 28});
  EXPECT_EQ(choice(above, example(), builder), kB);
}

TEST(TwoChoicesBalancer, ComparesByTheChosenMeasure) {
  ContextBuilder builder{sm100_ep4()};
  const auto best = [&](LoadMeasure by, std::uint32_t worst) {
    TwoChoicesBalancer balancer({{}, by});
    std::array<int, 3> times{};
    for (int i = 0; i < 3000; ++i)
      ++times[choice(balancer, example(), builder)];
    EXPECT_EQ(times[worst], 0);
    return std::max_element(times.begin(), times.end()) - times.begin();
  };
  EXPECT_EQ(best(LoadMeasure::count, kC), kB);
  EXPECT_EQ(best(LoadMeasure::kv, kB), kC);
  EXPECT_EQ(best(LoadMeasure::count_and_kv, kB), kC);
}

TEST(RoundRobinBalancer, TakesTurnsOverRanksWithRoomAndCarriesItsStateOver) {
  ContextBuilder builder;
  ClusterBuilder cluster;
  cluster.decode_rank(1).decode_rank(4).slots_free(0).decode_rank(6);
  RoundRobinBalancer balancer({});
  EXPECT_EQ(choice(balancer, cluster, builder), 1U);
  RoundRobinBalancer next({});
  next.import_state(balancer.export_state());
  EXPECT_EQ(choice(next, cluster, builder), 6U);
  EXPECT_EQ(choice(next, cluster, builder), 1U);
}

TEST(RandomBalancer, ReachesEveryRankWithRoom) {
  ContextBuilder builder;
  RandomBalancer balancer({});
  std::array<int, 3> times{};
  for (int i = 0; i < 3000; ++i)
    ++times[choice(balancer, example(), builder)];
  for (const int n : times)
    EXPECT_NEAR(n, 1000, 130); // Five deviations.
}

} // namespace
} // namespace troupe::sched
