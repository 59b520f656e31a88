// The decision ledger: bounded segments, lines that say why.

#include "actors/ledger.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace troupe::actors {
namespace {

struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-ledger-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

sched::Record record(std::uint64_t request) {
  sched::Record r;
  r.kind = "prefill_router";
  r.policy = "least_work";
  r.epoch = PolicyEpoch{3};
  r.ref = {RequestId{request}, Attempt{1}};
  r.rank = {RankId{2}, Incarnation{1}};
  r.reason = sched::Reason::lowest_score;
  r.view_age_us = 12;
  r.candidates = {{RankId{1}, 50, true}, {RankId{2}, 40, true}};
  return r;
}

TEST(Ledger, LineSaysWhoChoseWhatAndWhy) {
  EXPECT_EQ(ledger_line(record(9), 4, 77),
            R"({"n":4,"now_us":77,"kind":"prefill_router","policy":"least_work","epoch":3,)"
            R"("request":9,"attempt":1,"rank":2,"reason":"lowest_score","value":0,)"
            R"("view_age_us":12,"candidates":[{"rank":1,"score":50,"feasible":true},)"
            R"({"rank":2,"score":40,"feasible":true}]})");
}

TEST(Ledger, StaysWithinItsSizeAndKeepsTheNewest) {
  const Folder folder;
  constexpr std::int64_t kSizeMax = 1 << 20;
  auto ledger = Ledger::open(folder.path.string(), kSizeMax);
  ASSERT_TRUE(ledger.ok());
  constexpr int kRecords = 20'000; // About 5 MB of lines.
  for (int i = 0; i < kRecords; ++i)
    (*ledger)->append(sched::StageRef{}, record(static_cast<std::uint64_t>(i)), i);
  (*ledger)->flush();
  EXPECT_EQ((*ledger)->lost(), 0);
  EXPECT_EQ((*ledger)->records(), kRecords);
  std::int64_t bytes = 0;
  std::string last_file;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path)) {
    bytes += static_cast<std::int64_t>(entry.file_size());
    last_file = std::max(last_file, entry.path().string());
  }
  EXPECT_LE(bytes, kSizeMax + (1 << 18));
  std::ifstream in(last_file);
  std::string line;
  std::string last;
  while (std::getline(in, line))
    last = line;
  EXPECT_NE(last.find("\"request\":19999,"), std::string::npos) << last;
}

TEST(Ledger, AnUnwritableFolderIsAnError) {
  auto ledger = Ledger::open("/proc/troupe-ledger", 1 << 20);
  ASSERT_FALSE(ledger.ok());
  EXPECT_NE(ledger.error().message.find("/proc/troupe-ledger"), std::string::npos);
}

} // namespace
} // namespace troupe::actors
