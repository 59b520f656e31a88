// The policies of one stage through a swap: built and rehearsed, switched as one, dropped when
// nobody commits, and what an instance knew goes along to the next one of its name.

#include "schedulers/core/hash.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kDropUs = 1'000'000;

/// Always chooses what the function says.
class Chosen final : public DecodeBalancer {
public:
  explicit Chosen(std::function<Decision<Placement>(std::span<const RankView>)> choose)
      : choose_(std::move(choose)) {}
  Decision<Placement> place(const PlacementQuery&, std::span<const RankView> ranks,
                            const PolicyContext&) noexcept override {
    return choose_(ranks);
  }

private:
  std::function<Decision<Placement>(std::span<const RankView>)> choose_;
};

/// Built-ins, and a balancer that answers with a rank nobody offered.
PolicyRegistry with_liar() {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  registry.add("decode_balancer", "liar", [](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<Chosen>([](auto) {
      return Decision<Placement>{Placement{RankId{99}, {}}, Reason::next_in_turn};
    }));
  });
  return registry;
}

/// A desk of the decode stage at epoch 1.
class DeskBench {
public:
  explicit DeskBench(PolicySet first = set_of("first", {{"decode_balancer", "round_robin"}}),
                     PolicyRegistry registry = with_liar())
      : registry_(std::move(registry)), desk({StageKind::decode, {}}, first, registry_) {}

  DeskBench& prepare(std::uint64_t epoch, PolicySet set, std::int64_t now_us = 0,
                     bool is_live = false) {
    set.epoch = PolicyEpoch{epoch};
    effects.clear();
    desk.on(SwapPrepare{std::move(set), kDropUs, is_live}, now_us, effects);
    return *this;
  }
  DeskBench& commit(std::uint64_t epoch, std::int64_t now_us = 0) {
    effects.clear();
    desk.on(SwapCommit{PolicyEpoch{epoch}}, now_us, effects);
    return *this;
  }
  /// Where a request of two ranks with room goes.
  std::uint32_t place() {
    std::int64_t invalid = 0;
    const auto answered = desk->of<BalancerQuestion>().decide(balancer_question(3), invalid);
    return raw(answered.decision().value->rank);
  }
  std::uint64_t epoch() const { return raw(desk.epoch()); }
  bool said_committed(std::uint64_t epoch) const {
    const auto said = sent<Committed>(effects);
    return said.size() == 1 && said[0].epoch == PolicyEpoch{epoch};
  }
  bool asked_for_the_set() const { return sent<SetRequest>(effects).size() == 1; }

private:
  PolicyRegistry registry_;

public:
  Effects effects;
  SlotDesk<DecodeSlots> desk;
};

PolicySet second() { return set_of("second", {{"decode_balancer", "least_kv"}}); }

TEST(SlotDesk, SwitchesWithTheCommitAndNotBefore) {
  DeskBench bench;
  bench.prepare(2, second());
  ASSERT_EQ(sent<Prepared>(bench.effects).size(), 1U);
  EXPECT_TRUE(sent<Prepared>(bench.effects)[0].ok);
  EXPECT_EQ(bench.epoch(), 1U);
  bench.commit(2);
  EXPECT_TRUE(bench.said_committed(2));
  EXPECT_EQ(bench.epoch(), 2U);
  EXPECT_EQ(bench.desk->of<BalancerQuestion>().epoch(), PolicyEpoch{2}) << "all kinds at once";
  EXPECT_EQ(bench.desk->of<HandoffQuestion>().epoch(), PolicyEpoch{2});
}

TEST(SlotDesk, ARepeatedCommitIsConfirmedAgain) {
  DeskBench bench;
  bench.prepare(2, second()).commit(2);
  for (int i = 0; i < 3; ++i) {
    bench.commit(2);
    EXPECT_TRUE(bench.said_committed(2));
  }
  bench.prepare(2, second());
  EXPECT_TRUE(bench.said_committed(2)) << "a late prepare of what is live";
  bench.commit(1);
  EXPECT_TRUE(bench.effects.list().empty()) << "a commit of an older set changes nothing";
  EXPECT_EQ(bench.epoch(), 2U);
}

TEST(SlotDesk, ASetThatDoesNotBuildIsRefusedWithTheReason) {
  DeskBench bench;
  bench.prepare(2, set_of("broken", {{"decode_balancer", "least_kw"}}));
  const auto said = sent<Prepared>(bench.effects);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_FALSE(said[0].ok);
  EXPECT_NE(said[0].reason.find("least_kv"), std::string::npos) << said[0].reason;
  bench.commit(2);
  EXPECT_TRUE(bench.asked_for_the_set()) << "it has nothing to commit";
  EXPECT_EQ(bench.epoch(), 1U);
}

