// Whole stages again: what a stage was built from and took is enough for everything that it said,
// and what was changed, lost or cut is found, named, or left alone.

#include "schedulers/replay/stage_replayer.hpp"
#include "schedulers/stage/effect_digest.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace troupe::sched::testing {
namespace {

/// Stages that talk to each other by hand, and the ledger that their shells would keep.
class Recording {
public:
  explicit Recording(const PolicySet& set = {})
      : prefill(prefill_options(), set, builtins()), rank(rank_options(), set, builtins()) {
    push(prefill_ref, StageBegan{prefill_options(), set});
    push(rank_ref_, StageBegan{rank_options(), set});
  }

  static PrefillOptions prefill_options() {
    PrefillOptions options;
    options.lease_us = 5'000'000;
    return options;
  }
  static RankOptions rank_options() {
    RankOptions options;
    options.rank = rank_ref(0);
    options.name = "both-0";
    options.kv_blocks = 40;
    options.block_tokens = 4;
    options.slots = 3;
    options.step_tokens_max = 16;
    return options;
  }

  /// Requests through chunker and rank, whose steps compute what they are asked for.
  void run(int requests) {
    start();
    for (int i = 0; i < requests; ++i) {
      Submit submit;
      submit.ref = ref(static_cast<std::uint64_t>(i + 1));
      submit.arrival_us = now_us_;
      submit.work = work(5 + i % 17, 3);
      to_prefill(submit);
    }
    for (int round = 0; round < 400 && !(mail_.empty() && steps_.empty()); ++round) {
      while (!mail_.empty()) {
        const Event next = mail_.front();
        mail_.erase(mail_.begin());
        deliver_to(next);
      }
      if (!steps_.empty()) finish_step();
    }
  }

  std::vector<LedgerEntry> entries;
  PrefillStage prefill;
  RankStage rank;
  const StageRef prefill_ref{StageKind::prefill, {}};
  const StageRef rank_ref_{StageKind::rank, rank_ref(0)};

private:
  template <class What>
  void push(const StageRef& stage, What what) {
    entries.push_back({entries.size(), now_us_, stage, std::move(what)});
  }

  void start() {
    Effects effects;
    rank.start(now_us_, effects);
    took(rank_ref_, ++rank_events_, nullptr, effects);
  }

  template <class E>
  void to_prefill(const E& event) {
    now_us_ += 11;
    Effects effects;
    prefill.on(event, now_us_, effects);
    took(prefill_ref, ++prefill_events_, std::make_shared<const Event>(event), effects);
  }
  template <class E>
  void to_rank(const E& event) {
    now_us_ += 7;
    Effects effects;
    rank.on(event, now_us_, effects);
    took(rank_ref_, ++rank_events_, std::make_shared<const Event>(event), effects);
  }

  void deliver_to(const Event& event) {
    std::visit(
        [&](const auto& one) {
          // Both know timers and swaps; timers are not run here.
          if constexpr (requires { rank.on(one, 0, *static_cast<Effects*>(nullptr)); })
            to_rank(one);
          else if constexpr (requires { prefill.on(one, 0, *static_cast<Effects*>(nullptr)); })
            to_prefill(one);
        },
        event);
  }

  void finish_step() {
    StepDone done;
    done.step = steps_.front().step;
    done.compute_us = 100 + static_cast<std::int64_t>(done.step);
    for (const StepEntry& entry : steps_.front().entries) {
      StepRow row{entry.ref, ErrorCode::ok, entry.first_position + entry.count, entry.draw, {}};
      row.token.token = static_cast<std::int32_t>(100 + done.step);
      done.rows.push_back(row);
    }
    steps_.erase(steps_.begin());
    to_rank(done);
  }

  void took(const StageRef& stage, std::uint64_t number, std::shared_ptr<const Event> event,
            const Effects& effects) {
    push(stage, StageTook{number, std::move(event), digests_of(effects)});
    for (const Effect& effect : effects.list()) {
      if (const auto* record = std::get_if<Record>(&effect)) push(stage, *record);
      if (const auto* seen = std::get_if<Observed>(&effect)) push(stage, *seen);
      if (const auto* milestone = std::get_if<Milestone>(&effect)) push(stage, *milestone);
      if (const auto* step = std::get_if<RunStep>(&effect)) steps_.push_back(*step);
      const auto* send = std::get_if<Send>(&effect);
      adopt_at_once(send);
      const bool is_local =
          send != nullptr && (send->to == Peer::rank || send->to == Peer::chunker);
      if (!is_local) continue;
      std::visit([&](const auto& message) { mail_.push_back(Event{message}); }, send->message);
    }
  }

  /// In place of the balancer: a finished prefill decodes where it is.
  void adopt_at_once(const Send* send) {
    const auto* done = send == nullptr ? nullptr : std::get_if<PrefillDone>(&send->message);
    if (done != nullptr) mail_.push_back(Event{Adopt{done->ref, done->rank, HandoffId{1}, {}}});
  }

