// Goal: a full, read-only or other disk ends a job with a clear message, and the same command goes
// on when there is room.
// Method: small file systems in memory, mounted in a mount namespace of this process; that needs
// root, and without it those tests say that they skip.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLines = 400;

/// Why nothing can be mounted, or "". The namespace goes with this process.
std::string enter_namespace() {
  static const std::string problem = [] {
    if (::unshare(CLONE_NEWNS) != 0) return fmt::format("unshare: {}", std::strerror(errno));
    if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return fmt::format("mount: {}", std::strerror(errno));
    return fmt::format("");
  }();
  return problem;
}

/// A file system in memory.
class SmallDisk {
public:
  SmallDisk(const std::string& folder, std::int64_t bytes) : folder_(folder) {
    fs::create_directories(folder_);
    const std::string size = fmt::format("size={}", bytes);
    is_mounted_ = ::mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0;
    EXPECT_TRUE(is_mounted_) << std::strerror(errno);
  }
  ~SmallDisk() {
    if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  void resize(std::int64_t bytes) { remount(0, fmt::format("size={}", bytes)); }
  void set_read_only(bool is) { remount(is ? MS_RDONLY : 0, {}); }

private:
  void remount(unsigned long flags, const std::string& data) {
    EXPECT_EQ(::mount("none", folder_.c_str(), "tmpfs", MS_REMOUNT | flags, data.c_str()), 0)
        << std::strerror(errno);
  }

  std::string folder_;
  bool is_mounted_ = false;
};

class Disk : public testing::Test {
protected:
  void SetUp() override {
    if (const std::string problem = enter_namespace(); !problem.empty())
      GTEST_SKIP() << "nothing can be mounted here: " << problem;
  }

  static void prepare(BatchFolder& job) {
    job.use_null_device();
    job.flags.insert(job.flags.end(), {"--set", "journal.flush_ms=5", "--inflight-max", "16"});
    job.write_input(BatchFolder::completions(kLines));
    job.output = "disk/out.jsonl";
  }
  static JobAnswers undisturbed() {
    BatchFolder calm;
    prepare(calm);
    fs::create_directories(calm.files.path("disk"));
    EXPECT_EQ(calm.run().code, 0);
    return calm.answers();
  }
};

TEST_F(Disk, B18_AFullOneStopsTheJobAndTheSameCommandGoesOn) {
  const JobAnswers calm = undisturbed();
  ASSERT_EQ(calm.lines, kLines);
  int stops = 0;
  // From no room for the journal to room for most of the answers.
  for (const std::int64_t kib : {8, 24, 48, 80, 96, 112, 144, 200, 260}) {
    BatchFolder job;
    prepare(job);
    SmallDisk disk(job.files.path("disk"), kib << 10);
    const ProcessEnd full = job.run({"--set", "ledger.level=\"off\""});
    if (full.code == 0) continue;
    ++stops;
    EXPECT_EQ(full.code, 1) << kib << " KiB: " << full.err;
    EXPECT_TRUE(full.err.find("No space left") != std::string::npos ||
                full.err.find("disk is full") != std::string::npos ||
                full.err.find("disk I/O error") != std::string::npos)
        << kib << " KiB: " << full.err;
    EXPECT_EQ(std::count(full.err.begin(), full.err.end(), '\n'), 1) << full.err;
    const ProcessEnd still_full = job.run({"--set", "ledger.level=\"off\""});
    EXPECT_EQ(still_full.code, 1) << kib << " KiB: " << still_full.err;
    disk.resize(16 << 20);
    const ProcessEnd rest = job.run({"--set", "ledger.level=\"off\""});
    EXPECT_EQ(rest.code, 0) << kib << " KiB: " << rest.err;
    EXPECT_TRUE(job.answers().is_exact()) << kib << " KiB";
    EXPECT_TRUE(job.answers() == calm) << kib << " KiB";
  }
  EXPECT_GE(stops, 6) << "the disks were too large";
}

TEST_F(Disk, ALedgerWithoutRoomIsLostAndTheJobGoesOn) {
  BatchFolder job;
  prepare(job);
  SmallDisk disk(job.files.path("small"), 16 << 10);
  fs::create_directories(job.files.path("disk"));
  ProcessOptions options =
      job.command({"--set", fmt::format("ledger.directory=\"{}\"", job.files.path("small/l"))});
  std::erase(options.arguments, "--quiet");
  const ProcessEnd end = TroupeProcess(options).wait();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("the ledger cannot be written; the job goes on"), std::string::npos)
      << end.err;
  EXPECT_TRUE(job.answers().is_exact());
  EXPECT_EQ(job.answers().lines, kLines);
}

