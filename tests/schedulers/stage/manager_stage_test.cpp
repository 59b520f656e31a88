// The policy manager alone: what it says to stages that answer, refuse, are silent, come and go;
// where rollbacks lead; what the guardrails end.

#include "schedulers/stage/manager_stage.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kTimeout = 5'000'000;
constexpr std::int64_t kAgain = 200'000;
constexpr std::int64_t kWindow = 30'000'000;

const StageRef kDriver{StageKind::driver, {}};
const StageRef kPrefill{StageKind::prefill, {}};
const StageRef kDecode{StageKind::decode, {}};

StageRef rank_stage(std::uint32_t rank, std::uint32_t life = 1) {
  return {StageKind::rank, rank_ref(rank, life)};
}

PolicySet fast() { return set_of("fast", {{"decode_balancer", "least_kv"}}); }
PolicySet fair() { return set_of("fair", {{"queue", "weighted_fair"}}); }

PolicySet on_probation(PolicySet set) {
  set.probation = ProbationSpec{};
  return set;
}

ManagerOptions options_of(std::int64_t history_max = 64) {
  ManagerOptions options;
  options.history_max = history_max;
  options.invalid_decisions_max = 3;
  return options;
}

/// A manager whose stages answer as the test says; rank 0 is known.
class ManagerBench {
public:
  explicit ManagerBench(PolicySet first = {}, ManagerOptions options = options_of())
      : stage(options, std::move(first), 0) {
    stage.start(0, effects);
    on(SetRequest{rank_stage(0), stage.live().epoch});
    effects.clear();
  }

  template <class E>
  ManagerBench& on(const E& event) {
    keep();
    effects.clear();
    stage.on(event, now_us, effects);
    for (SwapEnded& one : stage.take_ended())
      ended.push_back(std::move(one));
    return *this;
  }
  ManagerBench& ask(const PolicySet& set, std::uint64_t question = 1) {
    return on(SwapAsked{question, set, SwapCause::command, "because"});
  }
  ManagerBench& roll_back(std::uint64_t question = 2) {
    return on(RollbackAsked{question, "a person's words"});
  }
  /// The timer that the last event asked for.
  ManagerBench& wake(std::int64_t later_us, TimerKind kind = TimerKind::swap) {
    keep();
    now_us += later_us;
    return on(Timer{kind, kind == TimerKind::swap ? swap_key_ : window_key_});
  }
  ManagerBench& prepared(const StageRef& from, bool ok = true, const std::string& why = {}) {
    return on(Prepared{from, asked_epoch(), ok, why});
  }
  ManagerBench& committed(const StageRef& from) { return on(Committed{from, stage.live().epoch}); }
  ManagerBench& all_prepare(const std::vector<StageRef>& stages = everybody()) {
    const PolicyEpoch epoch = asked_epoch();
    for (const StageRef& one : stages)
      on(Prepared{one, epoch, true, {}});
    return *this;
  }
  ManagerBench& all_commit(const std::vector<StageRef>& stages = everybody()) {
    for (const StageRef& one : stages)
      committed(one);
    return *this;
  }
  /// A whole swap, as it goes when nothing is wrong.
  ManagerBench& swap_to(const PolicySet& set) { return ask(set).all_prepare().all_commit(); }
  ManagerBench& go_back() { return roll_back().all_prepare().all_commit(); }

  /// Ends `count` requests and then the window.
  ManagerBench& window(std::int64_t count, RequestEnded request) {
    for (std::int64_t i = 0; i < count; ++i)
      on(request);
    return wake(kWindow, TimerKind::probation);
  }

  static std::vector<StageRef> everybody() { return {kDriver, kPrefill, kDecode, rank_stage(0)}; }
  std::uint64_t epoch() const { return raw(stage.live().epoch); }
  const std::string& name() const { return stage.live().name; }
  /// Of the set that stages were asked to prepare last.
  PolicyEpoch asked_epoch() {
    for (const SwapPrepare& one : sent<SwapPrepare>(effects)) {
      if (!one.is_live) asked_ = one.set.epoch;
    }
    return asked_;
  }

