// Sets with libraries through a stage's desk: to and fro under questions, faults that cost one
// answer, calls that are late, state that goes over, code that goes away.

#include "actors/plugin_lane.hpp"
#include "actors/plugin_loader.hpp"
#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "tests/actors/plugin_files.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace troupe::actors {
namespace {

using sched::BalancerQuestion;
using sched::DecodeSlots;
using sched::PolicySet;
using test::library;
using test::mapped_copies;
using test::plugin_path;

/// A decode stage's desk and who asks it.
class PluginSwap : public ::testing::Test {
protected:
  PluginSwap() {
    sched::register_builtin_policies(registry_);
    registry_.set_library_source(std::make_shared<PluginLoader>(test::loader_options()));
    desk_.emplace(sched::StageRef{sched::StageKind::decode, {}}, PolicySet{}, registry_);
  }

  PolicySet set(std::uint64_t epoch, const std::string& balancer, const std::string& file,
                bool lane, const OptionTable& options = OptionTable()) const {
    PolicySet made;
    made.epoch = PolicyEpoch{epoch};
    made.name = "test";
    if (!balancer.empty()) made.kinds["decode_balancer"] = {balancer, options};
    if (!file.empty()) made.libraries = {library(plugin_path(file), lane)};
    if (!file.empty() && decide_us_ > 0) made.libraries[0].decide_us = decide_us_;
    return made;
  }

  /// The one message among the effects; a prepared set also has a timer.
  static const sched::Send& said(const sched::Effects& effects) {
    const sched::Send* found = nullptr;
    for (const sched::Effect& effect : effects.list()) {
      if (const auto* send = std::get_if<sched::Send>(&effect)) found = send;
    }
    TROUPE_CHECK(found != nullptr, "the desk answers");
    return *found;
  }

  /// The stage's answer to the set; "" when it is prepared.
  std::string prepare(const PolicySet& wanted) {
    sched::Effects effects;
    desk_->on(sched::SwapPrepare{wanted, 10'000'000}, 0, effects);
    const auto& prepared = std::get<sched::Prepared>(said(effects).message);
    EXPECT_EQ(prepared.epoch, wanted.epoch);
    return prepared.ok ? "" : prepared.reason;
  }
  bool commit(std::uint64_t epoch) {
    sched::Effects effects;
    desk_->on(sched::SwapCommit{PolicyEpoch{epoch}}, 1, effects);
    return std::holds_alternative<sched::Committed>(said(effects).message) &&
           desk_->epoch() == PolicyEpoch{epoch};
  }
  void swap(const PolicySet& wanted) {
    ASSERT_EQ(prepare(wanted), "");
    ASSERT_TRUE(commit(raw(wanted.epoch)));
  }

  sched::Answered<BalancerQuestion> ask() {
    BalancerQuestion question;
    question.context.seed = ++asked_;
    question.request = sched::testing::request(asked_, 10);
    question.ranks =
        sched::testing::ClusterBuilder().decode_rank(0).decode_rank(1).decode_rank(2).ranks();
    return (*desk_)->of<BalancerQuestion>().decide(std::move(question), invalid_);
  }
  std::uint32_t rank() { return raw(ask().decision().value->rank); }

  OptionTable mode(const std::string& mode, std::int64_t after, std::int64_t sleep_ms = 0) {
    OptionTable options("decode_balancer");
    options.set("mode", {mode, ""});
    options.set("after", {after, ""});
    options.set("sleep_ms", {sleep_ms, ""});
    return options;
  }

