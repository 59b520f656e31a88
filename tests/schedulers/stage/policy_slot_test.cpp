// A slot's answers: who is asked, what replaces an invalid one, which state is kept for replay.

#include "schedulers/stage/policy_slot.hpp"
#include "schedulers/stage/slot_pack.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::sched {
namespace {

PolicyRegistry builtins() {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  return registry;
}

PolicySet with_router(const std::string& name) {
  PolicySet set;
  set.kinds["prefill_router"].policy = name;
  return set;
}

RouterQuestion question(std::int64_t ranks, std::uint64_t session = 1) {
  RouterQuestion made;
  made.context.seed = session;
  made.request.ref = {RequestId{session}, Attempt{1}};
  made.request.session_hash = session;
  made.request.prompt = 8;
  made.request.new_tokens_max = 8;
  for (std::int64_t i = 0; i < ranks; ++i) {
    RankView view;
    view.rank = {RankId{static_cast<std::uint32_t>(i)}, Incarnation{1}};
    view.role = Role::both;
    view.block_tokens = 8;
    view.kv_blocks_free = view.kv_blocks_total = 100;
    view.slots_free = view.slots_total = 8;
    made.ranks.push_back(view);
  }
  return made;
}

std::uint32_t rank_of(const Answered<RouterQuestion>& answered) {
  return raw(answered.decision().value->rank);
}

using RouterSlot = PolicySlot<RouterQuestion>;

RouterSlot slot_of(const PolicySet& set, const PolicyRegistry& registry) {
  auto made = RouterSlot::make(set, registry);
  TROUPE_CHECK(made.ok(), "a set of built-ins builds");
  return std::move(made).value();
}

/// Names a rank that is not there, and counts its questions as its state.
class Broken final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery&, std::span<const RankView>,
                            const PolicyContext&) noexcept override {
    state_ += "x";
    return {Placement{RankId{99}, {}}, Reason::lowest_score};
  }
  std::string export_state() const override { return state_; }
  void import_state(const std::string& state) override { state_ = state; }
  std::string failure() const override { return "it named rank 99"; }

private:
  std::string state_;
};

void add_broken(PolicyRegistry& registry) {
  registry.add("prefill_router", "broken", [](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<Broken>());
  });
}

TEST(PolicySlot, AnInvalidAnswerIsReplacedAndNamed) {
  PolicyRegistry registry = builtins();
  add_broken(registry);
  RouterSlot slot = slot_of(with_router("broken"), registry);
  std::int64_t invalid = 0;
  const auto answered = slot.decide(question(2), invalid);
  EXPECT_EQ(invalid, 1);
  EXPECT_EQ(answered.faulty, "broken");
  EXPECT_EQ(answered.fault, "it named rank 99");
  EXPECT_EQ(answered.asked->policy, "least_work");
  EXPECT_EQ(answered.decision().reason, Reason::replaced_invalid);
  EXPECT_EQ(slot.record(answered).policy, "least_work");
}

TEST(PolicySlot, StateBeforeTheQuestionGoesAlong) {
  const PolicyRegistry registry = builtins();
  RouterSlot slot = slot_of(with_router("round_robin"), registry);
  std::int64_t invalid = 0;
  const auto first = slot.decide(question(3), invalid);
  EXPECT_TRUE(first.asked->has_state);
  EXPECT_TRUE(first.asked->gap) << "nothing was recorded before";
  static_cast<void>(slot.record(first));
  const auto second = slot.decide(question(3), invalid);
  EXPECT_FALSE(second.asked->gap);
  const auto third = slot.decide(question(3), invalid);
  EXPECT_TRUE(third.asked->gap) << "the second was not recorded";
  EXPECT_EQ(rank_of(first), 0U);
  EXPECT_EQ(rank_of(third), 2U);
  // Another instance with the state of the third question answers it alike.
  RouterSlot other = slot_of(with_router("round_robin"), registry);
  auto built = registry.build("prefill_router", with_router("round_robin"));
  ASSERT_TRUE(built.ok());
  (*built)->import_state(third.asked->state);
  auto* router = dynamic_cast<PrefillRouter*>(built->get());
  ASSERT_NE(router, nullptr);
  EXPECT_EQ(raw(ask(*router, third.question()).value->rank), 2U);
}

