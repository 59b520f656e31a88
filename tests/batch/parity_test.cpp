// The stages alone decide what they decided inside the actors: the events of a live batch, fed to
// fresh stages with their recorded times, give the very entries of the ledger.

#include "actors/ledger_reader.hpp"
#include "actors/ledger_text.hpp"
#include "tests/support/live_system.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <mutex>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

struct Recorded {
  std::int64_t now_us = 0;
  sched::Event event;
};

app::SystemConfig config() {
  app::SystemConfig out;
  out.model.path = kModel;
  out.kv.memory_bytes = 4LL << 20;
  out.limits.sequences_max = 4; // So that requests queue and reservations are refused.
  out.ranks.clear();
  for (const auto role : {sched::Role::prefill, sched::Role::decode}) {
    app::RankGroupConfig group;
    group.name = sched::role_name(role);
    group.role = role;
    group.count = 2;
    out.ranks.push_back(group);
  }
  return out;
}

std::vector<Request> requests() {
  std::vector<Request> out;
  for (int i = 0; i < 160; ++i) {
    const std::vector<int> prompt(static_cast<std::size_t>(5 + i * 13 % 200), 40 + i);
    out.emplace_back(text::Endpoint::completions,
                     fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":1,"ignore_eos":true}})",
                                 fmt::join(prompt, ","), 2 + i % 9));
  }
  return out;
}

/// What one stage said, in order: decisions with their questions, observations, milestones,
/// endings.
using Said = std::map<std::string, std::vector<std::string>>;

void note(sched::LedgerEntry entry, Said& out) {
  const bool is_said_by_a_stage = !std::holds_alternative<sched::SetLive>(entry.what) &&
                                  !std::holds_alternative<sched::RequestNamed>(entry.what);
  if (!is_said_by_a_stage) return;
  entry.number = 0;
  out[stage_text(entry.stage)].push_back(actors::entry_json(entry));
}

/// Feeds recorded events to a fresh stage and collects what it says.
template <class Stage>
void replay(Stage& stage, const sched::StageRef& ref, const std::vector<Recorded>& events,
            Said& out) {
  for (const Recorded& recorded : events) {
    sched::Effects effects;
    ASSERT_TRUE(sched::deliver(stage, recorded.event, recorded.now_us, effects));
    for (const sched::Effect& effect : effects.list()) {
      if (const auto* record = std::get_if<sched::Record>(&effect))
        note({0, recorded.now_us, ref, *record}, out);
      else if (const auto* observed = std::get_if<sched::Observed>(&effect))
        note({0, recorded.now_us, ref, *observed}, out);
      else if (const auto* milestone = std::get_if<sched::Milestone>(&effect))
        note({0, recorded.now_us, ref, *milestone}, out);
      else if (const auto* finish = std::get_if<sched::Finish>(&effect))
        note({0, recorded.now_us, ref, *finish}, out);
      else if (const auto* change = std::get_if<sched::RankChange>(&effect))
        note({0, recorded.now_us, ref, *change}, out);
    }
  }
}

TEST(Parity, EventsOfALiveBatchGiveTheSameDecisions) {
  std::string name = (fs::temp_directory_path() / "troupe-parity-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  std::map<std::string, std::vector<Recorded>> events;
  std::mutex mutex;
  LiveOptions extra;
  extra.ledger_directory = folder.string();
  extra.tap = [&](const std::string& stage, const sched::Event& event, std::int64_t now_us) {
    const std::lock_guard lock(mutex);
    events[stage].push_back({now_us, event});
  };
  const LiveRun run = run_live(config(), requests(), extra);
  ASSERT_TRUE(run.state.complete);
  EXPECT_EQ(run.failed, 0);

  sched::PolicyRegistry registry;
  sched::register_builtin_policies(registry);
  const app::SystemConfig built = config();
  Said got;
  sched::DriverStage driver(app::driver_options(built), {}, registry);
  replay(driver, {sched::StageKind::driver, {}}, events["driver"], got);
  sched::PrefillStage prefill(app::prefill_options(built), {}, registry);
  replay(prefill, {sched::StageKind::prefill, {}}, events["prefill"], got);
  sched::DecodeStage decode(app::decode_options(built), {}, registry);
  replay(decode, {sched::StageKind::decode, {}}, events["decode"], got);
  auto ranks = app::open_ranks(built);
  ASSERT_TRUE(ranks.ok());
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const app::OpenedRank& rank = (*ranks)[i];
    const auto& of_rank = events[rank.name];
    ASSERT_FALSE(of_rank.empty());
    const auto options = app::rank_options(built, rank, RankId{static_cast<std::uint32_t>(i)});
    sched::RankStage stage(options, {}, registry);
    sched::Effects ignored;
    stage.start(of_rank.front().now_us, ignored);
    replay(stage, {sched::StageKind::rank, options.rank}, of_rank, got);
  }

  Said want;
  const auto faults = actors::read_ledger(
      folder.string(), [&](sched::LedgerEntry&& entry) { note(std::move(entry), want); });
  ASSERT_TRUE(faults.ok() && faults->empty());
  EXPECT_EQ(want.size(), 7U);
  for (const auto& [stage, lines] : want) {
    EXPECT_GE(lines.size(), 10U) << stage;
    ASSERT_EQ(got[stage].size(), lines.size()) << stage;
    for (std::size_t i = 0; i < lines.size(); ++i)
      ASSERT_EQ(got[stage][i], lines[i]) << stage;
  }
  fs::remove_all(folder);
}

} // namespace
} // namespace troupe::test
