// Goal: files that somebody else moves, cuts or replaces while a job runs stop it, with nothing
// committed that is not in them.
// Method: each thing done to each file, between two commits and within one.

#include "tests/actors/app/sample_job.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <vector>

namespace troupe::app {
namespace {

std::vector<LineResult> answers(BatchJob& job, std::int64_t count) {
  std::vector<LineResult> results;
  const auto next = job.next_lines(count);
  for (const PendingLine& line : next->lines)
    results.push_back(answer(job.facts(), line));
  return results;
}

/// What somebody else does to a file of a running job.
struct Meddling {
  const char* name;
  std::function<void(const std::string& path)> act;
  const char* says;
};

std::vector<Meddling> meddlings() {
  namespace fs = std::filesystem;
  return {
      {"removed", [](const std::string& path) { fs::remove(path); }, "removed or moved away"},
      {"moved", [](const std::string& path) { fs::rename(path, path + ".moved"); },
       "removed or moved away"},
      {"replaced",
       [](const std::string& path) {
         fs::rename(path, path + ".moved");
         fs::copy_file(path + ".moved", path);
       },
       "nother file"},
      {"cut", [](const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); },
       "bytes"},
      {"emptied", [](const std::string& path) { fs::resize_file(path, 0); }, "0 bytes"},
      {"lengthened",
       [](const std::string& path) { std::ofstream(path, std::ios::app) << "foreign\n"; }, "bytes"},
  };
}

// Six lines are committed, then somebody meddles: before the next commit, or between its write
// and its sync.
TEST(Journal, StopsWhenSomebodyMeddlesWithItsFiles) {
  for (const Meddling& meddling : meddlings()) {
    for (const char* name : {"out.jsonl", "out.errors.jsonl", "out.jsonl.journal"}) {
      for (const bool within : {false, true}) {
        // SQLite itself may write pages within a commit.
        const bool is_journal = std::string(name).ends_with(".journal");
        if (is_journal && within && std::string(meddling.name) == "lengthened") continue;
        SCOPED_TRACE(std::string(name) + " " + meddling.name + (within ? " within" : " between"));
        Job job;
        bool armed = false;
        const std::string path = job.folder.path(name);
        job.options.at_write = [&](const char* point) {
          const bool now = std::string(point) == (is_journal ? "before commit" : "before sync");
          if (armed && within && now) {
            meddling.act(path);
            armed = false;
          }
        };
        auto opened = job.open();
        ASSERT_TRUE(opened.ok());
        const std::vector<LineResult> results = answers(**opened, 100);
        ASSERT_TRUE((*opened)->commit({results.data(), 6}).ok());
        ASSERT_GT(std::filesystem::file_size(path), 0U);
        armed = true;
        if (!within) meddling.act(path);
        const Status status = (*opened)->commit({results.data() + 6, 5});
        ASSERT_FALSE(status.ok());
        EXPECT_EQ(status.error().code, ErrorCode::mismatch);
        EXPECT_EQ(status.error().message.find(path + ": "), 0U) << status.error().message;
        EXPECT_NE(status.error().message.find(meddling.says), std::string::npos)
            << status.error().message;
        EXPECT_NE(status.error().message.find("same command"), std::string::npos)
            << status.error().message;
        EXPECT_EQ((*opened)->facts().done(), 6) << "nothing more was committed";
        EXPECT_FALSE((*opened)->stop().ok()) << "nothing goes on after a failure";
      }
    }
  }
}

TEST(Journal, APutBackFileLetsTheJobGoOn) {
  for (const char* name : {"out.jsonl", "out.errors.jsonl", "out.jsonl.journal"}) {
    SCOPED_TRACE(name);
    Job job;
    const std::string path = job.folder.path(name);
    {
      auto opened = job.open();
      ASSERT_TRUE(opened.ok());
      ASSERT_TRUE((*opened)->commit(answers(**opened, 6)).ok());
      std::filesystem::rename(path, path + ".moved");
      EXPECT_FALSE((*opened)->stop().ok());
    }
    std::filesystem::rename(path + ".moved", path);
    auto opened = job.open();
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    EXPECT_EQ((*opened)->facts().done(), 6);
    ASSERT_TRUE((*opened)->commit(answers(**opened, 100)).ok());
    ASSERT_TRUE((*opened)->finish().ok());
    EXPECT_EQ(lines_of(job.output()).size(), 8U);
    EXPECT_EQ(lines_of(job.errors()).size(), 3U);
  }
}

TEST(Journal, AFinishedJobHasItsFilesWhereTheyWere) {
  Job job;
  auto opened = job.open();
  ASSERT_TRUE(opened.ok());
  const std::vector<LineResult> results = answers(**opened, 100);
  ASSERT_TRUE((*opened)->commit(results).ok());
  std::filesystem::remove(job.folder.path("out.jsonl"));
  EXPECT_EQ((*opened)->finish().error().code, ErrorCode::mismatch) << "after the last line too";
}

TEST(StreamJob, StopsWhenSomebodyMeddlesWithItsFiles) {
  Job job;
  const BatchPaths paths = batch_paths("-", job.paths.output, "");
  auto opened = open_stream_job(paths, job.identity, job.options);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  std::filesystem::remove(job.folder.path("out.jsonl"));
  const Status status = (*opened)->finish();
  EXPECT_EQ(status.error().code, ErrorCode::mismatch);
  EXPECT_NE(status.error().message.find("removed or moved away"), std::string::npos)
      << status.error().message;
  EXPECT_EQ(status.error().message.find("same command"), std::string::npos)
      << status.error().message;
}

} // namespace
} // namespace troupe::app
