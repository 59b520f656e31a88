// What every policy of the kinds that no stage asks yet keeps, whichever it is: the same answer to
// the same question, inputs left alone, options checked.

#include "schedulers/core/rng.hpp"
#include "schedulers/policy/draft_length_policy.hpp"
#include "schedulers/policy/retention_policy.hpp"
#include "schedulers/policy/vision_balancer.hpp"
#include "schedulers/registry/policy_registry.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::sched {
namespace {

const PolicyRegistry& registry() {
  static const PolicyRegistry all = [] {
    PolicyRegistry made;
    register_builtin_policies(made);
    return made;
  }();
  return all;
}

std::unique_ptr<Policy> build(const std::string& kind, const std::string& name) {
  PolicySet set;
  set.kinds[kind].policy = name;
  return registry().build(kind, set).value();
}

/// Asks two instances of every policy of a kind the same.
template <class Kind>
void each(const std::string& kind, const std::function<void(Kind&, Kind&, Rng&)>& check) {
  for (const std::string& name : registry().names(kind)) {
    SCOPED_TRACE(name);
    const auto one = build(kind, name);
    const auto two = build(kind, name);
    Rng rng(59);
    for (int round = 0; round < 200; ++round)
      check(dynamic_cast<Kind&>(*one), dynamic_cast<Kind&>(*two), rng);
  }
}

std::int64_t some(Rng& rng, std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); }

TEST(KindsWithoutStage, DraftLength) {
  std::printf("seed 59\n");
  each<DraftLengthPolicy>("draft_length", [](auto& one, auto& two, Rng& rng) {
    std::vector<std::vector<std::int64_t>> survivals(static_cast<std::size_t>(rng.below(8)));
    std::vector<DraftRow> rows;
    std::vector<std::int64_t> tokens = {some(rng, 50), some(rng, 50)};
    for (auto& of_row : survivals) {
      std::int64_t last = kCertain;
      for (std::uint64_t j = 0; j < rng.below(6); ++j)
        of_row.push_back(last = some(rng, static_cast<std::uint64_t>(last) + 1));
      DraftRow row;
      row.rank = static_cast<std::uint32_t>(rng.below(2));
      row.survivals = of_row;
      ++tokens[row.rank];
      rows.push_back(row);
    }
    std::vector<CostPoint> points;
    for (std::int64_t t = 1; t < 128; t += 1 + some(rng, 9))
      points.push_back({t, 1000 + some(rng, 100'000)});
    const auto frozen = survivals;
    DraftQuery query{rows, tokens, {points}};
    query.costs.captured_max = some(rng, 128);
    query.costs.curve = static_cast<CostCurve>(rng.below(2));
    const auto a = one.choose(query, {});
    const auto b = two.choose(query, {});
    ASSERT_TRUE(validate(a, query).ok());
    ASSERT_EQ(a.value->lengths, b.value->lengths);
    ASSERT_EQ(survivals, frozen);
  });
}

TEST(KindsWithoutStage, VisionBalancer) {
  each<VisionBalancer>("vision_balancer", [](auto& one, auto& two, Rng& rng) {
    std::vector<ImageView> images;
    std::vector<EncoderView> encoders;
    for (std::uint64_t i = 0; i < rng.below(10); ++i)
      images.push_back({{RequestId{i}, Attempt{1}}, 0, some(rng, 9000)});
    for (std::uint32_t i = 0; i < rng.below(4); ++i)
      encoders.push_back({RankId{i * 3}, some(rng, 1ULL << 40), rng.below(5) == 0});
    const VisionQuery query{images, encoders, {}, some(rng, 1ULL << 44)};
    const auto a = one.assign(query, {});
    const auto b = two.assign(query, {});
    ASSERT_TRUE(validate(a, query).ok()) << validate(a, query).error().message;
    ASSERT_EQ(a.value.has_value(), b.value.has_value());
    if (a.value) {
      ASSERT_EQ(a.value->encoders, b.value->encoders);
    }
  });
}

TEST(KindsWithoutStage, Retention) {
  each<RetentionPolicy>("retention", [](auto& one, auto& two, Rng& rng) {
    PolicyContext ctx;
    ctx.now_us = some(rng, 1ULL << 50);
    const StoreQuery query{static_cast<RetentionClass>(rng.below(3)),
                           some(rng, 5),
                           some(rng, 4),
                           some(rng, 1001),
                           some(rng, 1000),
                           some(rng, 1000),
                           some(rng, 1ULL << 60)};
    const auto a = one.store(query, ctx);
    ASSERT_TRUE(validate(a, query).ok()) << validate(a, query).error().message;
    ASSERT_EQ(a.value->expires_us, two.store(query, ctx).value->expires_us);
    const auto nothing = one.evict({}, 100, ctx);
    ASSERT_FALSE(nothing.value.has_value());
    ASSERT_EQ(nothing.reason, Reason::nothing_to_do);
  });
}

TEST(KindsWithoutStage, UnknownAndWrongOptionsAreErrorsThatNameThem) {
  for (const std::string& kind : registry().kinds_without_stage()) {
    for (const std::string& name : registry().names(kind)) {
      PolicySet set;
      set.kinds[kind].policy = name;
      set.kinds[kind].options.set("no_such_option", {std::int64_t{1}, "p.toml:3"});
      const auto built = registry().build(kind, set);
      ASSERT_FALSE(built.ok());
      EXPECT_EQ(built.error().code, ErrorCode::unknown_key);
      EXPECT_NE(built.error().message.find(kind + ".no_such_option"), std::string::npos);
    }
  }
  PolicySet set;
  set.kinds["draft_length"].policy = "by_load";
  set.kinds["draft_length"].options.set("search", {std::string("best"), "p.toml:3"});
  EXPECT_EQ(registry().build("draft_length", set).error().message,
            "p.toml:3: draft_length.search: found \"best\", expected one of \"throughput\", "
            "\"causal\"");
}

} // namespace
} // namespace troupe::sched
