// The policy manager alone: what it says to stages that answer, refuse, are silent, come and go,
// and where rollbacks lead.

#include "tests/support/manager_bench.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::sched::testing {
namespace {

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
