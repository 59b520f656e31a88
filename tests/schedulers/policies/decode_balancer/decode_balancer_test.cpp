// Decode balancers on the worked example of policies.md section 3.4, and their feasibility.

#include "schedulers/policies/decode_balancer/count_and_kv.hpp"
#include "schedulers/policies/decode_balancer/least_count.hpp"
#include "schedulers/policies/decode_balancer/least_kv.hpp"
#include "schedulers/policies/decode_balancer/lexicographic_iqr.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;
using testing::sm100_ep4;

constexpr std::uint32_t kA = 0, kB = 1, kC = 2;

/// A(60, 2.4 M), B(58, 6.0 M), C(61, 1.0 M), blocks of 1,000 tokens, capacity `cap_tokens` each.
ClusterBuilder example(std::int64_t cap_tokens) {
  const auto blocks = [&](std::int64_t used_tokens) { return (cap_tokens - used_tokens) / 1000; };
  ClusterBuilder cluster;
  const auto add = [&](std::uint32_t id, std::int64_t n, std::int64_t k) {
    cluster.decode_rank(id)
        .running(n)
        .context_tokens(k)
        .block_tokens(1000)
        .kv_blocks_free(blocks(k))
        .kv_blocks_total(cap_tokens / 1000);
  };
  add(kA, 60, 2'400'000);
  add(kB, 58, 6'000'000);
  add(kC, 61, 1'000'000);
  return cluster;
}

PlacementQuery need(std::int64_t tokens) { return {request(1, tokens - 16, tokens - 16, 16), {}}; }

std::uint32_t choice(DecodeBalancer& balancer, const PlacementQuery& query,
                     const ClusterBuilder& cluster) {
  ContextBuilder builder{sm100_ep4()};
  const auto decision = balancer.place(query, cluster.ranks(), builder.context());
  EXPECT_TRUE(validate(decision, query, cluster.ranks()).ok());
  EXPECT_TRUE(decision.value.has_value());
  return decision.value ? raw(decision.value->rank) : 999;
}

TEST(DecodeBalancer, WorkedExample) {
  const ClusterBuilder cluster = example(100'000'000);
  CountAndKvBalancer physical({});
  LeastCountBalancer count({});
  LexicographicIqrBalancer lexicographic({});
  LeastKvBalancer kv({});
  EXPECT_EQ(choice(physical, need(1000), cluster), kC);
  EXPECT_EQ(choice(lexicographic, need(1000), cluster), kB);
  EXPECT_EQ(choice(kv, need(1000), cluster), kC);
  EXPECT_EQ(choice(count, need(1000), cluster), kB);
}

TEST(DecodeBalancer, PhysicalScoresInRequests) {
  ContextBuilder builder{sm100_ep4()};
  const ClusterBuilder cluster = example(100'000'000);
  CountAndKvBalancer physical({});
  const auto decision = physical.place(need(1000), cluster.ranks(), builder.context());
  ASSERT_EQ(decision.value->scores.size(), 3U);
  const auto in_requests = [&](std::size_t i) {
    return static_cast<double>(decision.value->scores[i]) /
           static_cast<double>(builder.model.sequence_ps);
  };
  EXPECT_NEAR(in_requests(kA), 62.92, 0.005);
  EXPECT_NEAR(in_requests(kB), 65.30, 0.005);
  EXPECT_NEAR(in_requests(kC), 62.22, 0.005);
  EXPECT_EQ(decision.reason, Reason::lowest_score);
}

