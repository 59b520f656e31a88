// A live batch on real threads, with little room, a rank that dies and a swap of policies: its
// ledger, read back from disk, tells every request's story, and every statement is in it.

#include "actors/ledger_reader.hpp"
#include "schedulers/explain/explainer.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/schedulers/explain/checks.hpp"
#include "tests/support/disturbed_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <tuple>

namespace troupe::test {
namespace {

using namespace sched;

/// The entries of a folder by time, and how many of them are missing.
std::vector<LedgerEntry> entries_of(const std::string& folder) {
  std::vector<LedgerEntry> entries;
  const auto faults = actors::read_ledger(
      folder, [&](LedgerEntry&& entry) { entries.push_back(std::move(entry)); });
  EXPECT_TRUE(faults.ok() && faults->empty());
  return entries;
}

std::map<RankId, std::string> names_of(const std::vector<LedgerEntry>& entries) {
  std::map<RankId, std::string> names;
  for (const LedgerEntry& entry : entries) {
    const auto* change = std::get_if<RankChange>(&entry.what);
    if (change != nullptr) names[change->rank.rank] = change->name;
  }
  return names;
}

/// What must be in the ledger for the stories to be of interest.
struct Troubles {
  std::int64_t preemptions = 0, ranks_lost = 0, swaps = 0;
};

Troubles troubles_of(const std::vector<LedgerEntry>& entries) {
  Troubles out;
  for (const LedgerEntry& entry : entries) {
    if (const auto* finish = std::get_if<Finish>(&entry.what))
      out.preemptions += finish->preemptions;
    const auto* change = std::get_if<RankChange>(&entry.what);
    out.ranks_lost += change != nullptr && !change->up ? 1 : 0;
    const auto* live = std::get_if<SetLive>(&entry.what);
    out.swaps += live != nullptr && live->how == SwapCause::command ? 1 : 0;
  }
  return out;
}

void check_story(const Story& story, const Finish& finish, const sched::testing::Witness& witness) {
  const std::string of = fmt::format("request {}", raw(finish.request));
  EXPECT_EQ(story.latency_us, finish.end_us - finish.arrival_us) << of;
  EXPECT_EQ(story.missing, 0) << of;
  std::int64_t told_us = 0;
  for (const StorySpan& span : story.spans) {
    EXPECT_EQ(span.from_us, told_us) << of;
    told_us = span.to_us;
    for (const std::string& fact : span.facts)
      EXPECT_EQ(witness.check(story, span, fact).problem, "") << of << ": " << fact;
  }
  EXPECT_EQ(told_us, finish.end_us - finish.arrival_us) << of;
  EXPECT_EQ(witness.check_decisions(story), "") << of;
}

TEST(ExplainLive, EveryStoryOfALiveBatchIsInItsLedger) {
  constexpr int kRequests = 120;
  RankDrill drill(death_while_decoding("decode-1"));
  const app::TemporaryFolder folder;
  LiveOptions extra = drill.options();
  extra.ledger_directory = folder.path("ledger");
  SwapsBeside swaps([&](Swapper& swapper, app::LocalSystem&) {
    for (int ms = 0; ms < 20'000 && !drill.fired(); ++ms)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    PolicySet set;
    set.name = "fair";
    set.kinds["queue"].policy = "weighted_fair";
    set.kinds["decode_balancer"].policy = "least_count";
    const SwapEnded ended = swapper.swap(set);
    EXPECT_TRUE(ended.ok) << ended.reason;
  });
  swaps.join_in(extra);
  const LiveRun run = run_live(tight_config(1, 2, 1, 26), outgrowing_requests(kRequests), extra);
  ASSERT_TRUE(run.state.complete) << run.state.message;
  EXPECT_TRUE(drill.fired());
  std::vector<LedgerEntry> entries = entries_of(folder.path("ledger"));
  const Troubles troubles = troubles_of(entries);
  EXPECT_GT(troubles.preemptions, 0);
  EXPECT_GT(troubles.ranks_lost, 0);
  EXPECT_EQ(troubles.swaps, 1);
  std::map<RequestId, Finish> finishes;
  std::map<std::string, Story> stories;
  std::int64_t tries = 0;
  for (const LedgerEntry& entry : entries) {
    if (const auto* finish = std::get_if<Finish>(&entry.what)) finishes[finish->request] = *finish;
  }
  ASSERT_EQ(finishes.size(), static_cast<std::size_t>(kRequests));
  for (const auto& [request, finish] : finishes) {
    Explainer explainer(std::to_string(raw(request)));
    for (const LedgerEntry& entry : entries)
      explainer.take(entry);
    const std::vector<Story> told = explainer.stories();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_NE(told[0].custom_id, "");
    tries += told[0].tries;
    stories[std::to_string(raw(request))] = told[0];
  }
  std::sort(entries.begin(), entries.end(), [](const LedgerEntry& a, const LedgerEntry& b) {
    return std::tie(a.at_us, a.number) < std::tie(b.at_us, b.number);
  });
  const sched::testing::Witness witness(entries, names_of(entries));
  for (const auto& [request, finish] : finishes)
    check_story(stories[std::to_string(raw(request))], finish, witness);
  fmt::print("{} entries, {} requests, {} tries, {} preemptions\n", entries.size(), finishes.size(),
             tries, troubles.preemptions);
  EXPECT_GT(tries, kRequests) << "some were preempted, or on the rank that died";
}

} // namespace
} // namespace troupe::test
