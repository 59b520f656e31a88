// Replay: every built-in policy decides a recorded run again, bit for bit, and what was changed in
// a record is found.

#include "schedulers/replay/replayer.hpp"
#include "schedulers/sim/faulty_policies.hpp"
#include "schedulers/stage/slot_pack.hpp"
#include "tests/support/effort.hpp"
#include "tests/support/random_entries.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::sched {
namespace {

using test::RandomEntries;
using test::times;

const std::vector<std::string> kKinds = {"admission", "queue",           "prefill_router",
                                         "handoff",   "decode_balancer", "prefill_chunker",
                                         "step",      "overlap",         "expert_placement"};

PolicyRegistry& registry() {
  static PolicyRegistry made = [] {
    PolicyRegistry out;
    register_builtin_policies(out);
    return out;
  }();
  return made;
}

PolicySet set_of(const std::string& kind, const std::string& policy, std::uint64_t epoch = 1) {
  PolicySet set;
  set.epoch = PolicyEpoch{epoch};
  set.kinds[kind].policy = policy;
  return set;
}

/// A stage that asks one policy random questions, and what the ledger would keep of it.
class Recorder {
public:
  explicit Recorder(std::uint64_t seed) : random_(seed, false) {}

  void live(const PolicySet& set) {
    random_.epoch = set.epoch;
    push(SetLive{set, SwapCause::command, {}});
  }

  /// @param unrecorded  one question in so many is asked and not recorded
  template <class Question>
  void ask(PolicySlot<Question>& slot, int count, std::uint64_t unrecorded = 5) {
    for (int i = 0; i < count; ++i) {
      std::int64_t invalid = 0;
      const auto answered = slot.decide(random_.question<Question>(), invalid);
      if (unrecorded > 0 && random_.one_in(unrecorded)) continue;
      push(slot.record(answered));
      if constexpr (std::is_same_v<Question, QueueQuestion>) see(slot, answered.question());
    }
  }

  /// One of those that wait is served, or leaves, and another one comes.
  void see(PolicySlot<QueueQuestion>& slot, const QueueQuestion& question) {
    for (const QueueEvent event : {QueueEvent::entered, QueueEvent::served, QueueEvent::returned}) {
      const auto& waiting = question.waiting;
      const RequestView& about = waiting[random_.below(waiting.size())];
      const QueueObservation seen{random_.context(), about, event};
      slot.observe([&](QueuePolicy& policy) { observe(policy, seen); });
      push(Observed{seen, random_.epoch});
    }
  }

  void say(Record made) { push(std::move(made)); }

  std::vector<LedgerEntry> entries;

private:
  template <class What>
  void push(What what) {
    LedgerEntry entry;
    entry.number = entries.size();
    entry.stage.kind = StageKind::prefill;
    entry.what = std::move(what);
    entries.push_back(std::move(entry));
  }

