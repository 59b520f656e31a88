// What every prefill router and every decode balancer keeps, whichever it is.

#include "schedulers/policies/decode_balancer/room.hpp"
#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/policy/validate.hpp"
#include "schedulers/registry/policy_registry.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::request;

using Ask = std::function<Decision<Placement>(const PlacementQuery&, std::span<const RankView>,
                                              const PolicyContext&)>;

struct Built {
  std::unique_ptr<Policy> policy;
  Ask ask;
};

Built build(const std::string& kind, const std::string& name) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  PolicySet set;
  set.kinds[kind].policy = name;
  Built built{registry.build(kind, set).value(), {}};
  if (auto* router = dynamic_cast<PrefillRouter*>(built.policy.get())) {
    built.ask = [router](const auto& q, auto r, const auto& c) { return router->route(q, r, c); };
  } else {
    auto* balancer = dynamic_cast<DecodeBalancer*>(built.policy.get());
    built.ask = [balancer](const auto& q, auto r, const auto& c) {
      return balancer->place(q, r, c);
    };
  }
  return built;
}

class Placements : public ::testing::TestWithParam<std::string> {
protected:
  void each(const std::function<void(const std::string&)>& check) {
    PolicyRegistry registry;
    register_builtin_policies(registry);
    for (const std::string& name : registry.names(GetParam())) {
      SCOPED_TRACE(name);
      check(name);
    }
  }
};

bool same(const Decision<Placement>& a, const Decision<Placement>& b) {
  return a.reason == b.reason && a.retry_at_us == b.retry_at_us &&
         a.value.has_value() == b.value.has_value() &&
         (!a.value || (a.value->rank == b.value->rank && a.value->scores == b.value->scores));
}

/// A random cluster of up to six ranks, and a request for it.
struct Situation {
  std::vector<RankView> ranks;
  PlacementQuery query;

  Situation(Rng& rng, std::uint64_t id) {
    ClusterBuilder cluster;
    const auto some = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
    for (std::uint32_t r = 0; r < 1 + rng.below(6); ++r) {
      cluster.both_rank(r * 3 + 1)
          .kv_blocks_total(50)
          .kv_blocks_free(some(51))
          .slots_free(some(3))
          .running(some(5))
          .context_tokens(some(5000))
          .queued(some(4))
          .work_ps(some(1U << 30));
      if (rng.below(6) == 0) cluster.draining();
      if (rng.below(6) == 0) cluster.held();
    }
    ranks = cluster.ranks();
    query.request = request(id, 20 + some(2500));
    query.request.session_hash = rng.bits();
    query.request.arrival_us = -1'000'000; // Held as long as anybody may be.
  }
};

TEST_P(Placements, AnswersAreValidAndTheSameForTheSameInputs) {
  std::printf("seed 17\n");
  each([](const std::string& name) {
    Rng rng(17);
    Built one = build(GetParam(), name);
    Built two = build(GetParam(), name);
    ContextBuilder of_one;
    ContextBuilder of_two;
    of_one.now_us = of_two.now_us = 1'000'000;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      Situation s(rng, i);
      const std::vector<RankView> frozen = s.ranks;
      const auto a = one.ask(s.query, s.ranks, of_one.context());
      ASSERT_TRUE(same(a, two.ask(s.query, frozen, of_two.context()))) << i;
      ASSERT_TRUE(validate(a, s.query, s.ranks).ok()) << i;
      const bool any = std::any_of(s.ranks.begin(), s.ranks.end(), [&](const RankView& rank) {
        return GetParam() == "decode_balancer" ? DecodeRoom(s.query, {})(rank)
                                               : has_room(s.query, rank);
      });
      ASSERT_EQ(a.value.has_value(), any) << i;
      if (!any) {
        ASSERT_EQ(a.reason, Reason::no_room);
      }
      for (std::size_t r = 0; r < frozen.size(); ++r) {
        ASSERT_EQ(s.ranks[r].work_ps, frozen[r].work_ps);
        ASSERT_EQ(s.ranks[r].running, frozen[r].running);
        ASSERT_EQ(s.ranks[r].kv_blocks_free, frozen[r].kv_blocks_free);
      }
    }
  });
}