// Needs no disk of its own: the limit of file sizes is the process's.
TEST(FileSizeLimit, StopsTheJobAndTheSameCommandGoesOn) {
  int stops = 0;
  for (const std::int64_t kib : {0, 2, 30, 60, 90}) {
    BatchFolder job;
    job.use_null_device();
    job.flags.insert(job.flags.end(), {"--set", "journal.flush_ms=5", "--inflight-max", "16",
                                       "--set", "ledger.level=\"off\""});
    job.write_input(BatchFolder::completions(kLines));
    ProcessOptions options = job.command();
    options.file_bytes_max = (kib << 10) + 1;
    const ProcessEnd end = TroupeProcess(options).wait();
    stops += end.code == 1 ? 1 : 0;
    EXPECT_EQ(end.code, 1) << kib << " KiB: " << end.err;
    // What the process itself says may be cut off by the same limit.
    if (kib > 0) {
      EXPECT_NE(end.err.find("ulimit -f"), std::string::npos) << kib << " KiB: " << end.err;
    }
    EXPECT_EQ(job.run().code, 0) << kib << " KiB";
    EXPECT_TRUE(job.answers().is_exact());
    EXPECT_EQ(job.answers().lines, kLines);
  }
  EXPECT_GE(stops, 4);
}

TEST_F(Disk, AReadOnlyOneIsRefusedBeforeAnythingRuns) {
  BatchFolder job;
  prepare(job);
  SmallDisk disk(job.files.path("disk"), 1 << 20);
  disk.set_read_only(true);
  const ProcessEnd end = job.run();
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find("disk"), std::string::npos) << end.err;
  EXPECT_NE(end.err.find("Read-only file system"), std::string::npos) << end.err;
  EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
  disk.set_read_only(false);
  EXPECT_TRUE(fs::is_empty(job.files.path("disk")));
  EXPECT_EQ(job.run().code, 0);
  EXPECT_EQ(job.answers().lines, kLines);
}

TEST_F(Disk, OneThatBecomesReadOnlyStopsTheJob) {
  BatchFolder job;
  prepare(job);
  SmallDisk disk(job.files.path("disk"), 16 << 20);
  ASSERT_EQ(job.run({"--set", "limits.stop_grace_s=0"}).code, 0);
  disk.set_read_only(true);
  const ProcessEnd again = job.run();
  EXPECT_NE(again.code, 0);
  EXPECT_EQ(std::count(again.err.begin(), again.err.end(), '\n'), 1) << again.err;
  disk.set_read_only(false);
  EXPECT_EQ(job.run().code, 0) << "already complete";
}

TEST_F(Disk, OutputAndErrorsMayLieOnOtherDisksThanTheInput) {
  BatchFolder job;
  prepare(job);
  job.write_input(BatchFolder::completions(kLines) + "no json\n");
  SmallDisk disk(job.files.path("disk"), 16 << 20);
  SmallDisk errors(job.files.path("errors"), 16 << 20);
  EXPECT_EQ(job.run({"--errors", "errors/e.jsonl"}).code, 3);
  EXPECT_EQ(app::lines_of(job.files.read("disk/out.jsonl")).size(),
            static_cast<std::size_t>(kLines));
  EXPECT_EQ(app::lines_of(job.files.read("errors/e.jsonl")).size(), 1U);
  EXPECT_TRUE(job.files.has("disk/out.jsonl.journal"));
}

/// A folder without write permission, as a user sees it who is not root.
TEST(DiskOfAUser, AFolderThatMayNotBeWrittenIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  job.output = "closed/out.jsonl";
  fs::create_directories(job.files.path("closed"));
  fs::permissions(job.files.path("closed"), fs::perms::owner_read | fs::perms::owner_exec);
  const ProcessEnd end = job.run();
  fs::permissions(job.files.path("closed"), fs::perms::owner_all);
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find("closed"), std::string::npos) << end.err;
}

} // namespace
} // namespace troupe::test
