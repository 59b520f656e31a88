// The ledger on disk: what is written is read, over cuts, flips, gaps and restarts, within its
// bounds.

#include "actors/ledger.hpp"
#include "actors/ledger_reader.hpp"
#include "actors/ledger_text.hpp"
#include "tests/support/unsized_file.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sys/stat.h>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "troupe-ledger-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
};

constexpr std::int64_t kSize = 1 << 20;
const sched::StageRef kStage{sched::StageKind::rank, {RankId{3}, Incarnation{2}}};

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

sched::SetLive live(std::uint64_t epoch) {
  sched::SetLive out;
  out.set.epoch = PolicyEpoch{epoch};
  out.set.name = fmt::format("set {}", epoch);
  return out;
}

/// Writes `count` decisions about requests `first`, `first` + 1, ...
void write(const fs::path& folder, std::uint64_t first, int count, std::int64_t size = kSize) {
  auto ledger = Ledger::open(folder.string(), size);
  ASSERT_TRUE(ledger.ok()) << ledger.error().message;
  for (int i = 0; i < count; ++i) {
    (*ledger)->append(kStage, record(first + static_cast<std::uint64_t>(i)), i);
    if (i % 200 == 199) (*ledger)->flush(); // Segments are cut between writes.
  }
  (*ledger)->flush();
  EXPECT_EQ((*ledger)->lost(), 0);
  EXPECT_EQ((*ledger)->records(), count);
}

struct Read {
  std::vector<std::uint64_t> requests; ///< Of its decisions.
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> epochs; ///< Of its sets.
  std::vector<LedgerFault> faults;
  std::int64_t lost = 0;
};