TEST(SlotDesk, ASetThatAnswersRecentQuestionsWronglyIsRefused) {
  DeskBench bench;
  bench.prepare(2, set_of("liar", {{"decode_balancer", "liar"}}));
  EXPECT_TRUE(sent<Prepared>(bench.effects).at(0).ok) << "nothing was asked yet";
  bench.place();
  bench.prepare(3, set_of("liar", {{"decode_balancer", "liar"}}));
  const Prepared said = sent<Prepared>(bench.effects).at(0);
  EXPECT_FALSE(said.ok);
  for (const char* words : {"decode_balancer", "liar", "asked a question of this run"})
    EXPECT_NE(said.reason.find(words), std::string::npos) << said.reason;
}

TEST(SlotDesk, TheRehearsalSpendsNothingOfTheLiveSet) {
  DeskBench bench;
  EXPECT_EQ(bench.place(), 0U);
  EXPECT_EQ(bench.place(), 1U);
  bench.prepare(2, set_of("again", {{"decode_balancer", "round_robin"}}));
  EXPECT_EQ(bench.place(), 2U) << "the turn goes on";
  bench.commit(2);
  EXPECT_EQ(bench.place(), 0U) << "and over the swap";
}

TEST(SlotDesk, AnAbortForgetsThePreparedSet) {
  DeskBench bench;
  bench.prepare(2, second());
  bench.desk.on(SwapAbort{PolicyEpoch{3}});
  bench.desk.on(SwapAbort{PolicyEpoch{2}});
  bench.commit(2);
  EXPECT_TRUE(bench.asked_for_the_set());
  EXPECT_EQ(bench.epoch(), 1U);
}

TEST(SlotDesk, AnAbortOfAnotherSetKeepsIt) {
  DeskBench bench;
  bench.prepare(2, second());
  bench.desk.on(SwapAbort{PolicyEpoch{3}});
  bench.commit(2);
  EXPECT_EQ(bench.epoch(), 2U);
}

TEST(SlotDesk, APreparedSetWithoutCommitIsDroppedInTheEnd) {
  DeskBench at_the_end;
  at_the_end.prepare(2, second(), 0).commit(2, kDropUs);
  EXPECT_EQ(at_the_end.epoch(), 2U);
  DeskBench late;
  late.prepare(2, second(), 0).commit(2, kDropUs + 1);
  EXPECT_TRUE(late.asked_for_the_set());
  EXPECT_EQ(late.epoch(), 1U);
}

/// Tells a library source when instances go.
class Counted final : public HandoffPolicy {
public:
  explicit Counted(std::shared_ptr<int> alive) : alive_(std::move(alive)) { ++*alive_; }
  ~Counted() override { --*alive_; }
  Decision<HandoffPlan> plan(const HandoffQuery&, const PolicyContext&) noexcept override {
    return {HandoffPlan{}, Reason::only_choice};
  }

private:
  std::shared_ptr<int> alive_;
};

TEST(SlotDesk, ADroppedSetLetsItsInstancesGo) {
  const auto alive = std::make_shared<int>(0);
  PolicyRegistry registry = with_liar();
  registry.add("handoff", "counted", [alive](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<Counted>(alive));
  });
  DeskBench bench({}, std::move(registry));
  bench.prepare(2, set_of("counted", {{"handoff", "counted"}}));
  EXPECT_EQ(*alive, 1) << "the rehearsal's is gone already";
  const auto set = asked<SetTimer>(bench.effects);
  ASSERT_EQ(set.size(), 1U);
  bench.desk.on(Timer{TimerKind::swap, set[0].key}, set[0].due_us - 1);
  EXPECT_EQ(*alive, 1);
  bench.desk.on(Timer{TimerKind::swap, set[0].key}, set[0].due_us);
  EXPECT_EQ(*alive, 0);
}

TEST(SlotDesk, AnOlderPrepareDoesNotTakeThePlaceOfANewerOne) {
  DeskBench bench;
  bench.prepare(3, second()).prepare(2, set_of("late", {{"decode_balancer", "random"}}));
  EXPECT_TRUE(bench.effects.list().empty());
  bench.commit(3);
  EXPECT_EQ(bench.epoch(), 3U);
}

TEST(SlotDesk, ARepeatedPrepareIsAnsweredAgain) {
  DeskBench bench;
  bench.prepare(2, second(), 0).prepare(2, second(), kDropUs);
  EXPECT_TRUE(sent<Prepared>(bench.effects).at(0).ok);
  bench.commit(2, 2 * kDropUs);
  EXPECT_EQ(bench.epoch(), 2U) << "the time to drop it counts from the last one";
}

TEST(SlotDesk, WhatIsLiveElsewhereIsTakenAtOnceWhateverWasAskedLately) {
  DeskBench bench;
  bench.place();
  bench.prepare(2, set_of("liar", {{"decode_balancer", "liar"}}), 0, true);
  EXPECT_TRUE(bench.said_committed(2));
  EXPECT_EQ(bench.epoch(), 2U);
  std::int64_t invalid = 0;
  bench.effects.clear();
  const auto answered = bench.desk.decide(balancer_question(3), invalid, bench.effects);
  EXPECT_EQ(invalid, 1);
  EXPECT_EQ(answered.decision().reason, Reason::replaced_invalid);
  const PolicyFault fault = sent<PolicyFault>(bench.effects).at(0);
  EXPECT_EQ(fault.epoch, PolicyEpoch{2});
  EXPECT_EQ(fault.policy, "liar");
}

