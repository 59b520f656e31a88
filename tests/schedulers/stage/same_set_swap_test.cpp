// A swap from a set to the same set loses no state: every built-in policy goes on as if nobody had
// swapped, question by question, beside a desk that was left alone.

#include "schedulers/conformance/question_source.hpp"
#include "schedulers/conformance/same_answer.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "tests/support/policy_sets.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>
#include <string>

namespace troupe::sched::testing {
namespace {

constexpr std::uint64_t kQuestions = 60;
constexpr std::uint64_t kSwapEvery = 3;
constexpr std::int64_t kDropUs = 1'000'000;

template <class Slots>
void swap_to_itself(SlotDesk<Slots>& desk, PolicySet set) {
  set.epoch = next(desk.epoch());
  Effects effects;
  desk.on(SwapPrepare{set, kDropUs, false}, 0, effects);
  desk.on(SwapCommit{set.epoch}, 0, effects);
  ASSERT_EQ(desk.epoch(), set.epoch);
}

/// What a queue policy learns: a request of the question comes, another one is served.
void observe_one(PolicySlot<QueueQuestion>& slot, const QueueQuestion& question) {
  if (question.waiting.empty()) return;
  for (const QueueEvent event : {QueueEvent::entered, QueueEvent::served}) {
    slot.observe([&](QueuePolicy& policy) {
      observe(policy, {question.context, question.waiting.front(), event});
    });
  }
}
template <class Question>
void observe_one(PolicySlot<Question>& /*slot*/, const Question& /*question*/) {}

/// Asks two desks the same; one of them is swapped to its own set between the questions. Returns
/// whether the policy had any state.
template <class Slots, class Question>
bool goes_on(const std::string& policy) {
  SCOPED_TRACE(std::string(Question::kKind) + " " + policy);
  const PolicySet set = set_of("A", {{std::string(Question::kKind), policy}});
  const StageRef stage{StageKind::driver, {}};
  SlotDesk<Slots> swapped(stage, set, builtins());
  SlotDesk<Slots> alone(stage, set, builtins());
  Rng rng(71);
  std::int64_t invalid = 0;
  std::set<std::string> states;
  for (std::uint64_t number = 0; number < kQuestions; ++number) {
    if (number % kSwapEvery == kSwapEvery - 1) swap_to_itself(swapped, set);
    const auto question =
        conformance::draw_question<Question>(conformance::Situation::ordinary, rng, number);
    PolicySlot<Question>& of_swapped = swapped->template of<Question>();
    PolicySlot<Question>& of_alone = alone->template of<Question>();
    observe_one(of_swapped, question);
    observe_one(of_alone, question);
    const auto a = of_swapped.decide(question, invalid);
    const auto b = of_alone.decide(question, invalid);
    EXPECT_TRUE(conformance::same_answer(a.decision(), b.decision())) << "question " << number;
    const std::string state = of_alone.policy().export_state();
    EXPECT_EQ(of_swapped.policy().export_state(), state) << "question " << number;
    states.insert(state);
  }
  EXPECT_EQ(invalid, 0);
  return states.size() > 1;
}

template <class Slots, class Question>
int all_of_kind(std::set<std::string>& with_state) {
  int policies = 0;
  const std::string kind(Question::kKind);
  for (const std::string& name : builtins().names(kind)) {
    if (!builtins().build(kind, PolicySpec{name, {}}, {}).ok()) continue; // It needs options.
    ++policies;
    if (goes_on<Slots, Question>(name)) with_state.insert(kind + "/" + name);
  }
  return policies;
}

TEST(SameSetSwap, ASwapFromASetToItselfLosesNoState) {
  std::printf("seed 71\n");
  std::set<std::string> with_state;
  const int policies = all_of_kind<DriverSlots, AdmissionQuestion>(with_state) +
                       all_of_kind<PrefillSlots, QueueQuestion>(with_state) +
                       all_of_kind<PrefillSlots, RouterQuestion>(with_state) +
                       all_of_kind<PrefillSlots, ChunkerQuestion>(with_state) +
                       all_of_kind<DecodeSlots, HandoffQuestion>(with_state) +
                       all_of_kind<DecodeSlots, BalancerQuestion>(with_state) +
                       all_of_kind<RankSlots, StepQuestion>(with_state);
  EXPECT_GE(policies, 28);
  // Those whose state moved: without them nothing could have been lost.
  for (const char* name :
       {"queue/weighted_fair", "prefill_router/round_robin", "decode_balancer/round_robin"})
    EXPECT_EQ(with_state.count(name), 1U) << name;
  for (const std::string& name : with_state)
    std::printf("with state: %s\n", name.c_str());
}

} // namespace
} // namespace troupe::sched::testing