  Effects effects;
  ManagerStage stage;
  std::vector<SwapEnded> ended;
  std::int64_t now_us = 0;

private:
  void keep() {
    asked_epoch();
    for (const Timer& timer : timers(effects, TimerKind::swap))
      swap_key_ = timer.key;
    for (const Timer& timer : timers(effects, TimerKind::probation))
      window_key_ = timer.key;
  }

  PolicyEpoch asked_{};
  std::uint64_t swap_key_ = 0;
  std::uint64_t window_key_ = 1; ///< Of the first window.
};

// -- two phases --------------------------------------------------------------------------------

TEST(ManagerStage, ASetGoesLiveWhenEverybodyHasIt) {
  ManagerBench bench;
  bench.ask(fast());
  EXPECT_EQ(sent<SwapPrepare>(bench.effects).size(), 4U);
  EXPECT_EQ(bench.asked_epoch(), PolicyEpoch{2});
  bench.all_prepare({kDriver, kPrefill, kDecode});
  EXPECT_EQ(bench.epoch(), 1U) << "one is missing";
  bench.prepared(rank_stage(0));
  EXPECT_EQ(sent<SwapCommit>(bench.effects).size(), 4U);
  EXPECT_EQ(bench.epoch(), 2U);
  EXPECT_TRUE(bench.ended.empty());
  bench.all_commit();
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_TRUE(bench.ended[0].ok);
  EXPECT_EQ(bench.ended[0].question, 1U);
  EXPECT_EQ(bench.ended[0].epoch, PolicyEpoch{2});
  EXPECT_EQ(bench.ended[0].name, "fast");
  EXPECT_EQ(bench.ended[0].reason, "because");
}

TEST(ManagerStage, ARefusalAbortsItEverywhereAndSaysWhoAndWhy) {
  ManagerBench bench;
  bench.ask(fast()).prepared(kDriver).prepared(kDecode, false, "decode_balancer: no such thing");
  EXPECT_EQ(sent<SwapAbort>(bench.effects).size(), 4U);
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_FALSE(bench.ended[0].ok);
  EXPECT_EQ(bench.ended[0].epoch, PolicyEpoch{1});
  EXPECT_EQ(bench.ended[0].name, "default");
  EXPECT_EQ(bench.ended[0].reason, "decode: decode_balancer: no such thing");
  bench.prepared(kPrefill).prepared(rank_stage(0));
  EXPECT_EQ(bench.epoch(), 1U) << "late answers of a swap that is over";
}

TEST(ManagerStage, SilenceAbortsAndNamesTheSilent) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare({kDriver, kPrefill}).wake(kTimeout);
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_FALSE(bench.ended[0].ok);
  EXPECT_EQ(bench.ended[0].reason, "decode, rank 0 did not answer within policies.swap_timeout_ms");
  EXPECT_EQ(sent<SwapAbort>(bench.effects).size(), 4U);
}

TEST(ManagerStage, EpochsAreNeverGivenTwice) {
  ManagerBench bench;
  bench.ask(fast()).prepared(kDriver, false, "no");
  bench.ask(fast());
  EXPECT_EQ(bench.asked_epoch(), PolicyEpoch{3});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.epoch(), 3U);
}

TEST(ManagerStage, ACommitIsRepeatedToThoseWhoDidNotConfirm) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare().all_commit({kDriver, kPrefill});
  bench.wake(kAgain);
  EXPECT_EQ(sent<SwapCommit>(bench.effects).size(), 2U);
  bench.wake(kAgain);
  EXPECT_EQ(sent<SwapCommit>(bench.effects).size(), 2U);
  EXPECT_TRUE(bench.ended.empty());
  bench.all_commit({kDecode, rank_stage(0)});
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_TRUE(bench.ended[0].ok);
}

