// Prefill routers: work, not request count; ties and turns by id.

#include "schedulers/policies/prefill_router/least_work.hpp"
#include "schedulers/policies/prefill_router/round_robin.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;

std::uint32_t choice(PrefillRouter& router, const ClusterBuilder& cluster,
                     Reason reason = Reason::unset) {
  ContextBuilder builder;
  const PlacementQuery query{request(1, 100), {}};
  const auto decision = router.route(query, cluster.ranks(), builder.context());
  EXPECT_TRUE(validate(decision, query, cluster.ranks()).ok());
  EXPECT_TRUE(decision.value.has_value());
  if (reason != Reason::unset) {
    EXPECT_EQ(decision.reason, reason);
  }
  return raw(decision.value->rank);
}

TEST(PrefillRouterLeastWork, GoesToTheLessLoadedRankNotTheOneWithFewerRequests) {
  // Rank 0: one request of 10,000 tokens; rank 1: two of 1,000.
  const CostModel model;
  ClusterBuilder cluster;
  cluster.prefill_rank(0).queued(1).work_ps(model.marginal_ps(10'000, 0));
  cluster.prefill_rank(1).queued(2).work_ps(2 * model.marginal_ps(1000, 0));
  LeastWorkRouter router;
  EXPECT_EQ(choice(router, cluster, Reason::lowest_score), 1U);
}

TEST(PrefillRouterLeastWork, TiesByQueuedThenById) {
  LeastWorkRouter router;
  ClusterBuilder queued;
  queued.prefill_rank(0).queued(2).prefill_rank(1).queued(1);
  EXPECT_EQ(choice(router, queued), 1U);
  ClusterBuilder equal;
  equal.prefill_rank(4).prefill_rank(7);
  EXPECT_EQ(choice(router, equal, Reason::tie_lowest_id), 4U);
}

TEST(PrefillRouterLeastWork, TiesMayBeDrawn) {
  LeastWorkRouter router({.ties = RouterTies::drawn});
  ClusterBuilder cluster;
  cluster.prefill_rank(1).prefill_rank(4).queued(1).prefill_rank(6).prefill_rank(7).slots_free(0);
  ContextBuilder builder;
  std::array<int, 8> times{};
  for (int i = 0; i < 2000; ++i) {
    const auto decision = router.route({request(1, 100), {}}, cluster.ranks(), builder.context());
    EXPECT_EQ(decision.reason, Reason::drawn);
    EXPECT_EQ(decision.value->scores.size(), 4U);
    ++times[raw(decision.value->rank)];
  }
  EXPECT_NEAR(times[1], 1000, 112); // Five deviations.
  EXPECT_EQ(times[1] + times[6], 2000);
  ClusterBuilder clear;
  clear.prefill_rank(1).work_ps(5).prefill_rank(4);
  EXPECT_EQ(choice(router, clear, Reason::lowest_score), 4U);
}

// 40,000 tokens held at 17.8 ns each would take 0.7 ms off; never more than 5 % of W.
TEST(PrefillRouterLeastWork, WhatARankHoldsIsWorthAtMostATwentieth) {
  LeastWorkRouter plain;
  LeastWorkRouter near({.affinity_token_ps = 17'800});
  ContextBuilder builder{testing::sm100_ep4()};
  RequestView view = request(1, 48'000, 40'000);
  view.work_ps = builder.model.marginal_ps(8'000, 40'000); // 87 ms.
  const std::array<std::int64_t, 2> hits = {0, 40'000};
  const PlacementQuery query{view, {}, hits};
  const auto route = [&](LeastWorkRouter& router, std::int64_t behind_ps) {
    ClusterBuilder cluster;
    cluster.prefill_rank(0).prefill_rank(1).work_ps(behind_ps);
    return raw(router.route(query, cluster.ranks(), builder.context()).value->rank);
  };
  EXPECT_EQ(route(plain, 600'000'000), 0U);
  EXPECT_EQ(route(near, 600'000'000), 1U);
  EXPECT_EQ(route(near, 800'000'000), 0U);
  LeastWorkRouter clinging({.affinity_token_ps = 1'000'000'000});
  const std::int64_t twentieth = view.work_ps / 20;
  EXPECT_EQ(route(clinging, twentieth), 1U);
  EXPECT_EQ(route(clinging, twentieth + twentieth / 10), 0U);
}

TEST(PrefillRouters, SkipRanksWithoutRoom) {
  // A prefill rank needs the prompt, a rank that also decodes needs the answer too.
  ContextBuilder builder;
  const PlacementQuery query{request(1, 64, 0, 64), {}};
  ClusterBuilder cluster;
  cluster.both_rank(0).kv_blocks_free(1).prefill_rank(1).kv_blocks_free(1);
  cluster.prefill_rank(2).draining().prefill_rank(3).slots_free(0).prefill_rank(4).held();
  cluster.prefill_rank(5).context_max(100);
  LeastWorkRouter least;
  RoundRobinRouter turns;
  EXPECT_EQ(raw(least.route(query, cluster.ranks(), builder.context()).value->rank), 1U);
  EXPECT_EQ(raw(turns.route(query, cluster.ranks(), builder.context()).value->rank), 1U);
  EXPECT_EQ(raw(turns.route(query, cluster.ranks(), builder.context()).value->rank), 1U);
  ClusterBuilder none;
  none.prefill_rank(0).kv_blocks_free(0);
  EXPECT_EQ(least.route(query, none.ranks(), builder.context()).reason, Reason::no_room);
  EXPECT_EQ(turns.route(query, none.ranks(), builder.context()).reason, Reason::no_room);
}

TEST(PrefillRouterRoundRobin, TakesTurnsAndCarriesItsStateOver) {
  ClusterBuilder cluster;
  cluster.prefill_rank(1).prefill_rank(4).prefill_rank(6);
  RoundRobinRouter router;
  EXPECT_EQ(choice(router, cluster, Reason::next_in_turn), 1U);
  EXPECT_EQ(choice(router, cluster), 4U);
  RoundRobinRouter next;
  next.import_state(router.export_state());
  EXPECT_EQ(choice(next, cluster), 6U);
  EXPECT_EQ(choice(next, cluster), 1U);
  next.import_state("no number");
  EXPECT_EQ(choice(next, cluster), 1U) << "a state that cannot be read is a fresh start";
}

} // namespace
} // namespace troupe::sched