  test::Hanging hanging_; ///< Goes last: it waits for what the desk left behind.
  sched::PolicyRegistry registry_;
  std::optional<sched::SlotDesk<DecodeSlots>> desk_;
  std::uint64_t asked_ = 0;
  std::int64_t invalid_ = 0;
  std::int64_t decide_us_ = 0; ///< Of the libraries of sets; 0 = more than enough.
};

TEST_F(PluginSwap, ToALibraryAndBackUntilItIsGone) {
  std::uint64_t epoch = 1;
  for (const bool lane : {true, false}) {
    swap(set(++epoch, "turns", "good_policies", lane));
    EXPECT_GT(mapped_copies(), 0);
    for (const std::uint32_t expected : {0U, 1U, 2U, 0U}) {
      const auto answered = ask();
      EXPECT_EQ(raw(answered.decision().value->rank), expected);
      EXPECT_EQ(answered.asked->policy, "turns");
      EXPECT_EQ(answered.question().context.epoch, PolicyEpoch{epoch});
    }
    // The same policy of another build goes on with the state.
    swap(set(++epoch, "turns", "good_policies_2", lane));
    EXPECT_EQ(rank(), 1U);
    swap(set(++epoch, "", "", lane));
    EXPECT_EQ(ask().asked->policy, "count_and_kv");
    EXPECT_EQ(mapped_copies(), 0);
    EXPECT_EQ(library_counts().loaded, 0);
  }
  EXPECT_EQ(invalid_, 0);
  EXPECT_EQ(lane_counts().live, 0);
  EXPECT_EQ(lane_counts().left_behind, 0);
}

TEST_F(PluginSwap, ManySwapsLeaveNothing) {
  for (std::uint64_t epoch = 2; epoch < 62; ++epoch) {
    const bool loaded = epoch % 2 == 0;
    swap(set(epoch, loaded ? "turns" : "round_robin", loaded ? "good_policies" : "",
             epoch % 4 == 0));
    for (int i = 0; i < 20; ++i)
      ASSERT_TRUE(ask().fault.empty());
  }
  EXPECT_EQ(invalid_, 0);
  EXPECT_EQ(mapped_copies(), 0);
  EXPECT_EQ(lane_counts().live, 0);
}

TEST_F(PluginSwap, FaultsCostTheAnswerAndAreCounted) {
  std::uint64_t epoch = 1;
  for (const bool lane : {true, false}) {
    for (const auto& [name, said] : std::map<std::string, std::string>{
             {"fails", "decide returned -3: no memory"},
             {"returns_7", "decide returned 7, which means nothing"},
             {"no_reason", "the answer has no reason"},
             {"reason_99", "the answer has reason 99, expected one of 1 to 25 (TROUPE_REASON_...)"},
             {"no_such_rank", "the chosen rank is not in the view"}}) {
      invalid_ = 0;
      // The pre-flight and the rehearsal go well, and so do the first answers.
      swap(set(++epoch, "bad", "bad_policies", lane, mode(name, 100)));
      for (int i = 0; i < 100; ++i)
        ASSERT_EQ(ask().fault, "");
      EXPECT_EQ(invalid_, 0);
      const auto answered = ask();
      EXPECT_EQ(answered.faulty, "bad");
      EXPECT_EQ(answered.fault, said);
      EXPECT_EQ(answered.asked->policy, "count_and_kv");
      EXPECT_EQ(answered.decision().reason, sched::Reason::replaced_invalid);
      EXPECT_TRUE(answered.decision().value);
      EXPECT_EQ(invalid_, 1);
      swap(set(++epoch, "", "", lane)); // State does not go over to the next mode.
    }
  }
}

TEST_F(PluginSwap, AnAnswerThatIsLateIsReplacedAndTheStageGoesOn) {
  decide_us_ = 300'000;
  swap(set(2, "bad", "bad_policies", true, mode("hangs", 100)));
  for (int i = 0; i < 100; ++i)
    ASSERT_EQ(ask().fault, "");
  EXPECT_EQ(ask().fault, "late: decide did not return within 300000 us");
  for (int i = 0; i < 50; ++i) {
    const auto answered = ask();
    EXPECT_EQ(answered.fault, "late: an earlier call has not returned yet");
    EXPECT_TRUE(answered.decision().value);
  }
  EXPECT_EQ(invalid_, 51);
  swap(set(3, "", "", true));
  EXPECT_EQ(ask().asked->policy, "count_and_kv");
  EXPECT_EQ(lane_counts().left_behind, 1) << "it does not return";
  EXPECT_EQ(lane_counts().live, 0);
  EXPECT_GT(mapped_copies(), 0) << "its code is still running";
  hanging_.let_go();
  EXPECT_EQ(mapped_copies(), 0);
}

TEST_F(PluginSwap, ACallThatReturnsLateGoesOnWithItsState) {
  decide_us_ = 1000;
  swap(set(2, "bad", "bad_policies", true, mode("sleeps", 0, 30)));
  const auto late = ask();
  EXPECT_EQ(late.fault, "late: decide did not return within 1000 us");
  // Once it is back, the next question is put again, and is late again.
  for (int i = 0; i < 20'000; ++i) {
    if (ask().fault == "late: decide did not return within 1000 us") return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  FAIL() << "the instance was never asked again";
}

TEST_F(PluginSwap, WhatDoesNotPassIsRefusedAndTheOldSetStays) {
  const std::string path = plugin_path("bad_policies");
  EXPECT_EQ(prepare(set(2, "bad", "bad_policies", true, mode("crashes", 0))),
            path + ": decide of decode_balancer \"bad\" ended the process with SIGSEGV "
                   "(pre-flight, in a child process)");
  EXPECT_EQ(prepare(set(2, "bad", "odd_major", true)),
            plugin_path("odd_major") +
                ": built for ABI major 2, this host has 1; build it with this host's policy_abi.h "
                "(pre-flight, in a child process)");
  EXPECT_NE(prepare(set(2, "bda", "bad_policies", true)).find("did you mean \"bad\"?"),
            std::string::npos);
  EXPECT_FALSE(commit(2));
  EXPECT_EQ(desk_->epoch(), PolicyEpoch{1});
  EXPECT_EQ(ask().asked->policy, "count_and_kv");
  EXPECT_EQ(mapped_copies(), 0);
}

// What the recent questions of a stage show is refused before it decides anything.
TEST_F(PluginSwap, RecentQuestionsAreAskedBeforeASetIsPrepared) {
  for (int i = 0; i < 8; ++i)
    ask();
  // The pre-flight asks six questions of each of two instances; the rehearsal asks eight.
  EXPECT_EQ(prepare(set(2, "bad", "bad_policies", false, mode("fails", 7))),
            "decode_balancer: policy \"bad\", asked a question of this run: decide returned -3: no "
            "memory");
  EXPECT_EQ(ask().asked->policy, "count_and_kv");
}

} // namespace
} // namespace troupe::actors
