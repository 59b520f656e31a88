// What is stored and what goes first: policies.md section 7.2.

#include "schedulers/core/rng.hpp"
#include "schedulers/policies/retention/by_class.hpp"
#include "schedulers/policies/retention/lru.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace troupe::sched {
namespace {

using Places = std::vector<std::uint32_t>;

constexpr std::int64_t kDayUs = 86'400'000'000;

/// A unit of a chain: `parent` 0 begins one.
RetentionUnit unit(std::uint64_t hash, std::uint64_t parent, std::int64_t children,
                   std::int64_t last_use_us) {
  RetentionUnit made;
  made.hash = hash;
  made.parent = parent;
  made.children = children;
  made.depth = parent == 0 ? 0 : 1;
  made.last_use_us = last_use_us;
  made.expires_us = std::numeric_limits<std::int64_t>::max();
  made.bytes = 100;
  made.saved_ps = 1000;
  return made;
}

PolicyContext at(std::int64_t now_us) {
  PolicyContext ctx;
  ctx.now_us = now_us;
  return ctx;
}

Places evicted(RetentionPolicy& policy, const std::vector<RetentionUnit>& units, std::int64_t bytes,
               std::int64_t now_us = 0) {
  const auto decision = policy.evict(units, bytes, at(now_us));
  EXPECT_TRUE(validate(decision, units, bytes).ok());
  return decision.value ? decision.value->units : Places{};
}

TEST(LruRetention, OldestFirstWithoutReferences) {
  LruRetention policy;
  std::vector<RetentionUnit> units = {unit(1, 0, 0, 50), unit(2, 0, 0, 10), unit(3, 0, 0, 30)};
  EXPECT_EQ(evicted(policy, units, 150), (Places{1, 2}));
  units[1].refs = 1;
  EXPECT_EQ(evicted(policy, units, 150), (Places{2, 0}));
  EXPECT_EQ(policy.evict(units, 300, {}).reason, Reason::no_room) << "less than was needed";
  EXPECT_EQ(policy.evict(units, 0, {}).reason, Reason::nothing_to_do);
  EXPECT_EQ(policy.evict({}, 10, {}).reason, Reason::nothing_to_do);
  for (RetentionUnit& one : units)
    one.refs = 1;
  EXPECT_FALSE(policy.evict(units, 1, {}).value.has_value());
}

//   1 - 2 - 3        the oldest, 1, goes last: 3 before 2 before 1
TEST(RetentionPolicies, ChainsGoFromTheirEnds) {
  LruRetention lru;
  ByClassRetention by_class({});
  std::vector<RetentionUnit> units = {unit(1, 0, 1, 10), unit(2, 1, 1, 20), unit(3, 2, 0, 30)};
  units[2].depth = 2;
  for (RetentionPolicy* policy :
       {static_cast<RetentionPolicy*>(&lru), static_cast<RetentionPolicy*>(&by_class)}) {
    EXPECT_EQ(evicted(*policy, units, 300, 40), (Places{2, 1, 0}));
    EXPECT_EQ(evicted(*policy, units, 101, 40), (Places{2, 1}));
    // A child that is not in the question keeps its parent.
    EXPECT_EQ(evicted(*policy, {units[0], units[1]}, 300, 40), (Places{}));
    std::vector<RetentionUnit> used = units;
    used[2].refs = 1;
    EXPECT_EQ(evicted(*policy, used, 300, 40), (Places{}));
  }
}

TEST(ByClassRetention, ClassesHaveTheirOwnTimeToLive) {
  ByClassRetention policy({});
  const auto until = [&](RetentionClass kind, std::int64_t before = 0) {
    const StoreQuery query{kind, 4, 2, 1000, 10, 1, before};
    const auto decision = policy.store(query, at(kDayUs));
    EXPECT_TRUE(validate(decision, query).ok());
    EXPECT_TRUE(decision.value->store);
    return decision.value->expires_us;
  };
  EXPECT_EQ(until(RetentionClass::agent), 4 * kDayUs);
  EXPECT_EQ(until(RetentionClass::chat), 8 * kDayUs);
  EXPECT_EQ(until(RetentionClass::once), kDayUs + 3'600'000'000);
  EXPECT_EQ(until(RetentionClass::agent, 8 * kDayUs), 8 * kDayUs) << "the latest holder counts";
}

TEST(ByClassRetention, WhatIsStored) {
  ByClassRetention policy({});
  const auto stores = [&](const StoreQuery& query) {
    const auto decision = policy.store(query, {});
    EXPECT_TRUE(validate(decision, query).ok());
    return decision.value->store;
  };
  EXPECT_TRUE(stores({RetentionClass::agent, 2}));
  EXPECT_FALSE(stores({RetentionClass::agent, 1})) << "one unit beyond the hit";
  EXPECT_TRUE(stores({RetentionClass::chat, 2}));
  EXPECT_FALSE(stores({RetentionClass::once, 9, 1, 500, 100, 10})) << "not seen before";
  EXPECT_TRUE(stores({RetentionClass::once, 9, 2, 500, 100, 10}));
  EXPECT_FALSE(stores({RetentionClass::once, 9, 2, 50, 100, 10})) << "5 of saving, 10 of writing";
  EXPECT_FALSE(stores({RetentionClass::agent, 0}));
}

// K14: expiry only makes evictable, and a clock that jumps back expires nothing.
TEST(ByClassRetention, ExpiredFirstThenTheLowestSavingPerByte) {
  ByClassRetention policy({});
  std::vector<RetentionUnit> units = {unit(1, 0, 0, 90), unit(2, 0, 0, 80), unit(3, 0, 0, 99),
                                      unit(4, 0, 0, 99)};
  units[0].expires_us = 95;
  units[1].expires_us = 97;
  units[2].kind = RetentionClass::agent;
  units[3].kind = RetentionClass::chat;
  EXPECT_EQ(evicted(policy, units, 400, 100), (Places{0, 1, 3, 2}));
  EXPECT_EQ(evicted(policy, units, 100, 96), (Places{0}));
  units[0].saved_ps = 3000; // Three times what unit 2 saves; a chat counts four times.
  EXPECT_EQ(evicted(policy, units, 200, 0), (Places{1, 0}));
  units[3].bytes = 1; // Little to gain from a small one.
  EXPECT_EQ(evicted(policy, {units[2], units[3]}, 50, 0), (Places{0}));
}

TEST(ByClassRetention, TheChanceOfReuseFallsWithAge) {
  ByClassRetention policy({});
  std::vector<RetentionUnit> units = {unit(1, 0, 0, 0), unit(2, 0, 0, 6 * kDayUs)};
  for (RetentionUnit& one : units)
    one.kind = RetentionClass::chat;
  EXPECT_EQ(evicted(policy, units, 100, 6 * kDayUs), (Places{0}));
  // 6 of 7 days are 3.43 quarters: a tenth of the chance. Twelve times the saving outweighs it.
  units[0].saved_ps = 12'000;
  EXPECT_EQ(evicted(policy, units, 100, 6 * kDayUs), (Places{1}));
  units[0].saved_ps = 10'000;
  EXPECT_EQ(evicted(policy, units, 100, 6 * kDayUs), (Places{0}));
}

TEST(RetentionPolicies, RandomForestsAreEvictedValidlyAndRepeatably) {
  std::printf("seed 47\n");
  Rng rng(47);
  for (int round = 0; round < 400; ++round) {
    std::vector<RetentionUnit> units;
    const std::uint64_t count = 1 + rng.below(30);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t parent = rng.below(i + 1);
      RetentionUnit made = unit(i + 1, parent, 0, static_cast<std::int64_t>(rng.below(20)));
      made.kind = static_cast<RetentionClass>(rng.below(3));
      made.refs = rng.below(8) == 0 ? 1 : 0;
      made.expires_us = static_cast<std::int64_t>(rng.below(40));
      made.bytes = 1 + static_cast<std::int64_t>(rng.below(9));
      if (parent > 0) {
        made.depth = units[parent - 1].depth + 1;
        ++units[parent - 1].children;
      }
      units.push_back(made);
    }
    const auto bytes = static_cast<std::int64_t>(rng.below(200));
    LruRetention lru;
    ByClassRetention by_class({});
    for (RetentionPolicy* policy :
         {static_cast<RetentionPolicy*>(&lru), static_cast<RetentionPolicy*>(&by_class)}) {
      const auto once = policy->evict(units, bytes, at(20));
      ASSERT_TRUE(validate(once, units, bytes).ok());
      const auto twice = policy->evict(units, bytes, at(20));
      ASSERT_EQ(once.value.has_value(), twice.value.has_value());
      if (once.value) {
        ASSERT_EQ(once.value->units, twice.value->units);
      }
    }
  }
}

TEST(RetentionPolicies, ValidateKnowsTheRules) {
  const std::vector<RetentionUnit> units = {unit(1, 0, 1, 1), unit(2, 1, 0, 2)};
  EXPECT_TRUE(validate({Eviction{{1, 0}, 200}, Reason::lowest_score}, units, 200).ok());
  EXPECT_FALSE(validate({Eviction{{0, 1}, 200}, Reason::lowest_score}, units, 200).ok());
  EXPECT_FALSE(validate({Eviction{{1, 1}, 200}, Reason::lowest_score}, units, 200).ok());
  EXPECT_FALSE(validate({Eviction{{1}, 99}, Reason::lowest_score}, units, 100).ok());
  EXPECT_FALSE(validate({Eviction{{1, 0}, 200}, Reason::lowest_score}, units, 100).ok());
  EXPECT_FALSE(validate({Eviction{{2}, 100}, Reason::lowest_score}, units, 100).ok());
  const StoreQuery query{RetentionClass::chat, 1, 1, 0, 0, 0, 50};
  EXPECT_FALSE(validate({StorePlan{true, 49}, Reason::admitted}, query).ok());
  EXPECT_TRUE(validate({StorePlan{true, 50}, Reason::admitted}, query).ok());
}

} // namespace
} // namespace troupe::sched
