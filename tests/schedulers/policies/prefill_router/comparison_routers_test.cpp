// The routers that the main policy is compared with: policies.md section 2.3.

#include "schedulers/core/hash.hpp"
#include "schedulers/model/queue_estimate.hpp"
#include "schedulers/policies/prefill_router/least_requests.hpp"
#include "schedulers/policies/prefill_router/least_tokens.hpp"
#include "schedulers/policies/prefill_router/least_uncached.hpp"
#include "schedulers/policies/prefill_router/local_cache.hpp"
#include "schedulers/policies/prefill_router/overlap_credit.hpp"
#include "schedulers/policies/prefill_router/random.hpp"
#include "schedulers/policies/prefill_router/session_hash.hpp"
#include "schedulers/policies/prefill_router/staggered.hpp"
#include "schedulers/policies/prefill_router/two_choices.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;
using testing::sm100_ep4;

constexpr std::int64_t kMs = 1'000'000'000; // In picoseconds.

/// Three idle prefill ranks.
std::vector<RankView> three() {
  return ClusterBuilder().prefill_rank(2).prefill_rank(5).prefill_rank(7).ranks();
}

std::uint32_t choice(PrefillRouter& router, const std::vector<RankView>& ranks,
                     const PlacementQuery& query, ContextBuilder& builder) {
  const auto decision = router.route(query, ranks, builder.context());
  EXPECT_TRUE(validate(decision, query, ranks).ok());
  return decision.value ? raw(decision.value->rank) : 999;
}

TEST(ComparisonRouters, EachLooksAtItsOwnCount) {
  ContextBuilder builder;
  auto ranks = three();
  //            requests  tokens  uncached
  //   rank 2          1    9000      9000
  //   rank 5          2    2000      1500
  //   rank 7          3    8000       100
  const std::array<std::array<std::int64_t, 3>, 3> loads = {
      {{1, 9000, 9000}, {2, 2000, 1500}, {3, 8000, 100}}};
  for (std::size_t i = 0; i < 3; ++i) {
    ranks[i].queued = loads[i][0];
    ranks[i].queued_tokens = loads[i][1];
    ranks[i].uncached_tokens = loads[i][2];
  }
  LeastRequestsRouter requests;
  LeastTokensRouter tokens;
  LeastUncachedRouter uncached;
  EXPECT_EQ(choice(requests, ranks, {request(1, 100), {}}, builder), 2U);
  EXPECT_EQ(choice(tokens, ranks, {request(1, 100), {}}, builder), 5U);
  EXPECT_EQ(choice(uncached, ranks, {request(1, 100), {}}, builder), 7U);
}

TEST(ComparisonRouters, RandomReachesEveryRankWithRoomAndNoOther) {
  ContextBuilder builder;
  auto ranks = three();
  ranks[1].draining = true;
  RandomRouter router;
  std::array<int, 8> times{};
  for (int i = 0; i < 2000; ++i)
    ++times[choice(router, ranks, {request(1, 100), {}}, builder)];
  EXPECT_EQ(times[5], 0);
  // 1000 expected, deviation 22: five of them.
  EXPECT_NEAR(times[2], 1000, 112);
  EXPECT_EQ(times[2] + times[7], 2000);
}

TEST(ComparisonRouters, TwoChoicesNeverTakesTheWorstAndTheBestInTwoThirds) {
  ContextBuilder builder;
  auto ranks = three();
  ranks[0].work_ps = 3;
  ranks[1].work_ps = 1;
  ranks[2].work_ps = 2;
  TwoChoicesRouter router;
  std::array<int, 8> times{};
  for (int i = 0; i < 3000; ++i)
    ++times[choice(router, ranks, {request(1, 100), {}}, builder)];
  EXPECT_EQ(times[2], 0);
  // The best is drawn in two of three pairs: 2000, deviation 26.
  EXPECT_NEAR(times[5], 2000, 130);
  ranks[2].work_ps = 1; // A tie goes to the lower id.
  for (int i = 0; i < 100; ++i)
    EXPECT_NE(choice(router, {ranks.begin() + 1, ranks.end()}, {request(1, 9), {}}, builder), 7U);
}