TEST(PolicySlot, LargeStateGoesAlongOnceInAWhile) {
  PolicyRegistry registry = builtins();
  add_broken(registry);
  RouterSlot slot = slot_of(with_router("broken"), registry);
  std::int64_t invalid = 0;
  int with_state = 0;
  for (int i = 0; i < 600; ++i) {
    const auto answered = slot.decide(question(1), invalid);
    static_cast<void>(slot.record(answered));
    with_state += i >= 100 && answered.asked->has_state ? 1 : 0;
  }
  EXPECT_GE(with_state, 1);
  EXPECT_LE(with_state, 3) << "500 questions";
}

TEST(PolicySlot, TheNextInstanceOfTheSameNameGoesOn) {
  const PolicyRegistry registry = builtins();
  RouterSlot slot = slot_of(with_router("round_robin"), registry);
  std::int64_t invalid = 0;
  static_cast<void>(slot.decide(question(3), invalid));
  RouterSlot same = slot_of(with_router("round_robin"), registry);
  same.import_state(slot);
  EXPECT_EQ(rank_of(same.decide(question(3), invalid)), 1U);
  RouterSlot other = slot_of(with_router("least_work"), registry);
  other.import_state(slot);
  EXPECT_EQ(rank_of(other.decide(question(3), invalid)), 0U);
}

TEST(PolicySlot, RehearsalFindsWhatCannotAnswerTheQuestionsOfThisRun) {
  PolicyRegistry registry = builtins();
  add_broken(registry);
  RouterSlot live = slot_of(with_router("round_robin"), registry);
  RouterSlot bad = slot_of(with_router("broken"), registry);
  EXPECT_TRUE(bad.rehearse(live).ok()) << "nothing was asked yet";
  std::int64_t invalid = 0;
  static_cast<void>(live.decide(question(3), invalid));
  const Status status = bad.rehearse(live);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("\"broken\""), std::string::npos);
  EXPECT_NE(status.error().message.find("it named rank 99"), std::string::npos);
  RouterSlot good = slot_of(with_router("two_choices"), registry);
  EXPECT_TRUE(good.rehearse(live).ok());
}

TEST(PolicySlot, TheCanaryHasItsShareOfTheSessionsAndNoOther) {
  const PolicyRegistry registry = builtins();
  PolicySet set = with_router("least_work");
  set.canary["prefill_router"].policy = "round_robin";
  set.canary_permille = 250;
  RouterSlot slot = slot_of(set, registry);
  std::int64_t invalid = 0;
  int canaries = 0;
  for (std::uint64_t session = 1; session <= 4000; ++session) {
    const auto answered = slot.decide(question(2, mix64(session)), invalid);
    EXPECT_EQ(answered.asked->canary, in_canary_share(mix64(session), 250));
    EXPECT_EQ(answered.asked->policy, answered.asked->canary ? "round_robin" : "least_work");
    canaries += answered.asked->canary ? 1 : 0;
  }
  EXPECT_NEAR(canaries, 1000, 110) << "four standard deviations";
  EXPECT_FALSE(slot.decide(question(2, 0), invalid).asked->canary) << "nobody's session";
}

TEST(PolicySlot, ASetThatDoesNotBuildIsAnError) {
  const PolicyRegistry registry = builtins();
  const auto made = PrefillSlots::make(with_router("leastwork"), registry);
  ASSERT_FALSE(made.ok());
  EXPECT_NE(made.error().message.find("least_work"), std::string::npos) << "the nearest name";
  PolicySet set;
  set.libraries.push_back({"/nowhere/lib.so", {}, true, 1000, 5000});
  set.kinds["prefill_router"].policy = "theirs";
  const auto library = PrefillSlots::make(set, registry);
  ASSERT_FALSE(library.ok());
  EXPECT_NE(library.error().message.find("/nowhere/lib.so"), std::string::npos);
}

} // namespace
} // namespace troupe::sched