TEST(ManagerStage, ALateStageDoesNotHoldTheAnswerAndIsTakenAlong) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare().all_commit({kDriver, kPrefill, kDecode});
  bench.wake(kTimeout);
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_TRUE(bench.ended[0].ok);
  EXPECT_EQ(bench.ended[0].reason,
            "because; rank 0 did not confirm yet and switches at its next event");
  bench.wake(kAgain);
  EXPECT_EQ(sent<SwapCommit>(bench.effects).size(), 1U) << "it hears it until it answers";
  bench.on(SetRequest{rank_stage(0), PolicyEpoch{1}});
  const auto again = sent<SwapPrepare>(bench.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].is_live);
  EXPECT_EQ(again[0].set.epoch, PolicyEpoch{2});
  bench.committed(rank_stage(0)).wake(kAgain);
  EXPECT_TRUE(bench.effects.list().empty());
}

TEST(ManagerStage, AStageThatMissedACommitHearsItThoughTheNextSwapFails) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare().all_commit({kDriver, kPrefill, kDecode}).wake(kTimeout);
  bench.ask(fair(), 2).prepared(kDriver, false, "no");
  ASSERT_EQ(bench.ended.size(), 2U);
  bench.wake(kAgain);
  const auto commits = sent<SwapCommit>(bench.effects);
  ASSERT_EQ(commits.size(), 1U);
  EXPECT_EQ(commits[0].epoch, PolicyEpoch{2});
}

TEST(ManagerStage, AnOldConfirmationDoesNotTakeAStageBack) {
  ManagerBench bench;
  bench.swap_to(fast()).swap_to(fair());
  bench.on(Committed{kDriver, PolicyEpoch{2}});
  bench.ask(fast());
  EXPECT_TRUE(sent<SwapCommit>(bench.wake(kAgain / 2).effects).empty());
}

TEST(ManagerStage, AStageThatCannotTakeTheLiveSetIsNamed) {
  ManagerBench bench;
  bench.swap_to(fast()).on(Prepared{rank_stage(0), PolicyEpoch{2}, false, "the library is gone"});
  ASSERT_EQ(bench.stage.faults().size(), 1U);
  EXPECT_EQ(bench.stage.faults()[0].fault.what, "cannot take the live set: the library is gone");
  EXPECT_EQ(bench.epoch(), 2U);
}

// -- lives of ranks ----------------------------------------------------------------------------

TEST(ManagerStage, ARankThatDiesWhileItPreparesIsNotWaitedFor) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare({kDriver, kPrefill, kDecode});
  bench.on(RankDown{rank_ref(0), ErrorCode::rank_lost, true});
  EXPECT_EQ(bench.epoch(), 2U);
  EXPECT_EQ(sent<SwapCommit>(bench.effects).size(), 3U);
}

TEST(ManagerStage, ANewLifeHasToPrepareToo) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare({kDriver, kPrefill, kDecode});
  bench.on(SetRequest{rank_stage(0, 2), PolicyEpoch{1}});
  EXPECT_EQ(bench.epoch(), 1U) << "the old life is forgotten, the new one has a say";
  const auto prepares = sent<SwapPrepare>(bench.effects);
  ASSERT_EQ(prepares.size(), 1U);
  EXPECT_FALSE(prepares[0].is_live);
  bench.all_prepare({rank_stage(0)});
  EXPECT_EQ(bench.epoch(), 1U) << "the old life says nothing more";
  bench.all_prepare({rank_stage(0, 2)});
  EXPECT_EQ(bench.epoch(), 2U);
}

TEST(ManagerStage, ANewLifeBuiltFromTheSetBeforeJoinsDuringTheCommit) {
  ManagerBench bench;
  bench.ask(fast()).all_prepare();
  bench.on(RankDown{rank_ref(0), ErrorCode::rank_lost, true});
  bench.on(SetRequest{rank_stage(0, 2), PolicyEpoch{1}});
  ASSERT_EQ(sent<SwapPrepare>(bench.effects).size(), 1U);
  EXPECT_TRUE(sent<SwapPrepare>(bench.effects)[0].is_live);
  bench.all_commit({kDriver, kPrefill, kDecode});
  EXPECT_TRUE(bench.ended.empty());
  bench.committed(rank_stage(0, 2));
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_TRUE(bench.ended[0].ok);
}

