// A live job whose ledger keeps events is run again stage by stage: preemptions, the death of a
// rank, swaps and plans of experts included, every decision and every effect is the same.

#include "actors/ledger_reader.hpp"
#include "schedulers/replay/stage_replayer.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/disturbed_job.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::test {
namespace {

constexpr int kRequests = 90;

/// Two ranks of either role with room for about three requests, so that answers outgrow it.
app::SystemConfig config() {
  app::SystemConfig out = tight_config(2, 2, 0, 32);
  out.experts.interval_ms = 50;
  out.ledger.level = "events";
  return out;
}

/// As a person would while the job runs.
void swap_and_roll_back(Swapper& swapper, app::LocalSystem& /*system*/) {
  sched::PolicySet set;
  set.name = "fair";
  set.probation.window_us = 0;
  set.kinds["queue"].policy = "weighted_fair";
  set.kinds["decode_balancer"].policy = "two_choices";
  set.kinds["expert_placement"].policy = "window_greedy";
  EXPECT_TRUE(swapper.swap(set).ok);
  EXPECT_TRUE(swapper.roll_back().ok);
}

/// The entries of a job that was disturbed in every way.
const std::vector<sched::LedgerEntry>& entries() {
  static const std::vector<sched::LedgerEntry> all = [] {
    RankDrill drill(death_while_decoding("decode-1"));
    SwapsBeside swaps(swap_and_roll_back);
    const app::TemporaryFolder folder;
    LiveOptions extra = drill.options();
    swaps.join_in(extra);
    extra.ledger_directory = folder.path("ledger");
    const LiveRun run = run_live(config(), outgrowing_requests(kRequests), extra);
    swaps.wait();
    EXPECT_TRUE(run.state.complete) << run.state.message;
    EXPECT_EQ(run.failed, 0);
    EXPECT_TRUE(drill.fired());
    EXPECT_TRUE(swaps.over);
    std::vector<sched::LedgerEntry> out;
    const auto faults = actors::read_ledger(folder.path("ledger"), [&](sched::LedgerEntry&& entry) {
      EXPECT_EQ(entry.number, out.size()) << "nothing is lost";
      out.push_back(std::move(entry));
    });
    EXPECT_TRUE(faults.ok() && faults->empty());
    return out;
  }();
  return all;
}

sched::StagesReport replay(const std::vector<sched::LedgerEntry>& all) {
  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  sched::StageReplayer replayer(registry);
  for (const sched::LedgerEntry& entry : all)
    replayer.feed(entry);
  return replayer.finish();
}

std::string first_of(const sched::StagesReport& report) {
  for (const sched::StageLife& life : report.lives) {
    if (life.first) {
      return fmt::format("{} event {} {}: {}", stage_text(life.stage), life.first->event,
                         life.first->event_name, life.first->what);
    }
    if (!life.stopped.empty()) return stage_text(life.stage) + ": " + life.stopped;
  }
  return {};
}

TEST(StageReplayLive, ADisturbedJobIsRunAgainWhole) {
  std::map<std::string_view, std::int64_t> events;
  std::map<std::string, std::int64_t> decisions;
  for (const sched::LedgerEntry& entry : entries()) {
    if (const auto* record = std::get_if<sched::Record>(&entry.what)) ++decisions[record->kind];
    const auto* took = std::get_if<sched::StageTook>(&entry.what);
    if (took != nullptr && took->event) ++events[sched::kEventNames[took->event->index()]];
  }
  const sched::StagesReport report = replay(entries());
  EXPECT_EQ(report.equal(), report.events()) << first_of(report);
  EXPECT_EQ(report.different(), 0) << first_of(report);
  EXPECT_EQ(report.stopped(), 0) << first_of(report);
  ASSERT_EQ(report.lives.size(), 9U) << "driver, chunker, balancer, experts, four ranks, one again";
  for (const sched::StageLife& life : report.lives) {
    EXPECT_GT(life.events, 2) << stage_text(life.stage);
    EXPECT_EQ(life.cut, 0) << stage_text(life.stage);
  }
  // What the job went through was recorded.
  for (const char* name : {"arrive", "submit", "assign", "step_done", "pull", "adopt", "tokens",
                           "timer", "rank_down", "swap_prepare", "swap_commit", "expert_loads"})
    EXPECT_GT(events[name], 0) << name;
  EXPECT_GT(decisions["preemption"], 0);
  EXPECT_GT(decisions["decode_balancer"], kRequests);
  fmt::print("{} entries, {} events of {} lives, {} preemptions\n", entries().size(),
             report.events(), report.lives.size(), decisions["preemption"]);
}

/// Changes one number of the options of a stage.
void change(sched::StageOptions& options) {
  if (auto* driver = std::get_if<sched::DriverOptions>(&options)) ++driver->watch_every_us;
  if (auto* prefill = std::get_if<sched::PrefillOptions>(&options)) ++prefill->lease_us;
  if (auto* decode = std::get_if<sched::DecodeOptions>(&options)) ++decode->lease_us;
  if (auto* rank = std::get_if<sched::RankOptions>(&options)) --rank->kv_blocks;
  if (auto* experts = std::get_if<sched::ExpertOptions>(&options)) ++experts->interval_us;
}

TEST(StageReplayLive, AnOptionThatWasAnotherOneIsFoundOnEveryStage) {
  std::set<sched::StageKind> kinds;
  for (std::size_t at = 0; at < entries().size(); ++at) {
    const auto* began = std::get_if<sched::StageBegan>(&entries()[at].what);
    if (began == nullptr || !kinds.insert(entries()[at].stage.kind).second) continue;
    std::vector<sched::LedgerEntry> all = entries();
    change(std::get<sched::StageBegan>(all[at].what).options);
    const sched::StagesReport report = replay(all);
    EXPECT_EQ(report.different(), 1) << stage_text(entries()[at].stage);
    for (const sched::StageLife& life : report.lives) {
      if (!life.first) continue;
      EXPECT_EQ(life.stage, entries()[at].stage);
      EXPECT_LE(life.equal, static_cast<std::int64_t>(life.first->event) - 1);
      EXPECT_FALSE(life.first->what.empty());
    }
  }
  EXPECT_EQ(kinds.size(), 5U);
}

/// Whether a request went another way is in its placement: each planted one is found.
TEST(StageReplayLive, APlantedPlacementIsNamed) {
  std::vector<sched::LedgerEntry> all = entries();
  std::int64_t planted = 0;
  for (sched::LedgerEntry& entry : all) {
    auto* record = std::get_if<sched::Record>(&entry.what);
    if (record == nullptr || record->kind != "decode_balancer" || record->value == 0) continue;
    if (++planted != 20) continue;
    record->rank.rank = RankId{77};
    const std::uint64_t number = entry.number;
    const sched::StagesReport report = replay(all);
    ASSERT_EQ(report.different(), 1);
    const auto life = std::find_if(report.lives.begin(), report.lives.end(),
                                   [](const auto& one) { return one.first.has_value(); });
    EXPECT_EQ(life->first->number, number);
    EXPECT_NE(life->first->what.find("rank.rank: then 77, now "), std::string::npos)
        << life->first->what;
    return;
  }
  FAIL() << "only " << planted << " placements";
}

} // namespace
} // namespace troupe::test