  std::int64_t now_us_ = 1'000'000;
  std::uint64_t prefill_events_ = 0;
  std::uint64_t rank_events_ = 0;
  std::vector<Event> mail_;
  std::vector<RunStep> steps_;
};

StagesReport replay(const std::vector<LedgerEntry>& entries) {
  StageReplayer replayer(builtins());
  for (const LedgerEntry& entry : entries)
    replayer.feed(entry);
  return replayer.finish();
}

std::vector<LedgerEntry> recorded(int requests = 12) {
  Recording recording;
  recording.run(requests);
  return recording.entries;
}

template <class What>
std::vector<std::size_t> places(const std::vector<LedgerEntry>& entries) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (std::holds_alternative<What>(entries[i].what)) found.push_back(i);
  }
  return found;
}

const StageLife& life_of(const StagesReport& report, StageKind kind) {
  return *std::find_if(report.lives.begin(), report.lives.end(),
                       [&](const StageLife& life) { return life.stage.kind == kind; });
}

TEST(StageReplay, TheSameEventsGiveTheSameEntriesAndEffects) {
  const auto entries = recorded();
  const StagesReport report = replay(entries);
  ASSERT_EQ(report.lives.size(), 2U);
  EXPECT_EQ(report.equal(), report.events());
  EXPECT_EQ(report.events(), static_cast<std::int64_t>(places<StageTook>(entries).size()));
  EXPECT_EQ(report.different(), 0);
  EXPECT_EQ(report.stopped(), 0);
  EXPECT_GT(life_of(report, StageKind::prefill).events, 20);
  EXPECT_GT(life_of(report, StageKind::rank).events, 40);
  std::int64_t said = 0;
  for (const StageLife& life : report.lives) {
    said += life.said;
    EXPECT_EQ(life.cut, 0);
  }
  EXPECT_EQ(said, static_cast<std::int64_t>(entries.size()) - report.events() - 2);
}

TEST(StageReplay, AChangedOptionIsFoundWhereItFirstMatters) {
  auto entries = recorded();
  auto& began = std::get<StageBegan>(entries[0].what);
  std::get<PrefillOptions>(began.options).lease_us += 1;
  const StagesReport report = replay(entries);
  EXPECT_EQ(report.different(), 1);
  const StageLife& life = life_of(report, StageKind::prefill);
  ASSERT_TRUE(life.first);
  EXPECT_NE(life.first->what.find("send assign"), std::string::npos) << life.first->what;
  EXPECT_NE(life.first->what.find("message.lease_us 5000001"), std::string::npos)
      << life.first->what;
  EXPECT_EQ(life_of(report, StageKind::rank).first.has_value(), false);

  entries = recorded();
  std::get<RankOptions>(std::get<StageBegan>(entries[1].what).options).slots = 2;
  const StagesReport slots = replay(entries);
  const StageLife& rank = life_of(slots, StageKind::rank);
  ASSERT_TRUE(rank.first);
  EXPECT_EQ(rank.first->event, 1U);
  EXPECT_EQ(rank.first->event_name, "start");
}

TEST(StageReplay, AChangedEventIsFound) {
  auto entries = recorded();
  for (const std::size_t at : places<StageTook>(entries)) {
    auto& took = std::get<StageTook>(entries[at].what);
    const auto* done = took.event ? std::get_if<StepDone>(took.event.get()) : nullptr;
    if (done == nullptr || done->step < 3) continue;
    StepDone other = *done;
    other.compute_us += 1;
    took.event = std::make_shared<const Event>(other);
    const StageLife life = life_of(replay(entries), StageKind::rank);
    ASSERT_TRUE(life.first);
    EXPECT_EQ(life.first->number, entries[at].number);
    EXPECT_EQ(life.first->event, took.number);
    EXPECT_EQ(life.first->event_name, "step_done");
    EXPECT_EQ(life.equal, static_cast<std::int64_t>(took.number) - 1);
    return;
  }
  FAIL() << "no step";
}

TEST(StageReplay, AChangedDecisionIsNamedByItsFields) {
  auto entries = recorded();
  const auto decisions = places<Record>(entries);
  auto& record = std::get<Record>(entries[decisions[decisions.size() / 2]].what);
  record.value += 5;
  const StagesReport report = replay(entries);
  ASSERT_EQ(report.different(), 1);
  for (const StageLife& life : report.lives) {
    if (!life.first) continue;
    EXPECT_EQ(life.first->number, decisions[decisions.size() / 2]);
    EXPECT_EQ(life.first->what.find("decision " + record.kind + ": value: then "), 0U)
        << life.first->what;
  }
}