TEST(DecodeBalancer, CapacityRemovesBFromTheExample) {
  // cap 6.2 M, need 0.3 M: B holds 6.0 M and is infeasible, so the lexicographic choice is A.
  const ClusterBuilder cluster = example(6'200'000);
  LexicographicIqrBalancer lexicographic({});
  EXPECT_EQ(choice(lexicographic, need(300'000), cluster), kA);
}

TEST(DecodeBalancer, HeadroomCountsUnlessTheRankIsEmpty) {
  // 100 blocks, 2 % stay free: 98 fit a used rank only when 100 are free.
  ClusterBuilder used;
  used.decode_rank(0).kv_blocks_total(100).kv_blocks_free(10).block_tokens(1);
  CountAndKvBalancer balancer({});
  ContextBuilder builder;
  const auto ask = [&](const ClusterBuilder& cluster, std::int64_t blocks) {
    RequestView view = request(1, blocks - 1, blocks - 1, 1);
    return balancer.place({view, {}}, cluster.ranks(), builder.context()).value.has_value();
  };
  EXPECT_TRUE(ask(used, 8));
  EXPECT_FALSE(ask(used, 9));
  ClusterBuilder empty;
  empty.decode_rank(0).kv_blocks_total(100).kv_blocks_free(100).block_tokens(1).slots_free(200);
  EXPECT_TRUE(ask(empty, 100)) << "what fits an empty rank must not wait for ever";
  EXPECT_FALSE(ask(empty, 101));
}

TEST(DecodeBalancer, IqrFilterRemovesOutliersAndGivesWayWhenNothingIsLeft) {
  // K: 10, 10, 10, 10, 1000 -> Q1 = Q3 = 10: rank 4 is an outlier although it has fewest.
  ClusterBuilder cluster;
  for (std::uint32_t id = 0; id < 4; ++id) {
    cluster.decode_rank(id).running(5 + id).context_tokens(10);
  }
  cluster.decode_rank(4).running(1).context_tokens(1000);
  LexicographicIqrBalancer balancer({});
  EXPECT_EQ(choice(balancer, need(64), cluster), 0U);
  ClusterBuilder full;
  for (std::uint32_t id = 0; id < 4; ++id) {
    full.decode_rank(id).running(5).context_tokens(10).slots_free(0);
  }
  full.decode_rank(4).running(1).context_tokens(1000);
  EXPECT_EQ(choice(balancer, need(64), full), 4U);
}

TEST(DecodeBalancer, TiesGoToTheLowerIdAndNothingFitsIsSaid) {
  ClusterBuilder cluster;
  cluster.decode_rank(3).decode_rank(5).decode_rank(9);
  ContextBuilder builder;
  CountAndKvBalancer balancer({});
  const auto tie = balancer.place(need(64), cluster.ranks(), builder.context());
  EXPECT_EQ(raw(tie.value->rank), 3U);
  EXPECT_EQ(tie.reason, Reason::tie_lowest_id);
  ClusterBuilder none;
  none.decode_rank(0).draining().decode_rank(1).slots_free(0).decode_rank(2).held();
  const auto refused = balancer.place(need(64), none.ranks(), builder.context());
  EXPECT_FALSE(refused.value.has_value());
  EXPECT_EQ(refused.reason, Reason::no_room);
}

// Every policy of the kind passes this, whatever the cluster.
TEST(DecodeBalancer, RandomClustersAreAnsweredValidlyAndRepeatably) {
  std::printf("seed 17\n");
  Rng rng(17);
  for (int i = 0; i < 3000; ++i) {
    ClusterBuilder cluster;
    const auto ranks = 1 + rng.below(6);
    for (std::uint32_t id = 0; id < ranks; ++id) {
      cluster.decode_rank(id)
          .kv_blocks_total(50)
          .kv_blocks_free(static_cast<std::int64_t>(rng.below(51)))
          .slots_free(static_cast<std::int64_t>(rng.below(3)))
          .running(static_cast<std::int64_t>(rng.below(5)))
          .context_tokens(static_cast<std::int64_t>(rng.below(5000)));
      if (rng.below(6) == 0) cluster.draining();
    }
    const PlacementQuery query = need(20 + static_cast<std::int64_t>(rng.below(3500)));
    const std::unique_ptr<DecodeBalancer> all[] = {
        std::make_unique<CountAndKvBalancer>(RoomOptions{}),
        std::make_unique<LeastCountBalancer>(RoomOptions{}),
        std::make_unique<LeastKvBalancer>(RoomOptions{}),
        std::make_unique<LexicographicIqrBalancer>(RoomOptions{})};
    bool any = false;
    for (const RankView& rank : cluster.ranks())
      any = any || DecodeRoom(query, {})(rank);
    for (const auto& balancer : all) {
      ContextBuilder builder;
      const auto once = balancer->place(query, cluster.ranks(), builder.context());
      const auto twice = balancer->place(query, cluster.ranks(), builder.context());
      ASSERT_TRUE(validate(once, query, cluster.ranks()).ok());
      ASSERT_EQ(once.value.has_value(), any);
      if (any) {
        ASSERT_EQ(once.value->rank, twice.value->rank);
      }
    }
  }
}

} // namespace
} // namespace troupe::sched
