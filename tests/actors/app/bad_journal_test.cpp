// Goal: a journal that is damaged, foreign, newer or no file is refused with one message, and every
// byte of it and of the results stays where it was.
// Method: a stopped job's journal, changed on the disk in many ways, opened again.

#include "actors/app/journal.hpp"
#include "actors/app/journal_header.hpp"
#include "schedulers/core/rng.hpp"
#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/unsized_file.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <sys/stat.h>

namespace troupe::app {
namespace {

constexpr std::int64_t kStartUs = 1'700'000'000'000'000;
constexpr int kLines = 40;
constexpr std::size_t kUserVersionAt = 60;
constexpr std::size_t kApplicationIdAt = 68;

/// A job of which three lines are answered, cleanly stopped.
class StoppedJob {
public:
  StoppedJob() {
    std::string input;
    for (int i = 0; i < kLines; ++i) {
      input += R"({"custom_id":"id-)" + std::to_string(i) +
               R"(","method":"POST","url":"/v1/completions","body":{"prompt":"p"}})" + "\n";
    }
    paths_ = batch_paths(folder_.write("in.jsonl", input), folder_.path("out.jsonl"), "");
    auto job = open();
    EXPECT_TRUE(job.ok()) << job.error().message;
    const auto next = (*job)->next_lines(3);
    std::vector<LineResult> results;
    for (const PendingLine& line : next->lines) {
      results.push_back({line.index, true,
                         response_line((*job)->facts().job_id, line.outcome.line.custom_id, 200,
                                       line.outcome.line.body),
                         1, 1});
    }
    EXPECT_TRUE((*job)->commit(results).ok());
    EXPECT_TRUE((*job)->stop().ok());
    job_id_ = (*job)->facts().job_id;
  }

  Result<std::unique_ptr<BatchJob>> open(bool restart = false) {
    JobOptions options;
    options.now_us = kStartUs;
    options.restart = restart;
    return open_journal(paths_, {{{"model", "m"}}, {}}, options);
  }

  std::string journal() const { return folder_.read("out.jsonl.journal"); }
  std::string output() const { return folder_.read("out.jsonl"); }
  const std::string& path() const { return paths_.journal; }
  const std::string& job_id() const { return job_id_; }
  void put(const std::string& bytes) { folder_.write("out.jsonl.journal", bytes); }
  bool has(const std::string& name) const { return folder_.has(name); }

private:
  TemporaryFolder folder_;
  BatchPaths paths_;
  std::string job_id_;
};

/// Refused with a message that names the journal; journal and output keep their bytes.
void expect_refused(StoppedJob& job, const std::vector<std::string>& parts, bool restart = false) {
  const bool is_file = std::filesystem::is_regular_file(job.path());
  const std::string before = is_file ? job.journal() : "";
  const std::string output = job.output();
  const bool has_errors = job.has("out.errors.jsonl");
  {
    const auto opened = job.open(restart);
    ASSERT_FALSE(opened.ok());
    const std::string& message = opened.error().message;
    EXPECT_EQ(message.rfind(job.path(), 0), 0U) << message;
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find("; "), std::string::npos) << "what to do? " << message;
  }
  if (is_file) {
    EXPECT_TRUE(job.journal() == before) << "the journal changed";
  }
  EXPECT_EQ(job.output(), output);
  EXPECT_EQ(job.has("out.errors.jsonl"), has_errors) << "a refusal leaves no trace";
}

TEST(BadJournal, TheUndamagedOneGoesOn) {
  StoppedJob job;
  const auto opened = job.open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->facts().job_id, job.job_id());
  EXPECT_EQ((*opened)->facts().succeeded, 3);
}

TEST(BadJournal, OtherFilesAtItsPlace) {
  const std::vector<std::string> foreign = {"no journal of troupe",
                                            "expected a journal or nothing"};
  const std::pair<const char*, std::string> texts[] = {
      {"a word", "x"},
      {"text", std::string(5000, 'x')},
      {"zeros", std::string(4096, '\0')},
      {"the magic alone", std::string("SQLite format 3\0", 16)},
      {"results", "{\"id\": \"batch_req_1\"}\n"}};
  for (const auto& [name, bytes] : texts) {
    SCOPED_TRACE(name);
    StoppedJob job;
    job.put(bytes);
    expect_refused(job, foreign);
    expect_refused(job, foreign, true);
  }
}

TEST(BadJournal, SpecialFilesAtItsPlace) {
  const std::pair<const char*, std::function<void(const char*)>> kinds[] = {
      {"folder", [](const char* path) { std::filesystem::create_directory(path); }},
      {"pipe", [](const char* path) { ::mkfifo(path, 0600); }},
      {"device", [](const char* path) { std::filesystem::create_symlink("/dev/zero", path); }}};
  for (const auto& [name, make] : kinds) {
    SCOPED_TRACE(name);
    StoppedJob job;
    std::filesystem::remove(job.path());
    make(job.path().c_str());
    expect_refused(job, {});
    expect_refused(job, {}, true);
  }
}

