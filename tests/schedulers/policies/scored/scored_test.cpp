// Placements composed from filters, weighted terms and a pick.

#include "schedulers/policies/scored/scored_balancer.hpp"
#include "schedulers/policies/scored/scored_router.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;

OptionValue text(const std::string& value) { return {value, "p.toml:5"}; }
OptionValue number(double value) { return {value, "p.toml:6"}; }

/// Adds [[score]] number `index`.
void add_score(OptionTable& table, int index, const std::string& by, double weight) {
  const std::string key = "score[" + std::to_string(index) + "]";
  table.set(key + ".by", text(by));
  table.set(key + ".weight", number(weight));
}

ScoredRouter router(OptionTable& table) {
  ScoredRouter made(scored_router_options(table));
  EXPECT_TRUE(table.finish().ok());
  return made;
}

std::uint32_t choice(PrefillRouter& policy, const std::vector<RankView>& ranks,
                     const PlacementQuery& query) {
  ContextBuilder builder;
  const auto decision = policy.route(query, ranks, builder.context());
  EXPECT_TRUE(validate(decision, query, ranks).ok());
  return decision.value ? raw(decision.value->rank) : 999;
}

//            work   requests    spread of work   of requests
//   rank 0     10          9                 0             1
//   rank 1     30          1               0.5             0
//   rank 2     50          1                 1             0
std::vector<RankView> three() {
  ClusterBuilder cluster;
  cluster.prefill_rank(0).work_ps(10).queued(9).prefill_rank(1).work_ps(30).queued(1);
  cluster.prefill_rank(2).work_ps(50).queued(1);
  return cluster.ranks();
}

TEST(Scored, WeighsTermsOfDifferentUnits) {
  const PlacementQuery query{request(1, 100), {}};
  OptionTable work_only("prefill_router");
  ScoredRouter by_default = router(work_only);
  EXPECT_EQ(choice(by_default, three(), query), 0U);
  OptionTable both("prefill_router");
  add_score(both, 0, "least_work", 1.0);
  add_score(both, 1, "least_requests", 0.6);
  ScoredRouter weighed = router(both); // 0.6, 0.5, 1.0
  ContextBuilder builder;
  const auto decision = weighed.route(query, three(), builder.context());
  EXPECT_EQ(decision.value->scores,
            (std::vector<std::int64_t>{600'000'000, 500'000'000, 1'000'000'000}));
  EXPECT_EQ(raw(decision.value->rank), 1U);
  OptionTable less("prefill_router");
  add_score(less, 0, "least_work", 1.0);
  add_score(less, 1, "least_requests", 0.4);
  ScoredRouter lighter = router(less); // 0.4, 0.5, 1.0
  EXPECT_EQ(choice(lighter, three(), query), 0U);
}

TEST(Scored, OnlyRanksThatPassSpreadATerm) {
  auto ranks = three();
  ranks.push_back(ranks[0]);
  ranks[3].rank.rank = RankId{7};
  ranks[3].work_ps = 1'000'000; // Full: it must not squeeze the others together.
  ranks[3].slots_free = 0;
  OptionTable both("prefill_router");
  add_score(both, 0, "least_work", 1.0);
  add_score(both, 1, "least_requests", 0.6);
  ScoredRouter policy = router(both);
  EXPECT_EQ(choice(policy, ranks, {request(1, 100), {}}), 1U);
}

TEST(Scored, LocalHitsAndSessions) {
  const std::array<std::int64_t, 3> hits = {0, 0, 64};
  OptionTable by_hit("prefill_router");
  add_score(by_hit, 0, "local_hit", 2.0);
  add_score(by_hit, 1, "least_work", 1.0);
  ScoredRouter hit = router(by_hit);
  EXPECT_EQ(choice(hit, three(), {request(1, 100), {}, hits}), 2U);
  EXPECT_EQ(choice(hit, three(), {request(1, 100), {}}), 0U);
  OptionTable by_session("prefill_router");
  add_score(by_session, 0, "session", 1.0);
  ScoredRouter session = router(by_session);
  PlacementQuery query{request(1, 100), {}};
  query.request.session_hash = 77;
  const std::uint32_t home = choice(session, three(), query);
  query.request.ref.request = RequestId{2};
  EXPECT_EQ(choice(session, three(), query), home);
}

TEST(Scored, PickOfTwoAndBalancerTerms) {
  OptionTable table("decode_balancer");
  table.set("pick", text("two_choices"));
  table.set("filters[0]", text("alive"));
  table.set("filters[1]", text("headroom"));
  add_score(table, 0, "least_count", 1.0);
  ScoredBalancer policy(scored_balancer_options(table));
  ASSERT_TRUE(table.finish().ok());
  ClusterBuilder cluster;
  cluster.decode_rank(0).running(9).decode_rank(1).running(1).decode_rank(2).running(2);
  ContextBuilder builder;
  std::array<int, 3> times{};
  for (int i = 0; i < 300; ++i) {
    const auto decision = policy.place({request(1, 9, 9), {}}, cluster.ranks(), builder.context());
    ++times[raw(decision.value->rank)];
  }
  EXPECT_EQ(times[0], 0);
  EXPECT_GT(times[1], times[2]);
  EXPECT_GT(times[2], 0);
  ClusterBuilder tight; // 10 of 1000 blocks free: below the headroom of 2 %.
  tight.decode_rank(0).kv_blocks_total(1000).kv_blocks_free(10);
  EXPECT_EQ(policy.place({request(1, 9, 9), {}}, tight.ranks(), builder.context()).reason,
            Reason::no_room);
}

TEST(Scored, WrongNamesAreRefusedWithTheValidOnes) {
  const auto refusal = [](const std::string& key, OptionValue value) {
    OptionTable table("prefill_router");
    table.set(key, std::move(value));
    scored_router_options(table);
    return table.finish().error().message;
  };
  EXPECT_EQ(refusal("filters[0]", text("alife")),
            "p.toml:5: prefill_router.filters[0]: found \"alife\", expected one of \"alive\", "
            "\"has_room\", \"headroom\"");
  EXPECT_NE(refusal("score[0].by", text("least_wrok")).find("\"least_work\""), std::string::npos);
  EXPECT_NE(refusal("score[0].weight", number(-1)).find("from 0 to 1000"), std::string::npos);
  EXPECT_NE(refusal("pick", text("worst")).find("\"two_choices\""), std::string::npos);
  EXPECT_EQ(refusal("filters", text("alive")),
            "p.toml:5: prefill_router.filters: found \"alive\", expected a list, as in filters = "
            "[\"alive\", \"has_room\"]");
  EXPECT_EQ(refusal("score.by", text("least_work")),
            "p.toml:5: prefill_router.score: found a table, expected a list, as in score = "
            "[{ by = \"least_work\", weight = 1.0 }]");
  EXPECT_NE(
      refusal("score[0]", text("least_work")).find("score[0]: found \"least_work\", expected"),
      std::string::npos);
  EXPECT_NE(refusal("pick[0]", text("best")).find("pick: found a list, expected one of"),
            std::string::npos);
  EXPECT_NE(refusal("score[1].by", text("least_work")).find("unknown key"), std::string::npos)
      << "terms are numbered without gaps";
}

} // namespace
} // namespace troupe::sched