// R3: one worker without room loses its own sessions only, and gets them back.
TEST(ComparisonRouters, SessionHashMovesOnlyTheSessionsOfAFullRank) {
  ContextBuilder builder;
  SessionHashRouter router;
  ClusterBuilder cluster;
  for (std::uint32_t id = 0; id < 8; ++id)
    cluster.prefill_rank(id);
  const std::vector<RankView> ranks = cluster.ranks();
  std::vector<RankView> hot = ranks;
  hot[3].slots_free = 0;
  std::array<int, 8> sessions{};
  for (std::uint64_t session = 1; session <= 800; ++session) {
    PlacementQuery query{request(session, 100), {}};
    query.request.session_hash = mix64(session);
    const std::uint32_t home = choice(router, ranks, query, builder);
    ++sessions[home];
    query.request.ref.request = RequestId{session + 10'000};
    EXPECT_EQ(choice(router, ranks, query, builder), home)
        << "the session decides, not the request";
    const std::uint32_t other = choice(router, hot, query, builder);
    if (home == 3) {
      EXPECT_NE(other, 3U);
    } else {
      EXPECT_EQ(other, home);
    }
  }
  for (const int n : sessions)
    EXPECT_NEAR(n, 100, 50); // Deviation 9.4.
  EXPECT_NE(hash64("alice"), hash64("alicf"));
}

// W of the ranks: 10, 0, 0 ms; the prompt of 20,000 tokens is on rank 2 up to 19,000.
TEST(LocalCacheRouter, WeighsQueueAgainstWhatIsThere) {
  ContextBuilder builder{sm100_ep4()};
  builder.step_budget_ps = 100 * kMs;
  auto ranks = three();
  ranks[0].work_ps = 10 * kMs;
  const std::array<std::int64_t, 3> hits = {19'000, 0, 0};
  const PlacementQuery query{request(1, 20'000), {}, hits};
  // A copy of 19,000 tokens takes 338 ms at 17.8 us a token: worse than waiting 10 ms.
  LocalCacheRouter slow_link({.threshold_permille = 2000, .load_token_ps = 17'800'000});
  const auto there = slow_link.route(query, ranks, builder.context());
  EXPECT_EQ(raw(there.value->rank), 2U);
  EXPECT_EQ(there.reason, Reason::cached_there);
  // At 17.8 ns a token it takes 0.3 ms: the hot prefix spreads to an idle rank.
  LocalCacheRouter fast_link({.threshold_permille = 2000, .load_token_ps = 17'800});
  EXPECT_EQ(choice(fast_link, ranks, query, builder), 5U);
  // Below the threshold nothing is copied: 12,000 is more than half of 19,000.
  const std::array<std::int64_t, 3> near = {19'000, 12'000, 0};
  const auto own = fast_link.route({request(1, 20'000), {}, near}, ranks, builder.context());
  const std::int64_t expected = steps_ps(builder.model.marginal_ps(8000, 12'000),
                                         builder.model.step_ps, builder.step_budget_ps);
  EXPECT_EQ(own.value->scores[1], expected);
  // Without hits it is least work.
  ranks[1].work_ps = 5 * kMs;
  EXPECT_EQ(choice(fast_link, ranks, {request(1, 20'000), {}}, builder), 7U);
}

TEST(OverlapCreditRouter, AddsBlocksToComputeAndBlocksInUse) {
  ContextBuilder builder;
  auto ranks = three();
  for (RankView& rank : ranks) {
    rank.kv_blocks_total = 1000;
    rank.kv_blocks_free = 900;
  }
  ranks[1].kv_blocks_free = 890;                            // 10 more in use ...
  const std::array<std::int64_t, 3> hits = {0, 64 * 20, 0}; // ... and 20 fewer to compute.
  const PlacementQuery query{request(1, 64 * 30), {}, hits};
  OverlapCreditRouter full({.overlap_credit_permille = 1000, .temperature_permille = 0});
  const auto decision = full.route(query, ranks, builder.context());
  EXPECT_EQ(raw(decision.value->rank), 5U);
  EXPECT_EQ(decision.value->scores, (std::vector<std::int64_t>{160'000, 150'000, 160'000}));
  OverlapCreditRouter little({.overlap_credit_permille = 100, .temperature_permille = 0});
  EXPECT_EQ(choice(little, ranks, query, builder), 2U);
}

TEST(OverlapCreditRouter, TemperatureDrawsByTheExponential) {
  ContextBuilder builder;
  auto ranks = three();
  ranks[1].uncached_tokens = 64 * 5;
  ranks[2].uncached_tokens = 64 * 10;
  // Costs 0, 5, 10 of a range of 10, temperature 0.5: weights 1, e^-1, e^-2.
  OverlapCreditRouter router({.overlap_credit_permille = 1000, .temperature_permille = 500});
  std::array<int, 8> times{};
  for (int i = 0; i < 10'000; ++i)
    ++times[choice(router, ranks, {request(1, 64), {}}, builder)];
  EXPECT_NEAR(times[2], 6652, 240); // Five deviations.
  EXPECT_NEAR(times[5], 2447, 215);
  EXPECT_NEAR(times[7], 900, 145);
}

//   now       0 ms      55 ms     60 ms
//   rank 5   60 ms       5 ms               about to become free at 55 ms
//   held      ----------> routed
TEST(StaggeredRouter, HoldsUntilARankIsAboutToBecomeFree) {
  ContextBuilder builder;
  auto ranks = three();
  ranks[0].work_ps = 90 * kMs;
  ranks[1].work_ps = 60 * kMs;
  ranks[2].work_ps = 80 * kMs;
  StaggeredRouter router({.ahead_us = 5000, .hold_us_max = 200'000});
  const PlacementQuery query{request(0, 100), {}};
  const auto held = router.route(query, ranks, builder.context());
  EXPECT_FALSE(held.value.has_value());
  EXPECT_EQ(held.reason, Reason::held_back);
  EXPECT_EQ(held.retry_at_us, 55'000);
  EXPECT_TRUE(validate(held, query, ranks).ok());
  builder.now_us = held.retry_at_us;
  for (RankView& rank : ranks)
    rank.work_ps -= 55 * kMs;
  EXPECT_EQ(choice(router, ranks, query, builder), 5U);
  // Nobody is held longer than the limit.
  StaggeredRouter brief({.ahead_us = 0, .hold_us_max = 10'000});
  builder.now_us = 9'999;
  EXPECT_EQ(brief.route(query, ranks, builder.context()).retry_at_us, 10'000);
  builder.now_us = 10'000;
  EXPECT_EQ(choice(brief, ranks, query, builder), 5U);
}

// R2: a burst at one instant spreads, because what was assigned counts at once.
TEST(ComparisonRouters, ABurstSpreadsWhenOwnAssignmentsCount) {
  ContextBuilder builder{sm100_ep4()};
  builder.step_budget_ps = 100 * kMs;
  builder.now_us = 1000;
  StaggeredRouter staggered({.ahead_us = 5000, .hold_us_max = 0});
  LeastUncachedRouter uncached;
  for (PrefillRouter* router :
       {static_cast<PrefillRouter*>(&staggered), static_cast<PrefillRouter*>(&uncached)}) {
    auto ranks = three();
    std::array<int, 8> times{};
    for (std::uint64_t i = 0; i < 30; ++i) {
      RequestView view = request(i, 32'000, 0, 1);
      view.work_ps = builder.model.marginal_ps(32'000, 0);
      const std::uint32_t id = choice(*router, ranks, {view, {}}, builder);
      ++times[id];
      for (RankView& rank : ranks) {
        if (raw(rank.rank.rank) != id) continue;
        rank.work_ps += view.work_ps;
        rank.uncached_tokens += view.remaining();
      }
    }
    EXPECT_EQ(times[2], 10);
    EXPECT_EQ(times[5], 10);
    EXPECT_EQ(times[7], 10);
  }
}

} // namespace
} // namespace troupe::sched