TEST(ManagerStage, ANewLifeBuiltFromTheLiveSetNeedsNothing) {
  ManagerBench bench;
  bench.swap_to(fast()).on(SetRequest{rank_stage(1), PolicyEpoch{2}});
  EXPECT_TRUE(bench.effects.list().empty());
}

TEST(ManagerStage, ALifeBehindTheLiveSetDoesNotEndTheTimeToPrepareEarly) {
  ManagerBench bench;
  bench.swap_to(fast()).ask(fair(), 2);
  bench.on(SetRequest{rank_stage(1), PolicyEpoch{1}});
  EXPECT_EQ(sent<SwapPrepare>(bench.effects).size(), 2U) << "the live one and the next one";
  bench.wake(kAgain);
  EXPECT_EQ(bench.ended.size(), 1U) << "nobody gave up yet";
  EXPECT_TRUE(sent<SwapAbort>(bench.effects).empty());
  bench.wake(kTimeout);
  EXPECT_EQ(bench.ended.size(), 2U);
}

TEST(ManagerStage, WhatADeadLifeStillSaysChangesNothing) {
  ManagerBench bench;
  bench.on(RankDown{rank_ref(0), ErrorCode::rank_lost, false});
  bench.on(SetRequest{rank_stage(0), PolicyEpoch{1}});
  bench.ask(fast()).all_prepare({kDriver, kPrefill, kDecode});
  EXPECT_EQ(bench.epoch(), 2U) << "it is not waited for";
  ManagerBench other;
  other.on(SetRequest{rank_stage(0, 3), PolicyEpoch{1}});
  other.on(SetRequest{rank_stage(0, 2), PolicyEpoch{1}});
  other.ask(fast());
  EXPECT_EQ(sent<SwapPrepare>(other.effects).size(), 4U);
}

// -- asks --------------------------------------------------------------------------------------

TEST(ManagerStage, AsksWaitForEachOtherInOrder) {
  ManagerBench bench;
  bench.ask(fast(), 1).ask(fair(), 2);
  EXPECT_TRUE(sent<SwapPrepare>(bench.effects).empty());
  EXPECT_EQ(bench.asked_epoch(), PolicyEpoch{2});
  bench.on(Prepared{kDriver, PolicyEpoch{2}, false, "no"});
  ASSERT_EQ(bench.ended.size(), 1U);
  EXPECT_EQ(bench.ended[0].question, 1U);
  bench.all_prepare().all_commit();
  ASSERT_EQ(bench.ended.size(), 2U);
  EXPECT_EQ(bench.ended[1].question, 2U);
  EXPECT_EQ(bench.name(), "fair");
}

TEST(ManagerStage, TooManyAsksAreRefusedAtOnce) {
  ManagerBench bench;
  for (std::uint64_t i = 1; i <= 20; ++i)
    bench.ask(fast(), i);
  ASSERT_EQ(bench.ended.size(), 3U) << "one is under way, 16 wait";
  EXPECT_EQ(bench.ended[0].question, 18U);
  EXPECT_FALSE(bench.ended[0].ok);
  EXPECT_NE(bench.ended[0].reason.find("ask again later"), std::string::npos);
}

TEST(ManagerStage, AnAskThatWaitedTooLongIsGivenUp) {
  ManagerBench bench;
  bench.ask(fast(), 1).ask(fair(), 2);
  bench.wake(5 * kTimeout);
  ASSERT_EQ(bench.ended.size(), 2U);
  EXPECT_EQ(bench.ended[1].question, 2U);
  EXPECT_FALSE(bench.ended[1].ok);
}

// -- history and rollback ----------------------------------------------------------------------

TEST(ManagerStage, RollbacksWalkBackOneSetAtATime) {
  ManagerBench bench;
  bench.swap_to(fast()).swap_to(fair());
  bench.go_back();
  EXPECT_EQ(bench.name(), "fast");
  EXPECT_EQ(bench.epoch(), 4U) << "with an epoch of its own";
  EXPECT_EQ(bench.ended.back().cause, SwapCause::rollback);
  bench.go_back();
  EXPECT_EQ(bench.name(), "default");
  bench.roll_back();
  EXPECT_FALSE(bench.ended.back().ok);
  EXPECT_NE(bench.ended.back().reason.find("nothing to go back to"), std::string::npos);
}