Read read(const fs::path& folder) {
  Read out;
  auto reader = LedgerReader::open(folder.string());
  EXPECT_TRUE(reader.ok());
  if (!reader.ok()) return out;
  while (const auto entry = reader->next()) {
    if (const auto* set = std::get_if<sched::SetLive>(&entry->what))
      out.epochs.push_back(raw(set->set.epoch));
    if (const auto* one = std::get_if<sched::Record>(&entry->what)) {
      out.requests.push_back(raw(one->ref.request));
      out.numbers.push_back(entry->number);
      EXPECT_EQ(entry->stage, kStage);
    }
  }
  out.faults = reader->faults();
  out.lost = reader->lost();
  return out;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void spit(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::int64_t bytes_in(const fs::path& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    bytes += static_cast<std::int64_t>(entry.file_size());
  return bytes;
}

TEST(Ledger, IsReadAsItWasWritten) {
  const Folder folder;
  {
    auto ledger = Ledger::open(folder.path.string(), kSize);
    ASSERT_TRUE(ledger.ok());
    (*ledger)->append(live(1), 5);
    (*ledger)->append(live(1), 6); // The same: left out.
    (*ledger)->append(sched::RequestNamed{RequestId{7}, "a \"b\""}, 7);
    (*ledger)->append(kStage, record(7), 8);
    (*ledger)->append(kStage, sched::Milestone{{RequestId{7}, Attempt{1}}}, 9);
    (*ledger)->append(kStage, sched::Finish{RequestId{7}}, 10);
    (*ledger)->append(kStage, sched::Observed{}, 11);
    (*ledger)->append(live(2), 12);
  }
  std::vector<std::string> lines;
  const auto faults = read_ledger(folder.path.string(), [&](sched::LedgerEntry&& entry) {
    lines.push_back(fmt::format("{} {} {} {}", entry.number, entry.at_us, stage_text(entry.stage),
                                entry_kind(entry)));
  });
  ASSERT_TRUE(faults.ok());
  EXPECT_TRUE(faults->empty());
  EXPECT_EQ(lines, (std::vector<std::string>{"0 5 driver set_live", "1 7 driver named",
                                             "2 8 rank 3 decision", "3 9 rank 3 milestone",
                                             "4 10 rank 3 finish", "5 11 rank 3 observed",
                                             "6 12 driver set_live"}));
}

TEST(Ledger, StaysWithinItsSizeAndKeepsTheNewest) {
  const Folder folder;
  constexpr int kRecords = 60'000; // About 3 MB.
  write(folder.path, 1, kRecords);
  EXPECT_LE(bytes_in(folder.path), kSize);
  EXPECT_GE(bytes_in(folder.path), kSize / 2);
  EXPECT_LE(segment_numbers(folder.path.string()).size(), 8U);
  const Read got = read(folder.path);
  EXPECT_TRUE(got.faults.empty());
  EXPECT_EQ(got.lost, 0);
  ASSERT_FALSE(got.requests.empty());
  EXPECT_LT(got.requests.size(), static_cast<std::size_t>(kRecords));
  EXPECT_EQ(got.requests.back(), static_cast<std::uint64_t>(kRecords));
  EXPECT_EQ(got.requests.back() - got.requests.front() + 1, got.requests.size());
}

TEST(Ledger, EachSegmentNamesTheSetsThatAreLive) {
  const Folder folder;
  {
    auto ledger = Ledger::open(folder.path.string(), kSize);
    ASSERT_TRUE(ledger.ok());
    for (const std::uint64_t epoch : {1, 2, 3})
      (*ledger)->append(live(epoch), 1);
    for (int i = 0; i < 30'000; ++i) {
      (*ledger)->append(kStage, record(1), i);
      if (i % 200 == 199) (*ledger)->flush();
    }
  }
  // The set before the last one may still decide; each is told once.
  EXPECT_EQ(read(folder.path).epochs, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(end_of_ledger(folder.path.string()).highest_epoch, PolicyEpoch{3});
}

TEST(Ledger, ARestartGoesOnWithNumbersAndEpochs) {
  const Folder folder;
  EXPECT_EQ(end_of_ledger(folder.path.string()).next_number, 0U);
  write(folder.path, 1, 10);
  EXPECT_EQ(end_of_ledger(folder.path.string()).next_number, 10U);
  write(folder.path, 11, 10);
  const Read got = read(folder.path);
  EXPECT_EQ(got.lost, 0);
  ASSERT_EQ(got.numbers.size(), 20U);
  for (std::uint64_t i = 0; i < 20; ++i)
    EXPECT_EQ(got.numbers[i], i);
  {
    auto ledger = Ledger::open(folder.path.string(), kSize);
    ASSERT_TRUE(ledger.ok());
    (*ledger)->append(live(41), 1);
  }
  write(folder.path, 21, 1); // Without a set of its own.
  EXPECT_EQ(end_of_ledger(folder.path.string()).highest_epoch, PolicyEpoch{41});
}

TEST(LedgerDamage, ATornTailIsToleratedAtEveryLength) {
  const Folder folder;
  write(folder.path, 1, 20);
  const fs::path segment = segment_path(folder.path.string(), 1);
  const std::string whole = slurp(segment);
  const Read all = read(folder.path);
  ASSERT_EQ(all.requests.size(), 20U);
  std::size_t last = 20;
  for (std::size_t size = whole.size(); size-- > 0;) {
    spit(segment, whole.substr(0, size));
    const Read got = read(folder.path);
    ASSERT_LE(got.requests.size(), last);
    last = got.requests.size();
    for (std::size_t i = 0; i < last; ++i)
      ASSERT_EQ(got.requests[i], i + 1);
    if (got.faults.empty()) continue; // A cut between two frames.
    ASSERT_EQ(got.faults.size(), 1U);
    EXPECT_EQ(got.faults[0].file, segment.string());
    EXPECT_EQ(got.faults[0].offset + got.faults[0].bytes, static_cast<std::int64_t>(size));
    EXPECT_TRUE(got.faults[0].torn);
    EXPECT_FALSE(is_damaged(got.faults)) << fault_text(got.faults[0]);
  }
  EXPECT_EQ(last, 0U);
}

/// Where each frame of a segment begins, the head first, and where the file ends.
std::vector<std::int64_t> frame_bounds(const std::string& bytes) {
  std::vector<std::int64_t> bounds;
  std::size_t at = kSegmentMagic.size();
  while (at < bytes.size()) {
    bounds.push_back(static_cast<std::int64_t>(at));
    std::size_t length = 0;
    for (std::size_t i = 4; i-- > 0;)
      length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    at += kFrameHeadBytes + length;
  }
  bounds.push_back(static_cast<std::int64_t>(at));
  return bounds;
}

TEST(LedgerDamage, AFlippedBitCostsItsFrameOnly) {
  const Folder folder;
  write(folder.path, 1, 20);
  write(folder.path, 21, 5);
  const fs::path segment = segment_path(folder.path.string(), 1);
  const std::string whole = slurp(segment);
  const auto bounds = frame_bounds(whole);
  ASSERT_EQ(bounds.size(), 22U);
  for (std::size_t at = kSegmentMagic.size(); at < whole.size(); at += 3) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    spit(segment, bytes);
    const Read got = read(folder.path);
    const auto behind =
        std::upper_bound(bounds.begin(), bounds.end(), static_cast<std::int64_t>(at));
    const auto hit = static_cast<std::uint64_t>(behind - bounds.begin() - 1); // 0 is the head.
    ASSERT_EQ(got.faults.size(), 1U) << at;
    EXPECT_EQ(got.faults[0].file, segment.string());
    EXPECT_EQ(got.faults[0].offset, bounds[hit]);
    EXPECT_EQ(got.faults[0].bytes, bounds[hit + 1] - bounds[hit]) << at;
    const std::string text = fault_text(got.faults[0]);
    EXPECT_NE(text.find(fmt::format(":{}:", got.faults[0].offset)), std::string::npos) << text;
    std::vector<std::uint64_t> expected;
    for (std::uint64_t request = 1; request <= 25; ++request) {
      if (request != hit) expected.push_back(request);
    }
    EXPECT_EQ(got.requests, expected) << at;
    EXPECT_EQ(got.lost, hit > 0 ? 1 : 0) << at;
    // A length that points beyond the file at its end looks as a writer that was stopped does.
    EXPECT_TRUE(hit == 20 || is_damaged(got.faults)) << at;
  }
}

TEST(LedgerDamage, EveryFrameThatIsWholeComesBackWhereverBytesAreHit) {
  constexpr std::uint64_t kSeed = 7;
  std::mt19937_64 draw(kSeed);
  const Folder folder;
  constexpr std::uint64_t kCount = 2'000;
  write(folder.path, 1, kCount, 16 << 20);
  const fs::path segment = segment_path(folder.path.string(), 1);
  const std::string whole = slurp(segment);
  const auto bounds = frame_bounds(whole);
  ASSERT_EQ(bounds.size(), kCount + 2);
  for (int round = 0; round < 50; ++round) {
    std::string bytes = whole;
    std::set<std::uint64_t> hit;
    for (std::uint64_t n = draw() % 20 + 1; n > 0; --n) {
      const std::size_t at = kSegmentMagic.size() + draw() % (whole.size() - 100);
      const std::size_t length = draw() % 60 + 1;
      for (std::size_t i = at; i < at + length; ++i) {
        bytes[i] = static_cast<char>(~bytes[i]);
        const auto behind =
            std::upper_bound(bounds.begin(), bounds.end(), static_cast<std::int64_t>(i));
        hit.insert(static_cast<std::uint64_t>(behind - bounds.begin() - 1));
      }
    }
    spit(segment, bytes);
    const Read got = read(folder.path);
    // What was hit twice may be whole again.
    const std::set<std::uint64_t> there(got.requests.begin(), got.requests.end());
    EXPECT_EQ(there.size(), got.requests.size());
    for (std::uint64_t request = 1; request <= kCount; ++request)
      ASSERT_TRUE(there.contains(request) || hit.contains(request))
          << request << " round " << round << " seed " << kSeed;
    EXPECT_LE(got.faults.size(), 20U);
  }
}

// Much that looks like the begin of a frame must not make the search quadratic.
TEST(LedgerDamage, ASearchAmongWhatLooksLikeFramesEnds) {
  const Folder folder;
  write(folder.path, 1, 3);
  const fs::path segment = segment_path(folder.path.string(), 1);
  std::string bytes = slurp(segment);
  for (int i = 0; i < 2'000'000; ++i)
    bytes += std::string_view("\x01\x01\x01\x00", 4)[static_cast<std::size_t>(i % 4)];
  spit(segment, bytes);
  const Read got = read(folder.path);
  EXPECT_EQ(got.requests.size(), 3U);
  ASSERT_EQ(got.faults.size(), 1U);
  EXPECT_EQ(got.faults[0].bytes, 2'000'000);
}

TEST(LedgerDamage, ASegmentThatStandsTwiceIsReadOnce) {
  const Folder folder;
  write(folder.path, 1, 10);
  write(folder.path, 11, 10);
  fs::copy_file(segment_path(folder.path.string(), 1), segment_path(folder.path.string(), 3));
  const Read got = read(folder.path);
  EXPECT_EQ(got.requests.size(), 20U);
  EXPECT_EQ(got.lost, 0);
  ASSERT_EQ(got.faults.size(), 1U);
  EXPECT_EQ(got.faults[0].file, segment_path(folder.path.string(), 3));
  EXPECT_EQ(got.faults[0].what,
            "entries 0 to 9 stand a second time or behind later ones; they are skipped");
  EXPECT_TRUE(is_damaged(got.faults));
}

// A kill -9 in mid-write, then the same command again: nothing but the torn frame is gone.
TEST(LedgerDamage, ATornEndBehindWhichTheNextRunWentOnIsNoDamage) {
  const Folder folder;
  write(folder.path, 1, 10);
  const fs::path first = segment_path(folder.path.string(), 1);
  const std::string whole = slurp(first);
  spit(first, whole.substr(0, whole.size() - 5));
  write(folder.path, 11, 10);
  const Read torn = read(folder.path);
  ASSERT_EQ(torn.faults.size(), 1U);
  EXPECT_TRUE(torn.faults[0].torn);
  EXPECT_FALSE(is_damaged(torn.faults));
  spit(first, whole.substr(0, whole.size() - 200)); // Cut later: more is gone.
  EXPECT_TRUE(is_damaged(read(folder.path).faults));
}

TEST(LedgerDamage, AMissingSegmentIsNamedAndWhatItHeldIsCounted) {
  const Folder folder;
  for (std::uint64_t run = 0; run < 3; ++run)
    write(folder.path, 1 + 10 * run, 10);
  fs::remove(segment_path(folder.path.string(), 2));
  const Read got = read(folder.path);
  EXPECT_EQ(got.requests.size(), 20U);
  EXPECT_EQ(got.lost, 10);
  ASSERT_EQ(got.faults.size(), 1U);
  EXPECT_NE(got.faults[0].what.find("segments 2 to 2 are missing"), std::string::npos);
}

TEST(LedgerDamage, WhatIsNoSegmentIsSaidAndTheRestIsRead) {
  const Folder folder;
  write(folder.path, 1, 3);
  spit(segment_path(folder.path.string(), 2), "nothing of ours");
  write(folder.path, 4, 3);
  const Read got = read(folder.path);
  EXPECT_EQ(got.requests.size(), 6U);
  ASSERT_EQ(got.faults.size(), 1U);
  EXPECT_NE(got.faults[0].what.find("TRPLEDG"), std::string::npos) << got.faults[0].what;
}

// Opening a pipe that nobody writes would hold the reader, and a job that goes on, for ever.
TEST(LedgerDamage, APipeOrFolderInPlaceOfASegmentIsSaidAtOnce) {
  const Folder folder;
  write(folder.path, 1, 3);
  const std::uint64_t next = end_of_ledger(folder.path.string()).next_number;
  ASSERT_EQ(::mkfifo(segment_path(folder.path.string(), 2).c_str(), 0600), 0);
  fs::create_directory(segment_path(folder.path.string(), 3));
  EXPECT_EQ(end_of_ledger(folder.path.string()).next_number, next);
  const Read got = read(folder.path);
  EXPECT_EQ(got.requests.size(), 3U);
  ASSERT_EQ(got.faults.size(), 2U);
  for (const LedgerFault& fault : got.faults)
    EXPECT_EQ(fault.what, "found no regular file, expected a ledger segment") << fault.file;
}

TEST(LedgerDamage, ASegmentThatIsToldToBeEmptyIsSaidAsThat) {
  const Folder folder;
  const test::UnsizedFile file(std::string(kSegmentMagic) + "more");
  fs::create_symlink(file.path(), segment_path(folder.path.string(), 1));
  const Read got = read(folder.path);
  ASSERT_EQ(got.faults.size(), 1U);
  EXPECT_NE(got.faults[0].what.find("is told to have 0 bytes but holds more"), std::string::npos)
      << got.faults[0].what;
}

TEST(LedgerQueue, WhatItHasNoRoomForIsLostAndCounted) {
  const Folder folder;
  LedgerLimits limits;
  limits.queue_entries_max = 100;
  limits.wake_entries = 1'000;    // Nobody is woken,
  limits.wait_us = 3'600'000'000; // and nobody wakes by itself.
  {
    auto ledger = Ledger::open(folder.path.string(), kSize, limits);
    ASSERT_TRUE(ledger.ok());
    for (std::uint64_t i = 1; i <= 150; ++i)
      (*ledger)->append(kStage, record(i), 1);
    EXPECT_EQ((*ledger)->lost(), 50);
    EXPECT_EQ((*ledger)->records(), 100);
    (*ledger)->flush();
    (*ledger)->append(kStage, record(151), 1);
  }
  const Read got = read(folder.path);
  ASSERT_EQ(got.requests.size(), 101U);
  EXPECT_EQ(got.requests[99], 100U);
  EXPECT_EQ(got.requests[100], 151U);
  EXPECT_EQ(got.lost, 50);
}

TEST(LedgerQueue, ItsBytesAreBoundedToo) {
  const Folder folder;
  LedgerLimits limits;
  limits.queue_bytes_max = 4'000;
  limits.wake_entries = 1'000;
  limits.wait_us = 3'600'000'000;
  auto ledger = Ledger::open(folder.path.string(), kSize, limits);
  ASSERT_TRUE(ledger.ok());
  for (std::uint64_t i = 1; i <= 150; ++i)
    (*ledger)->append(kStage, record(i), 1);
  EXPECT_GT((*ledger)->records(), 3);
  EXPECT_LT((*ledger)->records(), 20);
  EXPECT_EQ((*ledger)->lost() + (*ledger)->records(), 150);
}

TEST(Ledger, AFolderHasOneWriterAtATime) {
  const Folder folder;
  auto first = Ledger::open(folder.path.string(), 1 << 20);
  ASSERT_TRUE(first.ok());
  const auto second = Ledger::open(folder.path.string(), 1 << 20);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  EXPECT_NE(second.error().message.find("ledger.directory"), std::string::npos);
  first->reset();
  EXPECT_TRUE(Ledger::open(folder.path.string(), 1 << 20).ok());
}

TEST(Ledger, AnUnwritableFolderIsAnError) {
  auto ledger = Ledger::open("/proc/troupe-ledger", 1 << 20);
  ASSERT_FALSE(ledger.ok());
  EXPECT_NE(ledger.error().message.find("/proc/troupe-ledger"), std::string::npos);
}

TEST(LedgerReader, AFolderWithoutSegmentsSaysWhatToDo) {
  const Folder folder;
  const auto empty = LedgerReader::open(folder.path.string());
  ASSERT_FALSE(empty.ok());
  EXPECT_NE(empty.error().message.find("ledger.level"), std::string::npos);
  const auto none = LedgerReader::open((folder.path / "none").string());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("OUTPUT.ledger"), std::string::npos);
}

// A custom_id is any text of a client.
TEST(LedgerText, NothingThatATerminalObeysIsInTheWords) {
  const std::string words =
      entry_words({7, 1'000'000, kStage, sched::RequestNamed{RequestId{3}, "a\x1b[2J\nb\u009b"}});
  EXPECT_TRUE(words.ends_with("named: request 3 is a\\x1b[2J\\x0ab\\u009b")) << words;
}

} // namespace
} // namespace troupe::actors
