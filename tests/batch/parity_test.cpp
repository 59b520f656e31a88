// The stages alone decide what they decided inside the actors: the events of a live batch, fed to
// fresh stages with their recorded times, give the very lines of the ledger.

#include "tests/support/live_system.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>

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
  for (int i = 0; i < 40; ++i) {
    const std::vector<int> prompt(static_cast<std::size_t>(5 + i * 13 % 200), 40 + i);
    out.emplace_back(text::Endpoint::completions,
                     fmt::format(R"({{"prompt":[{}],"max_tokens":{},"seed":1,"ignore_eos":true}})",
                                 fmt::join(prompt, ","), 2 + i % 9));
  }
  return out;
}

/// Lines of the ledger in the order of one decision maker: by kind, and by rank for steps.
using Decisions = std::map<std::string, std::vector<std::string>>;

std::string without_number(const std::string& line) {
  static const std::regex number(R"(^\{"n":\d+,)");
  return std::regex_replace(line, number, "{");
}

std::string maker_of(const std::string& line) {
  static const std::regex kind(R"re("kind":"(\w+)")re");
  static const std::regex rank(R"re("rank":(\d+))re");
  std::smatch found;
  std::regex_search(line, found, kind);
  std::string maker = found[1];
  if (maker == "step" && std::regex_search(line, found, rank)) maker += "/" + found[1].str();
  return maker;
}

Decisions read_ledger(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  Decisions out;
  for (const fs::path& file : files) {
    std::ifstream in(file);
    std::string line;
    while (std::getline(in, line))
      out[maker_of(line)].push_back(without_number(line));
  }
  return out;
}

/// Feeds recorded events to a fresh stage and collects its decisions.
template <class Stage>
void replay(Stage& stage, const std::vector<Recorded>& events, Decisions& out) {
  for (const Recorded& recorded : events) {
    sched::Effects effects;
    ASSERT_TRUE(sched::deliver(stage, recorded.event, recorded.now_us, effects));
    for (const sched::Effect& effect : effects.list()) {
      const auto* record = std::get_if<sched::Record>(&effect);
      if (record == nullptr) continue;
      const std::string line = actors::ledger_line(*record, 0, recorded.now_us);
      out[maker_of(line)].push_back(without_number(line));
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
  Decisions got;
  sched::DriverStage driver(app::driver_options(built), {}, registry);
  replay(driver, events["driver"], got);
  sched::PrefillStage prefill(app::prefill_options(built), {}, registry);
  replay(prefill, events["prefill"], got);
  sched::DecodeStage decode(app::decode_options(built), {}, registry);
  replay(decode, events["decode"], got);
  auto ranks = app::open_ranks(built);
  ASSERT_TRUE(ranks.ok());
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    const app::OpenedRank& rank = (*ranks)[i];
    const auto& of_rank = events[rank.name];
    ASSERT_FALSE(of_rank.empty());
    sched::RankStage stage(app::rank_options(built, rank, RankId{static_cast<std::uint32_t>(i)}),
                           {}, registry);
    sched::Effects ignored;
    stage.start(of_rank.front().now_us, ignored);
    replay(stage, of_rank, got);
  }

  const Decisions want = read_ledger(folder);
  EXPECT_GE(want.size(), 7U);
  for (const auto& [maker, lines] : want) {
    EXPECT_GE(lines.size(), 10U) << maker;
    ASSERT_EQ(got[maker].size(), lines.size()) << maker;
    for (std::size_t i = 0; i < lines.size(); ++i)
      ASSERT_EQ(got[maker][i], lines[i]) << maker;
  }
  fs::remove_all(folder);
}

} // namespace
} // namespace troupe::test
