// The lane of shadow policies alone: what it compares, what it drops, and that nobody waits for it.

#include "actors/shadow_lane.hpp"
#include "schedulers/core/rng.hpp"
#include "schedulers/stage/policy_slot.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>

namespace troupe::actors {
namespace {

using sched::testing::balancer_question;
using sched::testing::set_of;
using Slot = sched::PolicySlot<sched::BalancerQuestion>;

constexpr std::chrono::seconds kPatience{30};

/// Placed last, after a nap of a time that the test sets.
class Sleeper final : public sched::DecodeBalancer {
public:
  explicit Sleeper(std::shared_ptr<std::atomic<int>> nap_us) : nap_us_(std::move(nap_us)) {}
  sched::Decision<sched::Placement> place(const sched::PlacementQuery&,
                                          std::span<const sched::RankView> ranks,
                                          const sched::PolicyContext&) noexcept override {
    std::this_thread::sleep_for(std::chrono::microseconds{nap_us_->load()});
    return {sched::Placement{ranks.back().rank.rank, {}}, sched::Reason::only_choice};
  }

private:
  std::shared_ptr<std::atomic<int>> nap_us_;
};

/// A slot whose decisions are offered to a lane.
class LaneBench {
public:
  LaneBench(const std::string& live, const std::string& shadow, std::size_t queue_max = 256) {
    auto registry = std::make_shared<sched::PolicyRegistry>();
    sched::register_builtin_policies(*registry);
    registry->add("decode_balancer", "sleeper",
                  [nap = nap_us](OptionTable) -> Result<std::unique_ptr<sched::Policy>> {
                    return std::unique_ptr<sched::Policy>(std::make_unique<Sleeper>(nap));
                  });
    registry_ = registry;
    set = set_of("set", {{"decode_balancer", live}});
    set.shadow["decode_balancer"].policy = shadow;
    lane = std::make_unique<ShadowLane>(registry_, facts_, queue_max);
    use(set);
  }

  void use(const sched::PolicySet& next) {
    set = next;
    ManagerView view;
    view.live = set;
    facts_->publish(std::move(view));
    lane->use(set);
    slot_ = std::make_unique<Slot>(std::move(*Slot::make(set, *registry_)));
  }

  /// Asks once and offers the record, unless it is to be missing.
  void decide(std::uint64_t seed, bool record = true, std::uint64_t session_hash = 0) {
    std::int64_t invalid = 0;
    const auto answered = slot_->decide(balancer_question(3, seed, session_hash), invalid);
    if (!record) return;
    sched::Effects effects;
    effects.add(slot_->record(answered));
    lane->offer("decode", effects);
  }

  ShadowTotals totals() {
    EXPECT_TRUE(lane->drain(kPatience));
    return facts_->view().shadow["decode_balancer"];
  }