TEST(ManagerStage, ARollbackOfTheFirstSetLeadsToTheCompiledInOne) {
  ManagerBench bench(fast());
  bench.go_back();
  EXPECT_EQ(bench.name(), "default");
  EXPECT_TRUE(bench.stage.live().kinds.empty());
  EXPECT_FALSE(bench.stage.on_probation());
}

// As when its library was replaced and the old bytes are gone.
TEST(ManagerStage, ASetThatIsRefusedOnTheWayBackIsPassedOver) {
  ManagerBench bench;
  bench.swap_to(fast()).swap_to(fair()).swap_to(set_of("last", {{"queue", "sjf"}}));
  bench.roll_back(7).prepared(kDecode, false, "the library is gone");
  EXPECT_EQ(sent<SwapAbort>(bench.effects).size(), 4U) << "nobody keeps the set that is refused";
  EXPECT_EQ(sent<SwapPrepare>(bench.effects).size(), 4U);
  EXPECT_EQ(sent<SwapPrepare>(bench.effects)[0].set.name, "fast");
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
  const SwapEnded& ended = bench.ended.back();
  EXPECT_EQ(ended.question, 7U);
  EXPECT_TRUE(ended.ok);
  EXPECT_EQ(ended.reason,
            "a person's words; \"fair\" was passed over: decode: the library is gone");
  EXPECT_EQ(bench.stage.history().back().reason, ended.reason);
}

TEST(ManagerStage, TheCompiledInSetIsTheLastOneOnTheWayBack) {
  ManagerBench bench(fast());
  bench.swap_to(fair()).swap_to(set_of("last", {{"queue", "sjf"}}));
  bench.roll_back().prepared(kDecode, false, "no").prepared(kPrefill, false, "neither");
  bench.all_prepare().all_commit();
  EXPECT_TRUE(bench.ended.back().ok);
  EXPECT_EQ(bench.name(), PolicySet{}.name);
  EXPECT_TRUE(bench.stage.live().kinds.empty());
  // Silence is no refusal: the set may be taken the next time.
  bench.swap_to(fast()).swap_to(fair()).roll_back().wake(kTimeout);
  EXPECT_FALSE(bench.ended.back().ok);
  bench.go_back();
  EXPECT_EQ(bench.name(), "fast");
}

TEST(ManagerStage, ASetThatDidNotPassIsNoGoal) {
  ManagerBench bench(fast());
  bench.swap_to(on_probation(fair()));
  EXPECT_TRUE(bench.stage.on_probation());
  bench.swap_to(on_probation(set_of("third", {}))).go_back();
  EXPECT_EQ(bench.name(), "fast") << "a swap during probation replaces the set on probation";
}

TEST(ManagerStage, APromotedSetIsAGoal) {
  ManagerBench bench(fast());
  bench.swap_to(on_probation(fair()));
  bench.on(PromoteAsked{7});
  EXPECT_TRUE(bench.ended.back().ok);
  EXPECT_EQ(bench.ended.back().question, 7U);
  EXPECT_FALSE(bench.stage.on_probation());
  bench.on(PromoteAsked{8});
  EXPECT_FALSE(bench.ended.back().ok) << "nothing is on probation";
  bench.swap_to(set_of("third", {})).go_back();
  EXPECT_EQ(bench.name(), "fair");
}

TEST(ManagerStage, ARollbackThatWaitsTakesBackWhatIsLiveThen) {
  ManagerBench bench(fast());
  bench.ask(fair(), 1).roll_back(2).all_prepare().all_commit().all_prepare().all_commit();
  EXPECT_EQ(bench.ended.size(), 2U);
  EXPECT_EQ(bench.name(), "fast");
}

