// Stories: how entries become legs, whose story is told, and the words, as golden text.

#include "schedulers/explain/explainer.hpp"
#include "schedulers/explain/life.hpp"
#include "schedulers/explain/story_text.hpp"
#include "schedulers/explain/words.hpp"
#include "tests/support/golden.hpp"
#include "tests/support/sim_builder.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::sched::testing {
namespace {

using sim::testing::kSecond;
using sim::testing::SimBuilder;

std::vector<Story> stories_of(const std::vector<LedgerEntry>& entries, const std::string& who) {
  Explainer explainer(who);
  for (const LedgerEntry& entry : entries)
    explainer.take(entry);
  return explainer.stories();
}

// -- legs ----------------------------------------------------------------------------------------

LedgerEntry said(std::uint64_t number, std::int64_t at_us, StageKind stage, RequestRef ref,
                 Phase phase, std::uint32_t rank = 0) {
  return {number, at_us, {stage, {}}, Milestone{ref, phase, rank_ref(rank), 0, {}}};
}

std::vector<Leg> legs_of_entries(std::vector<LedgerEntry> entries, std::int64_t last_us) {
  static Life life; // Legs point into it.
  life = Life{};
  life.request = RequestId{1};
  life.entries = std::move(entries);
  life.last_us = last_us;
  sort_by_time(life.entries);
  return legs_of(life);
}

TEST(ExplainLegs, TimeOrdersWhatThreadsWroteInAnotherOrder) {
  const std::vector<Leg> legs =
      legs_of_entries({said(1, 20, StageKind::prefill, ref(1), Phase::waits_for_answer),
                       said(2, 10, StageKind::driver, ref(1), Phase::waits_for_rank),
                       said(4, 30, StageKind::prefill, ref(1), Phase::waits_for_step),
                       said(5, 30, StageKind::prefill, ref(1), Phase::prefilling)},
                      50);
  ASSERT_EQ(legs.size(), 4U);
  EXPECT_EQ(legs[0].phase, Phase::waits_for_rank);
  EXPECT_EQ(legs[0].from_us, 10);
  EXPECT_EQ(legs[0].to_us, 20);
  EXPECT_EQ(legs[2].to_us, 30) << "of one instant, the number orders";
  EXPECT_EQ(legs[3].phase, Phase::prefilling);
  EXPECT_EQ(legs[3].to_us, 50) << "the last one lasts until the ledger ends";
}

TEST(ExplainLegs, OldAttemptsAndWordsAfterTheEndChangeNothing) {
  const std::vector<Leg> legs =
      legs_of_entries({said(1, 10, StageKind::driver, ref(1, 1), Phase::waits_for_rank),
                       said(2, 20, StageKind::driver, ref(1, 2), Phase::waits_for_rank),
                       said(3, 30, StageKind::decode, ref(1, 1), Phase::decoding, 2),
                       said(4, 40, StageKind::prefill, ref(2, 3), Phase::prefilling),
                       said(5, 50, StageKind::driver, ref(1, 2), Phase::ended),
                       said(6, 60, StageKind::prefill, ref(1, 2), Phase::waits_for_answer)},
                      70);
  ASSERT_EQ(legs.size(), 2U);
  EXPECT_EQ(legs[1].ref, ref(1, 2));
  EXPECT_EQ(legs[1].to_us, 50);
}

TEST(ExplainLegs, WhichPhaseMayFollow) {
  EXPECT_TRUE(may_follow(Phase::waits_for_answer, Phase::waits_for_rank, true));
  EXPECT_TRUE(may_follow(Phase::handing_off, Phase::waits_for_room, true));
  EXPECT_TRUE(may_follow(Phase::decoding, Phase::waits_for_rank, false));
  EXPECT_TRUE(may_follow(Phase::prefilling, Phase::ended, true));
  EXPECT_FALSE(may_follow(Phase::decoding, Phase::waits_for_rank, true));
  EXPECT_FALSE(may_follow(Phase::decoding, Phase::prefilling, false));
  EXPECT_FALSE(may_follow(Phase::waits_for_rank, Phase::prefilling, true));
  EXPECT_FALSE(may_follow(Phase::ended, Phase::waits_for_rank, false));
}

// -- words ---------------------------------------------------------------------------------------

TEST(ExplainWords, DurationsAreExact) {
  EXPECT_EQ(duration_text(0), "0 us");
  EXPECT_EQ(duration_text(999), "999 us");
  EXPECT_EQ(duration_text(1'000), "1.000 ms");
  EXPECT_EQ(duration_text(9'999'999), "9999.999 ms");
  EXPECT_EQ(duration_text(10'000'007), "10.000007 s");
  EXPECT_EQ(duration_text(-5), "-5 us");
}

TEST(ExplainWords, APolicyIsNamedWithTheEpochsItDecidedIn) {
  Record record;
  record.kind = "queue";
  record.policy = "fcfs";
  record.epoch = PolicyEpoch{1375};
  EXPECT_EQ(policy_text(record), "queue policy fcfs (epoch 1375)");
  EXPECT_EQ(policy_text(record, {PolicyEpoch{1379}, PolicyEpoch{1375}, PolicyEpoch{1377}}),
            "queue policy fcfs (3 epochs, 1375 to 1379)");
  Record other = record;
  other.epoch = PolicyEpoch{1379};
  EXPECT_TRUE(same_words(record, other)) << "but for the epoch";
  other.reason = Reason::replaced_invalid;
  EXPECT_FALSE(same_words(record, other));
  EXPECT_EQ(policy_text(other, {PolicyEpoch{1}, PolicyEpoch{2}}),
            "queue policy fcfs (2 epochs, 1 to 2, in place of an invalid answer)");
}

TEST(ExplainWords, WhatARankLacks) {
  RankView rank;
  rank.role = Role::prefill;
  rank.block_tokens = 4;
  rank.kv_blocks_total = 10;
  rank.kv_blocks_free = 2;
  rank.slots_total = 1;
  RequestView request;
  request.prompt = 12;
  request.new_tokens_max = 1;
  EXPECT_EQ(lacks_text({request, {}}, rank), "no free slot, 2 free blocks of 3 needed");
  rank.slots_free = 1;
  rank.kv_blocks_free = 3;
  EXPECT_EQ(lacks_text({request, {}}, rank), "");
  rank.held = true;
  EXPECT_EQ(lacks_text({request, {}}, rank), "it was kept for others");
  request.prompt = 41;
  EXPECT_EQ(lacks_text({request, {}}, rank), "it could never hold it");
}

// -- whose story ---------------------------------------------------------------------------------

/// Entries of a run of requests on one prefill rank and one small decode rank.
std::vector<LedgerEntry> simulated(int requests) {
  SimBuilder builder(
      {{.role = Role::prefill, .kv_blocks = 12}, {.role = Role::decode, .kv_blocks = 8}});
  for (int i = 0; i < requests; ++i)
    builder.request(10 + i, 12, 6);
  sim::Simulator simulator(builder.options, builder.requests);
  EXPECT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  return simulator.entries();
}

TEST(Explainer, FindsByNameAndByNumber) {
  const std::vector<LedgerEntry> entries = simulated(3);
  const std::vector<Story> named = stories_of(entries, "request-2");
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].request, RequestId{2});
  const std::vector<Story> numbered = stories_of(entries, "2");
  ASSERT_EQ(numbered.size(), 1U);
  EXPECT_EQ(story_text(numbered[0]), story_text(named[0]));
  EXPECT_TRUE(stories_of(entries, "request-9").empty());
  EXPECT_TRUE(stories_of(entries, "9").empty());
  EXPECT_TRUE(stories_of(entries, "0").empty());
}

TEST(Explainer, ANameGoesBeforeANumberAndMayMeanSeveralChoices) {
  std::vector<LedgerEntry> entries = simulated(3);
  for (LedgerEntry& entry : entries) {
    auto* named = std::get_if<RequestNamed>(&entry.what);
    if (named != nullptr && named->request != RequestId{2}) named->custom_id = "2";
  }
  const std::vector<Story> stories = stories_of(entries, "2");
  ASSERT_EQ(stories.size(), 2U);
  EXPECT_EQ(stories[0].request, RequestId{1});
  EXPECT_EQ(stories[1].request, RequestId{3});
}

TEST(Explainer, OfARequestThatTwoRunsMetTheLastOneIsTold) {
  std::vector<LedgerEntry> entries = simulated(2);
  const std::string once = story_text(stories_of(entries, "request-1").at(0));
  std::vector<LedgerEntry> cut = entries;
  cut.resize(cut.size() / 2); // The first run was killed; its clock ran ahead.
  for (LedgerEntry& entry : cut)
    entry.at_us += 7'000'000;
  std::uint64_t number = cut.back().number;
  for (LedgerEntry& entry : entries) {
    entry.number = ++number;
    cut.push_back(entry);
  }
  const std::vector<Story> same_epoch = stories_of(cut, "request-1");
  ASSERT_EQ(same_epoch.size(), 1U);
  EXPECT_EQ(story_text(same_epoch[0]), once);
  for (LedgerEntry& entry : cut) {
    auto* live = std::get_if<SetLive>(&entry.what);
    if (live != nullptr && entry.number > 1) live->set.epoch = PolicyEpoch{5};
  }
  const std::vector<Story> stories = stories_of(cut, "request-1");
  ASSERT_EQ(stories.size(), 1U);
  EXPECT_EQ(story_text(stories[0]), once);
}

TEST(Explainer, ALedgerThatEndsEarlyTellsSoFar) {
  std::vector<LedgerEntry> entries = simulated(2);
  entries.resize(entries.size() / 2);
  const std::vector<Story> stories = stories_of(entries, "request-2");
  ASSERT_EQ(stories.size(), 1U);
  EXPECT_FALSE(stories[0].ended);
  EXPECT_EQ(stories[0].arrival_us + stories[0].latency_us, entries.back().at_us);
  EXPECT_EQ(stories[0].spans.back().to_us, stories[0].latency_us);
}

TEST(Explainer, ALedgerThatBeginsLateSaysWhatItDoesNotHave) {
  std::vector<LedgerEntry> entries = simulated(2);
  const Story whole = stories_of(entries, "2").at(0);
  const std::int64_t late_us = whole.arrival_us + whole.latency_us / 2;
  std::erase_if(entries, [&](const LedgerEntry& entry) { return entry.at_us < late_us; });
  const std::vector<Story> stories = stories_of(entries, "2");
  ASSERT_EQ(stories.size(), 1U);
  EXPECT_EQ(stories[0].latency_us, whole.latency_us);
  EXPECT_EQ(stories[0].spans.front().what, "not in the ledger");
  EXPECT_EQ(stories[0].spans.front().from_us, 0);
  EXPECT_EQ(stories[0].spans.back().to_us, whole.latency_us);
}

TEST(Explainer, CountsWhatTheLedgerLost) {
  std::vector<LedgerEntry> entries = simulated(1);
  EXPECT_EQ(stories_of(entries, "1").at(0).missing, 0);
  const auto middle = entries.begin() + static_cast<std::ptrdiff_t>(entries.size() / 2);
  entries.erase(middle, middle + 2);
  const Story story = stories_of(entries, "1").at(0);
  EXPECT_EQ(story.missing, 2);
  EXPECT_NE(story_text(story).find("lost 2 entries"), std::string::npos);
}

// -- as text -------------------------------------------------------------------------------------

/// One prefill rank and two small decode ranks, one of which dies; answers longer than expected;
/// a swap. What happens to four requests.
std::vector<LedgerEntry> eventful() {
  SimBuilder builder({{.role = Role::prefill, .kv_blocks = 12, .slots = 2},
                      {.role = Role::decode, .kv_blocks = 9, .slots = 2},
                      {.role = Role::decode, .kv_blocks = 9, .slots = 2}});
  builder.options.driver.reservation = Reservation::expected;
  builder.options.driver.expected_permille = 200;
  for (int i = 0; i < 12; ++i)
    builder.request(10 + i * 3'000, 10, 24).answer_tokens = i < 8 ? 2 : 0;
  builder.fault(sim::FaultKind::kill, 2, 140'000, 20'000);
  sim::SimSwap swap;
  swap.at_us = 60'000;
  swap.set.name = "short first";
  swap.set.kinds["queue"].policy = "sjf";
  swap.reason = "short answers first";
  builder.options.swaps = {swap};
  sim::Simulator simulator(builder.options, builder.requests);
  EXPECT_TRUE(simulator.run(600 * kSecond, 30 * kSecond)) << simulator.problem();
  EXPECT_GT(simulator.report().preempted, 0);
  EXPECT_GT(simulator.report().retried, 0);
  return simulator.entries();
}

TEST(ExplainText, AnEventfulRun) {
  const std::vector<LedgerEntry> entries = eventful();
  std::string text;
  for (const char* who : {"request-1", "request-10", "request-11", "request-12"})
    text += story_text(stories_of(entries, who).at(0)) + "\n";
  test::expect_golden("tests/schedulers/explain/eventful.txt", text);
}

/// What `whole` tells of the time before `until_us`: name, begin and end of each span.
std::vector<std::string> spans_until(const Story& whole, std::int64_t until_us) {
  std::vector<std::string> out;
  for (const StorySpan& span : whole.spans) {
    if (span.from_us >= until_us) break;
    out.push_back(span.what + " " + std::to_string(span.from_us) + " " +
                  std::to_string(std::min(span.to_us, until_us)));
  }
  return out;
}

/// A job is asked while it runs, after each of its entries: the story so far is the beginning of
/// the whole one, and goes on until it was asked.
TEST(Explainer, OfARunningJobItTellsTheBeginningOfTheWholeStory) {
  const std::vector<LedgerEntry> entries = eventful();
  const std::int64_t first_us = entries.front().at_us;
  std::int64_t asked = 0;
  std::int64_t running = 0;
  for (const char* who : {"request-1", "request-10", "request-12"}) {
    const Story whole = stories_of(entries, who).at(0);
    for (std::size_t taken = 1; taken < entries.size(); taken += 7) {
      const std::int64_t now_us = entries[taken - 1].at_us;
      if (entries[taken].at_us == now_us) continue; // The rest of that instant is yet to come.
      Explainer explainer(who);
      for (std::size_t i = 0; i < taken; ++i)
        explainer.take(entries[i]);
      explainer.runs_until(now_us + 1);
      const std::vector<Story> stories = explainer.stories();
      ASSERT_LE(stories.size(), 1U);
      ASSERT_EQ(stories.empty(), now_us < whole.arrival_us) << who << " at " << now_us - first_us;
      if (stories.empty()) continue;
      const Story& story = stories[0];
      ++asked;
      ASSERT_EQ(story.ended, now_us >= whole.arrival_us + whole.latency_us);
      ASSERT_EQ(story.runs, !story.ended);
      running += story.runs ? 1 : 0;
      if (story.runs) {
        ASSERT_EQ(story.arrival_us + story.latency_us, now_us + 1);
      }
      ASSERT_EQ(spans_until(story, story.latency_us), spans_until(whole, story.latency_us))
          << who << " at " << now_us - first_us << "\n"
          << story_text(story);
    }
  }
  EXPECT_GT(running, 30);
  EXPECT_GT(asked, running) << "some had ended";
}

TEST(ExplainText, WhyNotTakesANameBeforeANumber) {
  Story story;
  StoryDecision& decision = story.decisions.emplace_back();
  decision.chosen = "1";
  for (const auto& [rank, name] : {std::pair{5U, "1"}, std::pair{1U, "rank 1"}}) {
    StoryCandidate& one = decision.candidates.emplace_back();
    one.rank = rank_ref(rank);
    one.name = name;
    one.lacks = "no free slot";
  }
  EXPECT_NE(why_not(story, "1").at(0).find("it was chosen"), std::string::npos);
  EXPECT_NE(why_not(story, "5").at(0).find("it was chosen"), std::string::npos);
  EXPECT_NE(why_not(story, "rank 1").at(0).find("no free slot"), std::string::npos);
}

TEST(ExplainText, WhyNot) {
  const std::vector<LedgerEntry> entries = eventful();
  const Story story = stories_of(entries, "request-11").at(0);
  std::string text;
  for (const char* rank : {"decode-1", "decode-2"}) {
    text += std::string(rank) + "\n";
    for (const std::string& line : why_not(story, rank))
      text += "  " + line + "\n";
  }
  EXPECT_TRUE(why_not(story, "decode-7").empty());
  EXPECT_TRUE(why_not(story, "3").empty());
  EXPECT_EQ(why_not(story, "2"), why_not(story, "decode-2")) << "its number will do";
  EXPECT_EQ(candidates_of(story),
            (std::map<RankId, std::string>{
                {RankId{0}, "prefill-0"}, {RankId{1}, "decode-1"}, {RankId{2}, "decode-2"}}));
  test::expect_golden("tests/schedulers/explain/why_not.txt", text);
}

} // namespace
} // namespace troupe::sched::testing