  std::shared_ptr<std::atomic<int>> nap_us = std::make_shared<std::atomic<int>>(0);
  sched::PolicySet set;
  std::unique_ptr<ShadowLane> lane;

private:
  std::shared_ptr<const sched::PolicyRegistry> registry_;
  std::shared_ptr<ManagerFacts> facts_ = std::make_shared<ManagerFacts>();
  std::unique_ptr<Slot> slot_;
};

TEST(ShadowLane, TheSamePolicyAgrees) {
  for (const char* name : {"round_robin", "random", "two_choices", "count_and_kv"}) {
    LaneBench bench(name, name);
    for (std::uint64_t i = 0; i < 200; ++i)
      bench.decide(i);
    const ShadowTotals totals = bench.totals();
    EXPECT_EQ(totals.policy, name);
    EXPECT_EQ(totals.decisions, 200) << name;
    EXPECT_EQ(totals.disagreed, 0) << name;
  }
}

/// A question that was too large to be recorded cannot be asked again: it counts as dropped, and
/// those after it are asked.
TEST(ShadowLane, WhatWasTooLargeToBeKeptIsDroppedAndCounted) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  auto facts = std::make_shared<ManagerFacts>();
  ShadowLane lane(std::make_shared<sched::PolicyRegistry>(registry), facts);
  sched::PolicySet set = set_of("set", {{"expert_placement", "eplb"}});
  set.shadow["expert_placement"].policy = "incremental";
  ManagerView view;
  view.live = set;
  facts->publish(std::move(view));
  lane.use(set);
  auto slot = sched::PolicySlot<sched::ExpertQuestion>::make(set, registry);
  ASSERT_TRUE(slot.ok());
  for (const std::int64_t layers : {2, 6'000, 3}) {
    sched::ExpertQuestion question;
    question.context.seed = 5;
    question.topology = {4, 6, 2, 1, 1};
    question.moves_max = 4;
    question.layers.assign(static_cast<std::size_t>(layers),
                           {{9, 1, 1, 1}, {}, {0, 1, 2, 3, 0, 1}});
    std::int64_t invalid = 0;
    sched::Effects effects;
    effects.add(slot->record(slot->decide(std::move(question), invalid)));
    lane.offer("experts", effects);
  }
  EXPECT_TRUE(lane.drain(kPatience));
  const ShadowTotals totals = facts->view().shadow["expert_placement"];
  EXPECT_EQ(totals.decisions, 2);
  EXPECT_EQ(totals.failed, 0);
  EXPECT_EQ(totals.dropped, 1);
}

// Round robin against a uniform draw of three: they differ in two of three cases.
// 3,000 questions: 2,000 +- 4 deviations of 25.8.
TEST(ShadowLane, ARandomOneDisagreesAsOftenAsChanceSays) {
  std::cout << "seed 7\n";
  Rng rng(7);
  LaneBench bench("round_robin", "random", 4000);
  for (int i = 0; i < 3000; ++i)
    bench.decide(rng.bits());
  const ShadowTotals totals = bench.totals();
  EXPECT_EQ(totals.decisions, 3000);
  EXPECT_NEAR(static_cast<double>(totals.disagreed), 2000.0, 104.0);
}

TEST(ShadowLane, BeginsAgainAfterAGap) {
  LaneBench bench("round_robin", "round_robin");
  for (std::uint64_t i = 0; i < 100; ++i)
    bench.decide(i, i % 5 != 0);
  const ShadowTotals totals = bench.totals();
  EXPECT_EQ(totals.decisions, 80);
  EXPECT_EQ(totals.disagreed, 0) << "the state before each question that follows a gap is taken";
}

TEST(ShadowLane, WhatFindsTheQueueFullIsDroppedAndCounted) {
  LaneBench bench("round_robin", "sleeper", 8);
  *bench.nap_us = 2000;
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 500; ++i)
    bench.decide(i);
  const auto offered = std::chrono::steady_clock::now() - begin;
  *bench.nap_us = 0;
  const ShadowTotals totals = bench.totals();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(offered).count();
  std::cout << "500 questions offered in " << ms << " ms, " << totals.decisions << " asked, "
            << totals.dropped << " dropped\n";
  EXPECT_EQ(totals.decisions + totals.dropped, 500);
  EXPECT_GT(totals.dropped, 0);
  EXPECT_LT(ms, 1000) << "500 naps would take a second";
}

TEST(ShadowLane, AgreesAgainAfterADrop) {
  LaneBench bench("round_robin", "round_robin", 4);
  for (std::uint64_t i = 0; i < 2000; ++i)
    bench.decide(i);
  const ShadowTotals totals = bench.totals();
  EXPECT_EQ(totals.decisions + totals.dropped, 2000);
  EXPECT_EQ(totals.disagreed, 0);
}

TEST(ShadowLane, ANewSetStartsAtNothing) {
  LaneBench bench("round_robin", "round_robin");
  for (std::uint64_t i = 0; i < 10; ++i)
    bench.decide(i);
  EXPECT_EQ(bench.totals().decisions, 10);
  sched::PolicySet next = bench.set;
  next.epoch = PolicyEpoch{2};
  next.shadow["decode_balancer"].policy = "sleeper";
  bench.use(next);
  bench.decide(1);
  const ShadowTotals totals = bench.totals();
  EXPECT_EQ(totals.policy, "sleeper");
  EXPECT_EQ(totals.decisions, 1);
  EXPECT_EQ(totals.disagreed, 1) << "it chooses the last rank, the live one the first";
}

TEST(ShadowLane, WhatACanaryAnsweredIsNotAsked) {
  LaneBench bench("round_robin", "round_robin");
  sched::PolicySet next = bench.set;
  next.epoch = PolicyEpoch{2};
  next.canary["decode_balancer"].policy = "random";
  next.canary_permille = 500;
  bench.use(next);
  std::int64_t canaries = 0;
  for (std::uint64_t session = 1; session <= 300; ++session) {
    canaries += sched::in_canary_share(session, 500) ? 1 : 0;
    bench.decide(session, true, session);
  }
  const ShadowTotals totals = bench.totals();
  EXPECT_GT(canaries, 0);
  EXPECT_EQ(totals.decisions + totals.dropped, 300 - canaries);
  EXPECT_EQ(totals.disagreed, 0);
}

TEST(ShadowLane, OneThatCannotBeBuiltFails) {
  LaneBench bench("round_robin", "nobody");
  for (std::uint64_t i = 0; i < 10; ++i)
    bench.decide(i);
  EXPECT_EQ(bench.totals().failed, 10);
}

TEST(ShadowLane, StopsThoughQuestionsWait) {
  LaneBench bench("round_robin", "sleeper");
  *bench.nap_us = 20'000;
  for (std::uint64_t i = 0; i < 200; ++i)
    bench.decide(i);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(bench.lane->stop(kPatience));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{2});
  bench.decide(1);
  EXPECT_TRUE(bench.lane->stop(kPatience));
}

TEST(ShadowLane, OneThatDoesNotReturnIsLeftAlone) {
  LaneBench bench("round_robin", "sleeper");
  *bench.nap_us = 500'000;
  bench.decide(1);
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  EXPECT_FALSE(bench.lane->stop(std::chrono::milliseconds{20}));
  bench.lane.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds{700}); // Its thread still has its state.
}

} // namespace
} // namespace troupe::actors