TEST(ManagerStage, TheHistoryIsBoundedAndTheLastOneIsLive) {
  ManagerBench bench({}, options_of(4));
  for (int i = 0; i < 20; ++i)
    bench.swap_to(set_of("set " + std::to_string(i), {{"queue", "sjf"}}));
  const auto& history = bench.stage.history();
  ASSERT_EQ(history.size(), 4U);
  EXPECT_EQ(history.back().set.name, "set 19");
  EXPECT_EQ(history.back().to_us, 0);
  EXPECT_EQ(history.front().set.name, "set 16");
  for (int i = 18; i >= 15; --i) {
    bench.go_back();
    EXPECT_EQ(bench.name(), "set " + std::to_string(i));
  }
  bench.go_back();
  EXPECT_EQ(bench.name(), "default") << "older ones are forgotten";
}

// -- probation ---------------------------------------------------------------------------------

const RequestEnded kUsual{true, 100'000, 10'000, 0};

/// A manager whose window before the swap had 60 usual requests; fair() is on probation.
struct ProbationBench : ManagerBench {
  ProbationBench() : ManagerBench(fast()) {
    window(60, kUsual);
    swap_to(on_probation(fair()));
  }
};

/// What the guardrails say to a window of such requests; "" when the set passes.
std::string verdict(std::int64_t count, RequestEnded request) {
  ProbationBench bench;
  bench.window(count, request);
  if (!bench.stage.on_probation()) return {};
  const std::size_t before = bench.ended.size();
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
  EXPECT_EQ(bench.ended.size(), before + 1);
  EXPECT_EQ(bench.ended.back().question, 0U) << "nobody asked";
  EXPECT_EQ(bench.ended.back().cause, SwapCause::rollback);
  EXPECT_EQ(bench.stage.history().back().reason, bench.ended.back().reason);
  return bench.ended.back().reason;
}

TEST(Probation, ASetThatIsNoWorsePasses) {
  EXPECT_EQ(verdict(60, kUsual), "");
  EXPECT_EQ(verdict(60, {true, 150'000, 15'000, 0}), "") << "at the limits, not beyond";
}

TEST(Probation, EachGuardrailBringsTheLastSetBack) {
  EXPECT_EQ(verdict(60, {true, 150'001, 10'000, 0}),
            "probation of \"fair\": TTFT p95 went from 100000 to 150001 us, more than 1.50 times");
  EXPECT_EQ(verdict(60, {true, 100'000, 15'001, 0}),
            "probation of \"fair\": TPOT p95 went from 10000 to 15001 us, more than 1.50 times");
  EXPECT_NE(verdict(60, {false, 100'000, 10'000, 0}).find("goodput went from 2000 to 0"),
            std::string::npos);
  // 50 in a thousand count as none; 2 times that is allowed.
  EXPECT_NE(verdict(60, {true, 100'000, 10'000, 1}).find("preemptions went from 0 to 1000"),
            std::string::npos);
}

TEST(Probation, TooFewRequestsSayNothingYet) {
  ProbationBench bench;
  bench.window(10, {true, 900'000, 10'000, 0});
  EXPECT_TRUE(bench.stage.on_probation());
  bench.window(40, {true, 900'000, 10'000, 0});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast") << "both windows together are enough";
}

TEST(Probation, AQuietSystemPassesInTheEnd) {
  ProbationBench bench;
  for (int i = 0; i < 9; ++i) {
    bench.window(1, kUsual);
    EXPECT_TRUE(bench.stage.on_probation()) << i;
  }
  bench.window(1, kUsual);
  EXPECT_FALSE(bench.stage.on_probation());
}

TEST(Probation, WithoutAWindowASetPassesAtOnce) {
  ManagerBench bench(fast());
  bench.swap_to(fair());
  EXPECT_FALSE(bench.stage.on_probation());
}

TEST(Probation, ASwapDuringProbationIsComparedWithTheLastSetThatPassed) {
  ProbationBench bench;
  for (int i = 0; i < 60; ++i)
    bench.on(RequestEnded{true, 900'000, 10'000, 0});
  bench.swap_to(on_probation(set_of("third", {{"queue", "sjf"}})));
  bench.window(60, {true, 800'000, 10'000, 0});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast") << "better than the second, worse than the first";
}