  RandomEntries random_;
};

/// Calls `run(question type)` for the kind.
template <class Run>
void for_kind(const std::string& kind, Run run) {
  if (kind == "admission") run(static_cast<AdmissionQuestion*>(nullptr));
  if (kind == "queue") run(static_cast<QueueQuestion*>(nullptr));
  if (kind == "prefill_router") run(static_cast<RouterQuestion*>(nullptr));
  if (kind == "prefill_chunker") run(static_cast<ChunkerQuestion*>(nullptr));
  if (kind == "handoff") run(static_cast<HandoffQuestion*>(nullptr));
  if (kind == "decode_balancer") run(static_cast<BalancerQuestion*>(nullptr));
  if (kind == "step") run(static_cast<StepQuestion*>(nullptr));
  if (kind == "overlap") run(static_cast<OverlapQuestion*>(nullptr));
  if (kind == "expert_placement") run(static_cast<ExpertQuestion*>(nullptr));
}

std::vector<LedgerEntry> record(const PolicySet& set, const std::string& kind, int count,
                                std::uint64_t seed, const PolicyRegistry& from = registry(),
                                std::uint64_t unrecorded = 5) {
  Recorder recorder(seed);
  recorder.live(set);
  for_kind(kind, [&]<class Question>(Question*) {
    auto slot = PolicySlot<Question>::make(set, from);
    ASSERT_TRUE(slot.ok()) << slot.error().message;
    recorder.ask(*slot, count, unrecorded);
  });
  return recorder.entries;
}

ReplayReport replay(const std::vector<LedgerEntry>& entries,
                    const PolicyRegistry& from = registry()) {
  Replayer replayer(from);
  for (const LedgerEntry& entry : entries)
    replayer.feed(entry);
  return replayer.report();
}

std::int64_t asked_in(const std::vector<LedgerEntry>& entries) {
  return std::count_if(entries.begin(), entries.end(), [](const LedgerEntry& entry) {
    return std::holds_alternative<Record>(entry.what);
  });
}

TEST(Replay, EveryBuiltInPolicyDecidesTheSameAgain) {
  for (const std::string& kind : kKinds) {
    for (const std::string& policy : registry().names(kind)) {
      SCOPED_TRACE(kind + " " + policy);
      const auto entries = record(set_of(kind, policy), kind, times(400), 7);
      const ReplayReport report = replay(entries);
      EXPECT_GT(report.all.decisions, times(250));
      EXPECT_EQ(report.all.decisions, asked_in(entries));
      EXPECT_EQ(report.all.equal, report.all.decisions);
      EXPECT_EQ(report.all.different, 0);
      EXPECT_EQ(report.all.skipped, 0);
      EXPECT_EQ(report.state_differs, 0);
      EXPECT_EQ(report.kinds.at(kind), report.all);
    }
  }
}

TEST(Replay, ASwapAndACanaryInBetween) {
  PolicySet first = set_of("prefill_router", "round_robin", 1);
  first.canary["prefill_router"].policy = "round_robin";
  first.canary_permille = 400;
  PolicySet second = set_of("prefill_router", "round_robin", 2);
  auto one = PolicySlot<RouterQuestion>::make(first, registry());
  auto two = PolicySlot<RouterQuestion>::make(second, registry());
  ASSERT_TRUE(one.ok() && two.ok());
  Recorder recorder(3);
  recorder.live(first);
  recorder.ask(*one, 200);
  two->import_state(*one);
  recorder.live(second);
  recorder.ask(*two, 200);
  std::int64_t canary = 0;
  for (const LedgerEntry& entry : recorder.entries) {
    if (const auto* made = std::get_if<Record>(&entry.what))
      canary += std::get<AskedPtr<RouterQuestion>>(*made->asked)->canary ? 1 : 0;
  }
  EXPECT_GT(canary, 10);
  const ReplayReport report = replay(recorder.entries);
  EXPECT_EQ(report.all.equal, asked_in(recorder.entries));
  EXPECT_EQ(report.state_differs, 0);
}

TEST(Replay, AChangedAnswerIsFound) {
  auto entries = record(set_of("prefill_router", "least_work"), "prefill_router", 200, 9);
  std::vector<std::uint64_t> changed;
  for (std::size_t i = 10; i < entries.size(); i += 40) {
    auto& made = std::get<Record>(entries[i].what);
    auto copy =
        std::make_shared<AskedOf<RouterQuestion>>(*std::get<AskedPtr<RouterQuestion>>(*made.asked));
    copy->answer.retry_at_us += 1;
    made.asked = AskedPtr<RouterQuestion>(std::move(copy));
    changed.push_back(entries[i].number);
  }
  const ReplayReport report = replay(entries);
  EXPECT_EQ(report.all.different, static_cast<std::int64_t>(changed.size()));
  ASSERT_EQ(report.first.size(), changed.size());
  for (std::size_t i = 0; i < changed.size(); ++i)
    EXPECT_EQ(report.first[i].number, changed[i]);
}

TEST(Replay, ADriftOfStateIsSeen) {
  auto entries = record(set_of("decode_balancer", "round_robin"), "decode_balancer", 200, 9);
  std::int64_t changed = 0;
  for (LedgerEntry& entry : entries) {
    auto* made = std::get_if<Record>(&entry.what);
    if (made == nullptr || changed > 0) continue;
    const auto& asked = *std::get<AskedPtr<BalancerQuestion>>(*made->asked);
    if (asked.gap || !asked.has_state) continue;
    auto copy = std::make_shared<AskedOf<BalancerQuestion>>(asked);
    copy->state = "77";
    made->asked = AskedPtr<BalancerQuestion>(std::move(copy));
    ++changed;
  }
  ASSERT_EQ(changed, 1);
  EXPECT_GE(replay(entries).state_differs, 1);
}

/// A queue policy with more state than goes along with every question.
std::vector<LedgerEntry> large_state(std::uint64_t seed) {
  const PolicySet set = set_of("queue", "weighted_fair");
  auto slot = PolicySlot<QueueQuestion>::make(set, registry());
  EXPECT_TRUE(slot.ok());
  Recorder recorder(seed);
  recorder.live(set);
  recorder.ask(*slot, 700, 0);
  return recorder.entries;
}

TEST(Replay, WhatComesBeforeTheFirstStateIsSkippedAndSaid) {
  const auto entries = large_state(5);
  EXPECT_EQ(replay(entries).all.skipped, 0);
  std::vector<LedgerEntry> cut{entries.front()};
  cut.insert(cut.end(), entries.begin() + 100, entries.end());
  const ReplayReport report = replay(cut);
  EXPECT_GT(report.all.skipped, 50);
  EXPECT_LT(report.all.skipped, 300);
  EXPECT_EQ(report.all.different, 0);
  EXPECT_EQ(report.all.equal + report.all.skipped, asked_in(cut));
  ASSERT_EQ(report.skipped.size(), 1U);
  EXPECT_NE(report.skipped.begin()->first.find("state"), std::string::npos);
}

TEST(Replay, LostEntriesInTheMiddleMakeNoFalseDifferences) {
  auto entries = large_state(6);
  entries.erase(entries.begin() + 900, entries.begin() + 960);
  const ReplayReport report = replay(entries);
  EXPECT_EQ(report.all.different, 0);
  EXPECT_GT(report.all.skipped, 0);
  EXPECT_GT(report.all.equal, 200);
}

TEST(Replay, AQuestionTooLargeToBeKeptIsSkippedAndSaid) {
  const PolicySet set = set_of("expert_placement", "incremental");
  auto slot = PolicySlot<ExpertQuestion>::make(set, registry());
  ASSERT_TRUE(slot.ok());
  Recorder recorder(4);
  recorder.live(set);
  recorder.ask(*slot, 20, 0);
  RandomEntries random(12, false);
  ExpertQuestion question = random.question<ExpertQuestion>();
  question.layers.resize(1);
  question.layers[0].loads.assign(static_cast<std::size_t>(question.topology.experts), 7);
  const std::size_t rest = question.bytes() - question.layers[0].steps.size() * 8;
  std::int64_t invalid = 0;
  question.layers[0].steps.assign((kQuestionBytesMax - rest) / 8, 1);
  recorder.say(slot->record(slot->decide(question, invalid)));
  question.layers[0].steps.resize(question.layers[0].steps.size() + 1);
  recorder.say(slot->record(slot->decide(question, invalid)));
  recorder.ask(*slot, 20, 0);
  const auto& large = std::get<Record>(recorder.entries[22].what);
  EXPECT_TRUE(large.too_large);
  EXPECT_FALSE(large.asked);
  EXPECT_EQ(large.kind, "expert_placement");
  const auto& after = std::get<Record>(recorder.entries[23].what);
  EXPECT_TRUE(std::get<AskedPtr<ExpertQuestion>>(*after.asked)->gap);
  const ReplayReport report = replay(recorder.entries);
  EXPECT_EQ(report.all.decisions, 42);
  EXPECT_EQ(report.all.equal, 41);
  EXPECT_EQ(report.all.skipped, 1);
  EXPECT_NE(report.skipped.begin()->first.find("too large"), std::string::npos);
}

TEST(Replay, AnUnknownSetIsSkipped) {
  auto entries = record(set_of("step", "decode_first"), "step", 50, 2);
  entries.erase(entries.begin());
  const ReplayReport report = replay(entries);
  EXPECT_EQ(report.all.skipped, report.all.decisions);
  EXPECT_NE(report.skipped.begin()->first.find("not in this ledger"), std::string::npos);
}

TEST(Replay, ASetThatIsToldAfterItsDecisionsIsLearnedFirst) {
  auto entries = record(set_of("step", "decode_first"), "step", 50, 2);
  std::rotate(entries.begin(), entries.begin() + 1, entries.end());
  Replayer replayer(registry());
  replayer.learn(std::get<SetLive>(entries.back().what));
  for (const LedgerEntry& entry : entries)
    replayer.feed(entry);
  EXPECT_EQ(replayer.report().all.equal, asked_in(entries));
}

TEST(Replay, DecisionsThatTheDefaultMadeAreReplacedAgain) {
  for (const std::string& kind : kKinds) {
    SCOPED_TRACE(kind);
    PolicyRegistry faulty;
    register_builtin_policies(faulty);
    const PolicySet set = sim::make_faulty(set_of(kind, ""), faulty, 300, 4);
    // When they fail is no state of theirs: each question has to be in the ledger.
    const auto entries = record(set, kind, 300, 4, faulty, 0);
    std::int64_t replaced = 0;
    for (const LedgerEntry& entry : entries) {
      const auto* made = std::get_if<Record>(&entry.what);
      if (made != nullptr && made->reason == Reason::replaced_invalid) ++replaced;
    }
    EXPECT_GT(replaced, 20);
    const ReplayReport report = replay(entries, faulty);
    EXPECT_EQ(report.all.equal, asked_in(entries));
  }
}

TEST(ReplayOther, CountsWhereAnotherPolicyWouldChooseElse) {
  const auto entries = record(set_of("queue", "fcfs"), "queue", 300, 8);
  std::int64_t want = 0;
  auto sjf = PolicySlot<QueueQuestion>::make(set_of("queue", "sjf"), registry());
  ASSERT_TRUE(sjf.ok());
  for (const LedgerEntry& entry : entries) {
    const auto* made = std::get_if<Record>(&entry.what);
    if (made == nullptr) continue;
    const auto& asked = std::get<AskedPtr<QueueQuestion>>(*made->asked);
    std::int64_t invalid = 0;
    if (sjf->decide(asked->question, invalid).decision().value != asked->answer.value) ++want;
  }
  ASSERT_GT(want, 50);
  Replayer replayer(registry(), ReplayOther{set_of("queue", "sjf")}, 5);
  for (const LedgerEntry& entry : entries)
    replayer.feed(entry);
  const ReplayReport& report = replayer.report();
  EXPECT_EQ(report.all.different, want);
  EXPECT_EQ(report.all.equal, asked_in(entries) - want);
  ASSERT_EQ(report.first.size(), 5U);
  EXPECT_EQ(std::get<AskedPtr<QueueQuestion>>(report.first[0].now)->policy, "sjf");
  EXPECT_EQ(std::get<AskedPtr<QueueQuestion>>(report.first[0].then)->policy, "fcfs");
}

/// Says nothing valid about every second request.
struct HalfBroken : QueuePolicy {
  Decision<Order> order(std::span<const RequestView> waiting,
                        const PolicyContext&) noexcept override {
    Order order;
    for (std::uint32_t i = 0; i < waiting.size(); ++i)
      order.positions.push_back(i);
    if (++asked % 2 == 0) order.positions.push_back(0);
    return {std::move(order), Reason::in_order, 0};
  }
  std::string failure() const override { return asked % 2 == 0 ? "it lost count" : ""; }
  std::int64_t asked = 0;
};

TEST(ReplayOther, CountsAnswersThatFailThoughTheDefaultDecidesTheSame) {
  const auto entries = record(set_of("queue", "fcfs"), "queue", 300, 8);
  PolicyRegistry more;
  register_builtin_policies(more);
  more.add("queue", "half_broken", [](const OptionTable&) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<HalfBroken>());
  });
  Replayer replayer(more, ReplayOther{set_of("queue", "half_broken")});
  for (const LedgerEntry& entry : entries)
    replayer.feed(entry);
  const ReplayReport& report = replayer.report();
  EXPECT_EQ(report.all.failed, asked_in(entries) / 2);
  EXPECT_EQ(report.kinds.at("queue").failed, report.all.failed);
  EXPECT_EQ(report.failed,
            (std::map<std::string, std::string>{{"queue", "half_broken: it lost count"}}));
  EXPECT_EQ(report.all.equal + report.all.different, asked_in(entries));
}

TEST(ReplayOther, TheSameSetNeverDiffers) {
  for (const std::string& kind : kKinds) {
    for (const std::string& policy : registry().names(kind)) {
      SCOPED_TRACE(kind + " " + policy);
      const auto entries = record(set_of(kind, policy), kind, times(200), 6);
      Replayer replayer(registry(), ReplayOther{set_of(kind, policy, 9)});
      for (const LedgerEntry& entry : entries)
        replayer.feed(entry);
      EXPECT_EQ(replayer.report().all.equal, asked_in(entries));
    }
  }
}

} // namespace
} // namespace troupe::sched