TEST(SlotDesk, WhatIsLiveElsewhereAndDoesNotBuildIsToldAndChangesNothing) {
  DeskBench bench;
  bench.prepare(2, set_of("broken", {{"handoff", "nobody"}}), 0, true);
  EXPECT_FALSE(sent<Prepared>(bench.effects).at(0).ok);
  EXPECT_TRUE(sent<Committed>(bench.effects).empty());
  EXPECT_EQ(bench.epoch(), 1U);
}

TEST(SlotDesk, CatchingUpKeepsANewerSetThatIsPrepared) {
  DeskBench bench;
  bench.prepare(3, second()).prepare(2, set_of("live", {}), 0, true);
  EXPECT_EQ(bench.epoch(), 2U);
  bench.commit(3);
  EXPECT_EQ(bench.epoch(), 3U);
}

TEST(SlotDesk, CatchingUpUsesWhatWasPrepared) {
  DeskBench bench;
  bench.prepare(2, second()).prepare(2, second(), 0, true);
  EXPECT_TRUE(bench.said_committed(2));
}

// -- state -------------------------------------------------------------------------------------

TEST(SlotDesk, TheTurnOfRoundRobinOutlivesAnySwapToItself) {
  DeskBench bench;
  for (std::uint64_t epoch = 2; epoch <= 20; ++epoch) {
    EXPECT_EQ(bench.place(), (epoch - 2) % 3) << "epoch " << epoch;
    bench.prepare(epoch, set_of("again", {{"decode_balancer", "round_robin"}})).commit(epoch);
  }
}

TEST(SlotDesk, AnotherPolicyBeginsFresh) {
  DeskBench bench;
  bench.place();
  bench.prepare(2, second()).commit(2);
  bench.prepare(3, set_of("again", {{"decode_balancer", "round_robin"}})).commit(3);
  EXPECT_EQ(bench.place(), 0U);
}

/// A request of `tenant`.
RequestView request_of(const char* tenant, std::uint64_t id) {
  RequestView view;
  view.ref = ref(id);
  view.tenant_hash = hash64(tenant);
  view.arrival_us = static_cast<std::int64_t>(id);
  view.prompt = 10;
  view.new_tokens_max = 4;
  view.work_ps = 1'000'000;
  return view;
}

/// Tells the queue policy that `count` requests of `tenant` came and were served.
void serve(SlotDesk<PrefillSlots>& desk, const char* tenant, std::uint64_t count) {
  for (std::uint64_t id = 1; id <= count; ++id) {
    for (const QueueEvent event : {QueueEvent::entered, QueueEvent::served}) {
      desk->of<QueueQuestion>().observe([&](QueuePolicy& policy) {
        observe(policy, {{}, request_of(tenant, id), event});
      });
    }
  }
}

// R10: the same policy with another weight goes on with the accounts of the one before it. Tenant a
// was served ten requests and b none, so b is next, also after the swap; a fresh instance would
// begin with a, who came first.
TEST(SlotDesk, R10_AnotherWeightKeepsTheAccounts) {
  const auto question = [] {
    QueueQuestion made;
    made.waiting = {request_of("a", 100), request_of("b", 101)};
    return made;
  };
  const auto first = [&](SlotDesk<PrefillSlots>& desk) {
    std::int64_t invalid = 0;
    return desk->of<QueueQuestion>().decide(question(), invalid).decision().value->positions.at(0);
  };
  SlotDesk<PrefillSlots> desk({StageKind::prefill, {}}, fair_set("A", 1.0), builtins());
  // b waits all along, so that a cannot save up.
  desk->of<QueueQuestion>().observe([&](QueuePolicy& policy) {
    observe(policy, {{}, request_of("b", 50), QueueEvent::entered});
  });
  serve(desk, "a", 10);
  ASSERT_EQ(first(desk), 1U);
  PolicySet again = fair_set("A", 2.0);
  again.epoch = PolicyEpoch{2};
  Effects effects;
  desk.on(SwapPrepare{again, kDropUs, false}, 0, effects);
  desk.on(SwapCommit{again.epoch}, 0, effects);
  ASSERT_EQ(desk.epoch(), PolicyEpoch{2});
  EXPECT_EQ(first(desk), 1U);
  SlotDesk<PrefillSlots> fresh({StageKind::prefill, {}}, again, builtins());
  EXPECT_EQ(first(fresh), 0U) << "the test can fail";
}

TEST(SlotDesk, AStageThatBeginsTellsItsSet) {
  DeskBench bench;
  bench.desk.announce(bench.effects);
  const auto told = sent<SetRequest>(bench.effects);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].epoch, PolicyEpoch{1});
  EXPECT_EQ(told[0].stage, (StageRef{StageKind::decode, {}}));
}

} // namespace
} // namespace troupe::sched::testing