TEST(Probation, ABreachWhileAnotherSwapIsUnderWayIsMootWhenThatOneGoesLive) {
  ProbationBench bench;
  bench.ask(on_probation(set_of("third", {{"queue", "sjf"}})), 9);
  bench.window(60, {true, 900'000, 10'000, 0});
  EXPECT_TRUE(sent<SwapPrepare>(bench.effects).empty());
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "third");
  ASSERT_GE(bench.ended.size(), 2U);
  EXPECT_FALSE(bench.ended.back().ok);
  EXPECT_NE(bench.ended.back().reason.find("another set went live"), std::string::npos);
}

TEST(Probation, ABreachWhileAnotherSwapIsUnderWayCountsWhenThatOneFails) {
  ProbationBench bench;
  bench.ask(set_of("third", {{"queue", "sjf"}}), 9);
  const PolicyEpoch third = bench.asked_epoch();
  bench.window(60, {true, 900'000, 10'000, 0});
  bench.on(Prepared{kDriver, third, false, "no"});
  bench.all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
}

// -- faults ------------------------------------------------------------------------------------

PolicyFault fault_of(std::uint64_t epoch, const char* what = "chose a rank that was not offered") {
  return {kDecode, PolicyEpoch{epoch}, "decode_balancer", "liar", what};
}

TEST(ManagerStage, TooManyDecisionsThatDoNotCountBringTheLastSetBack) {
  ManagerBench bench(fast());
  bench.swap_to(fair());
  for (int i = 0; i < 3; ++i)
    bench.on(fault_of(2));
  EXPECT_TRUE(sent<SwapPrepare>(bench.effects).empty()) << "three are allowed";
  ASSERT_EQ(bench.stage.faults().size(), 1U);
  EXPECT_EQ(bench.stage.faults()[0].times, 3);
  bench.on(fault_of(2)).all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
  EXPECT_EQ(bench.ended.back().reason,
            "4 decisions of \"fair\" did not count within 60 s, the last one of decode_balancer "
            "policy \"liar\": chose a rank that was not offered");
  EXPECT_TRUE(bench.stage.faults().empty()) << "they were those of the other set";
}

TEST(ManagerStage, FaultsAreCountedOverAMinute) {
  ManagerBench bench(fast());
  bench.swap_to(fair());
  for (int i = 0; i < 12; ++i) {
    bench.now_us += 20'000'001;
    bench.on(fault_of(2));
    ASSERT_EQ(bench.name(), "fair");
    ASSERT_TRUE(sent<SwapPrepare>(bench.effects).empty()) << i;
  }
}

TEST(ManagerStage, FaultsOfAnotherSetDoNotCount) {
  ManagerBench bench(fast());
  bench.swap_to(fair());
  for (int i = 0; i < 20; ++i)
    bench.on(fault_of(1));
  EXPECT_TRUE(bench.effects.list().empty());
  EXPECT_TRUE(bench.stage.faults().empty());
}

TEST(ManagerStage, FaultsDuringASwapCountWhenItFails) {
  ManagerBench bench(fast());
  bench.swap_to(fair()).ask(set_of("third", {{"queue", "sjf"}}), 9);
  const PolicyEpoch third = bench.asked_epoch();
  for (int i = 0; i < 50; ++i)
    bench.on(fault_of(2));
  bench.on(Prepared{kDriver, third, false, "no"});
  bench.on(fault_of(2)).all_prepare().all_commit();
  EXPECT_EQ(bench.name(), "fast");
}

TEST(ManagerStage, TheCompiledInSetStaysWhateverItsFaults) {
  ManagerBench bench;
  for (int i = 0; i < 50; ++i)
    bench.on(fault_of(1));
  EXPECT_TRUE(bench.effects.list().empty());
  EXPECT_TRUE(bench.ended.empty());
}

TEST(ManagerStage, DifferentFaultsAreBounded) {
  ManagerBench bench;
  for (int i = 0; i < 100; ++i) {
    PolicyFault fault = fault_of(1);
    fault.policy = "policy " + std::to_string(i);
    bench.on(fault);
  }
  EXPECT_EQ(bench.stage.faults().size(), 32U);
}

} // namespace
} // namespace troupe::sched::testing