TEST_P(Placements, NoCandidateIsNoValueWithAReason) {
  each([](const std::string& name) {
    Built built = build(GetParam(), name);
    ContextBuilder builder;
    const PlacementQuery query{request(1, 100), {}};
    const auto nobody = built.ask(query, {}, builder.context());
    EXPECT_FALSE(nobody.value.has_value());
    EXPECT_EQ(nobody.reason, Reason::no_room);
    ClusterBuilder full;
    full.both_rank(0).slots_free(0).both_rank(1).draining().both_rank(2).held();
    EXPECT_EQ(built.ask(query, full.ranks(), builder.context()).reason, Reason::no_room);
  });
}

TEST_P(Placements, EqualRanksGoToTheLowestIdUnlessDrawnOrHashed) {
  const std::set<std::string> by_chance = {"random", "session_hash", "two_choices"};
  each([&](const std::string& name) {
    ClusterBuilder cluster;
    cluster.both_rank(3).both_rank(5).both_rank(9);
    Built built = build(GetParam(), name);
    ContextBuilder builder;
    const auto decision = built.ask({request(1, 100), {}}, cluster.ranks(), builder.context());
    ASSERT_TRUE(decision.value.has_value());
    if (by_chance.count(name) == 0) {
      EXPECT_EQ(raw(decision.value->rank), 3U);
    }
  });
}

TEST_P(Placements, StateCarriedOverContinues) {
  each([](const std::string& name) {
    Rng rng(23);
    Built one = build(GetParam(), name);
    ContextBuilder of_one;
    for (std::uint64_t i = 0; i < 20; ++i) {
      const Situation s(rng, i);
      one.ask(s.query, s.ranks, of_one.context());
    }
    Built two = build(GetParam(), name);
    two.policy->import_state(one.policy->export_state());
    ContextBuilder of_two = of_one;
    for (std::uint64_t i = 0; i < 50; ++i) {
      const Situation s(rng, i);
      ASSERT_TRUE(same(one.ask(s.query, s.ranks, of_one.context()),
                       two.ask(s.query, s.ranks, of_two.context())));
    }
  });
}

TEST_P(Placements, AnUnknownOptionIsAnErrorThatNamesIt) {
  each([](const std::string& name) {
    PolicyRegistry registry;
    register_builtin_policies(registry);
    PolicySet set;
    set.kinds[GetParam()].policy = name;
    set.kinds[GetParam()].options.set("no_such_option", {std::int64_t{1}, "p.toml:3"});
    const auto built = registry.build(GetParam(), set);
    ASSERT_FALSE(built.ok());
    EXPECT_EQ(built.error().code, ErrorCode::unknown_key);
    EXPECT_NE(built.error().message.find("p.toml:3: " + GetParam() + ".no_such_option"),
              std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Kinds, Placements, ::testing::Values("prefill_router", "decode_balancer"),
                         [](const auto& kind) { return kind.param; });

TEST(PlacementOptions, OutOfRangeAndWrongWordsAreRefusedWithTheirRange) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  const auto refusal = [&](const std::string& kind, const std::string& policy,
                           const std::string& key, OptionValue value) {
    PolicySet set;
    set.kinds[kind].policy = policy;
    set.kinds[kind].options.set(key, std::move(value));
    const auto built = registry.build(kind, set);
    return built.ok() ? std::string("accepted") : built.error().message;
  };
  EXPECT_EQ(refusal("decode_balancer", "two_choices", "by", {std::string("kvs"), "p:4"}),
            "p:4: decode_balancer.by: found \"kvs\", expected one of \"count\", \"kv\", "
            "\"count_and_kv\"");
  EXPECT_EQ(refusal("decode_balancer", "two_choices", "by", {std::string("kv"), "p:4"}),
            "accepted");
  EXPECT_EQ(refusal("prefill_router", "staggered", "ahead_us", {std::int64_t{-1}, "p:2"}),
            "p:2: prefill_router.ahead_us: found -1, expected a whole number from 0 to 1000000000");
  EXPECT_EQ(refusal("prefill_router", "local_cache", "threshold", {0.0, "p:2"}),
            "p:2: prefill_router.threshold: found 0.0, expected a number from 0.001 to 1000");
}

} // namespace
} // namespace troupe::sched