TEST(StageReplay, AnEntryThatIsGoneOrTooManyIsFound) {
  const auto whole = recorded();
  const auto decisions = places<Record>(whole);
  auto gone = whole;
  gone.erase(gone.begin() + static_cast<std::ptrdiff_t>(decisions[4]));
  for (std::size_t i = 0; i < gone.size(); ++i)
    gone[i].number = i; // Nothing says that it is missing.
  EXPECT_EQ(replay(gone).different(), 1);
  auto twice = whole;
  twice.insert(twice.begin() + static_cast<std::ptrdiff_t>(decisions[4]), whole[decisions[4]]);
  for (std::size_t i = 0; i < twice.size(); ++i)
    twice[i].number = i;
  EXPECT_EQ(replay(twice).different(), 1);
}

TEST(StageReplay, LostEntriesAreNoDifferenceAndLostEventsStopTheirStage) {
  const auto whole = recorded();
  const auto decisions = places<Record>(whole);
  auto gone = whole;
  gone.erase(gone.begin() + static_cast<std::ptrdiff_t>(decisions[4]));
  const StagesReport report = replay(gone);
  EXPECT_EQ(report.different(), 0);
  EXPECT_EQ(report.stopped(), 0) << "only what was said is missing";
  EXPECT_EQ(report.equal(), report.events());

  for (const std::size_t at : places<StageTook>(whole)) {
    auto lost = whole;
    const StageRef stage = lost[at].stage;
    const std::uint64_t number = std::get<StageTook>(lost[at].what).number;
    lost.erase(lost.begin() + static_cast<std::ptrdiff_t>(at));
    const StagesReport after = replay(lost);
    ASSERT_EQ(after.different(), 0) << at;
    for (const StageLife& life : after.lives) {
      if (life.stage != stage) continue;
      if (life.stopped.empty()) continue; // It was the last one of its stage.
      EXPECT_NE(life.stopped.find("events " + std::to_string(number) + " to "), std::string::npos)
          << life.stopped;
    }
  }
}

TEST(StageReplay, ARingThatDroppedTheBeginningSaysSo) {
  auto entries = recorded();
  entries.erase(entries.begin(), entries.begin() + 30);
  const StagesReport report = replay(entries);
  EXPECT_EQ(report.different(), 0);
  EXPECT_EQ(report.stopped(), 2);
  EXPECT_EQ(report.equal(), 0);
  for (const StageLife& life : report.lives)
    EXPECT_NE(life.stopped.find("its beginning is not in this ledger"), std::string::npos);
}

TEST(StageReplay, ALedgerThatWasCutIsEqualAsFarAsItGoes) {
  const auto whole = recorded(4);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const StagesReport report = replay({whole.begin(), whole.begin() + static_cast<int>(size)});
    ASSERT_EQ(report.different(), 0) << size;
    ASSERT_EQ(report.stopped(), 0) << size;
    ASSERT_EQ(report.equal(), report.events()) << size;
  }
}

TEST(StageReplay, ASecondRunIsALifeOfItsOwn) {
  auto entries = recorded(5);
  auto second = recorded(9);
  for (LedgerEntry& entry : second) {
    entry.number = entries.size();
    entries.push_back(entry);
  }
  const StagesReport report = replay(entries);
  EXPECT_EQ(report.lives.size(), 4U);
  EXPECT_EQ(report.equal(), report.events());
}

TEST(StageReplay, ARunWithoutEventsBehindOneWithThemIsNobodysLife) {
  auto entries = recorded(5);
  const std::size_t of_first = entries.size();
  const auto add = [&](LedgerEntry entry) {
    entry.number = entries.size();
    entries.push_back(std::move(entry));
  };
  add({0, entries.back().at_us + 1, {StageKind::driver, {}}, SetLive{{}, SwapCause::start, {}}});
  for (const LedgerEntry& entry : recorded(9)) {
    if (!std::holds_alternative<StageBegan>(entry.what) &&
        !std::holds_alternative<StageTook>(entry.what))
      add(entry);
  }
  ASSERT_GT(entries.size(), of_first + 9);
  const StagesReport report = replay(entries);
  EXPECT_EQ(report.lives.size(), 2U);
  EXPECT_EQ(report.different(), 0);
  EXPECT_EQ(report.equal(), report.events());
}

TEST(StageReplay, WhatCannotBeBuiltSaysWhy) {
  auto entries = recorded(3);
  std::get<StageBegan>(entries[0].what).policies.kinds["queue"].policy = "fcsf";
  std::get<RankOptions>(std::get<StageBegan>(entries[1].what).options).block_tokens = 0;
  const StagesReport report = replay(entries);
  EXPECT_EQ(report.stopped(), 2);
  EXPECT_NE(report.lives[0].stopped.find("fcsf"), std::string::npos) << report.lives[0].stopped;
  EXPECT_NE(report.lives[1].stopped.find("options"), std::string::npos);
  const StagesReport nothing = replay({});
  EXPECT_FALSE(nothing.has_events());
}

} // namespace
} // namespace troupe::sched::testing