TEST(BadJournal, OtherOwnersAndVersions) {
  StoppedJob job;
  const std::string sound = job.journal();
  std::string changed = sound;
  changed[kApplicationIdAt] = 1;
  job.put(changed);
  expect_refused(job, {"no journal of troupe"});
  // A foreign database in write-ahead mode: asking the library for another mode would rewrite it.
  changed[18] = changed[19] = 2;
  job.put(changed);
  expect_refused(job, {"no journal of troupe"});
  changed = sound;
  changed[kUserVersionAt + 3] = 2;
  job.put(changed);
  expect_refused(job, {"version 2", "written by a newer troupe", "expected at most 1"});
  changed = sound;
  changed[18] = 9; // SQLite would open it for reading only, and speak of permissions.
  job.put(changed);
  expect_refused(job, {"damaged journal", "put back a copy"});
  changed = sound;
  changed[kUserVersionAt] = '\xFF';
  job.put(changed);
  expect_refused(job, {"damaged journal"});
  changed = sound;
  changed[kUserVersionAt] = '\x7F';
  job.put(changed);
  expect_refused(job, {"written by a newer troupe"});
  job.put(sound);
  EXPECT_TRUE(job.open().ok());
}

TEST(BadJournal, AnEmptyOneIsNone) {
  StoppedJob job;
  job.put("");
  const auto refused = job.open();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("not empty and there is no journal"), std::string::npos);
  EXPECT_TRUE(job.open(true).ok()) << "--restart takes it";
}

TEST(BadJournal, OneThatIsOnlyToldToBeEmptyIsNoNewOne) {
  const test::UnsizedFile file("some bytes");
  const Status status = check_journal_header(file.path());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message.rfind(file.path(), 0), 0U) << status.error().message;
}

TEST(BadJournal, CutAnywhere) {
  StoppedJob job;
  const std::string sound = job.journal();
  ASSERT_GT(sound.size(), 8192U);
  for (std::size_t size = 1; size < sound.size(); size += size < 200 ? 50 : 1021) {
    SCOPED_TRACE(size);
    job.put(sound.substr(0, size));
    expect_refused(job, {"expected"});
  }
}

TEST(BadJournal, ZeroedPages) {
  StoppedJob job;
  const std::string sound = job.journal();
  for (std::size_t at = 4096; at + 4096 <= sound.size(); at += 4096) {
    SCOPED_TRACE(at);
    std::string changed = sound;
    std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(at), 4096, '\0');
    job.put(changed);
    expect_refused(job, {"damaged journal", "put back a copy"});
  }
}

// What a flip changes may be no more than a count of tokens: then the job goes on. Otherwise it is
// refused, and in no case is a line lost from what is on the disk.
TEST(BadJournal, FlippedBits) {
  constexpr std::uint64_t kSeed = 5;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  StoppedJob job;
  const std::string sound = job.journal();
  const std::string output = job.output();
  int refused = 0;
  for (int round = 0; round < 200; ++round) {
    std::string changed = sound;
    const std::size_t at = rng.below(changed.size());
    changed[at] = static_cast<char>(changed[at] ^ (1 << rng.below(8)));
    job.put(changed);
    SCOPED_TRACE(at);
    const auto opened = job.open();
    EXPECT_EQ(job.output(), output);
    if (opened.ok()) {
      for (int i = 0; i < kLines; ++i) {
        const auto next = (*opened)->next_lines(8);
        if (!next.ok() || next->at_end) break;
      }
      continue;
    }
    ++refused;
    EXPECT_FALSE(opened.error().message.empty());
    EXPECT_TRUE(job.journal() == changed) << "a refusal changed the journal";
  }
  EXPECT_GT(refused, 0);
  std::printf("%d of 200 flips refused\n", refused);
}

// A name of the schema, changed in place: SQLite itself finds nothing wrong with such a file.
TEST(BadJournal, TablesAndColumnsThatAreMissing) {
  const std::pair<std::string, std::string> names[] = {
      {"identity", "identitx"},
      {"only_warns", "only_warnx"},
      {"prompt_tokens", "prompt_tokenx"},
      {"job_id", "job_ix"},
      {"duplicate_of", "duplicate_ox"},
      {"body TEXT", "bodx TEXT"},
      {"lines(", "linex("},
  };
  for (const auto& [from, to] : names) {
    SCOPED_TRACE(from);
    StoppedJob job;
    std::string changed = job.journal();
    std::size_t found = 0;
    for (std::size_t at = changed.find(from); at != std::string::npos;
         at = changed.find(from, at)) {
      changed.replace(at, from.size(), to);
      ++found;
    }
    ASSERT_GT(found, 0U);
    job.put(changed);
    expect_refused(job, {"damaged journal", "put back a copy"});
  }
}

TEST(BadJournal, SpecialFilesInPlaceOfItsSideFiles) {
  for (const char* ending : {"-journal", "-wal", "-shm"}) {
    for (const bool is_pipe : {false, true}) {
      SCOPED_TRACE(ending);
      StoppedJob job;
      const std::string path = job.path() + ending;
      if (is_pipe) {
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      } else {
        std::filesystem::create_directory(path);
      }
      expect_refused(job, {ending, "move it away"});
      std::filesystem::remove(path);
      EXPECT_TRUE(job.open().ok());
    }
  }
}

TEST(BadJournal, RubbishBesideIt) {
  StoppedJob job;
  { std::ofstream(job.path() + "-journal", std::ios::binary) << "rubbish"; }
  const auto opened = job.open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ((*opened)->facts().succeeded, 3);
}

} // namespace
} // namespace troupe::app
