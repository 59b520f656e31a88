// Goal: the full-size checkpoint is inspected in seconds and little memory, by the executable.
// Method: its inventory as sparse files; the child's own clock and peak as the kernel counts them.

#include "tests/support/checkpoint_files.hpp"
#include "tests/support/released_checkpoint.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::test {
namespace {

constexpr int kExitIncomplete = 3;
constexpr double kSecondsMax = 30;
constexpr long kPeakKibMax = 256 << 10;

struct Measured {
  int exit_code = -1;
  double seconds = 0;
  long peak_kib = 0;
};

/// Runs `troupe inspect FOLDER --json` with its output in `out`.
Measured inspect(const std::string& folder, const std::string& out) {
  const auto begin = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  if (child == 0) {
    const int file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, STDOUT_FILENO);
    ::execl(TROUPE_EXECUTABLE, "troupe", "inspect", folder.c_str(), "--json", nullptr);
    ::_exit(127);
  }
  int state = 0;
  rusage usage{};
  ::wait4(child, &state, 0, &usage);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  return {WIFEXITED(state) ? WEXITSTATUS(state) : -1, took.count(), usage.ru_maxrss};
}

TEST(InspectFull, TakesSecondsAndLittleMemory) {
  const ScratchFolder folder;
  const ScratchFolder results;
  write_released_inventory(folder.path());
  const Measured run = inspect(folder.path(), results / "out.json");
  std::printf("troupe inspect of 96,085 tensors: %.1f s, peak %ld MiB\n", run.seconds,
              run.peak_kib >> 10);
  EXPECT_EQ(run.exit_code, kExitIncomplete) << "it asks for engram.json";
  EXPECT_LT(run.seconds, kSecondsMax);
  EXPECT_LT(run.peak_kib, kPeakKibMax);
  const auto json = nlohmann::json::parse(read_file(results / "out.json"));
  EXPECT_EQ(json["tensors"], 96'085);
  EXPECT_EQ(json["tensor_bytes"], 510'286'023'000);
  EXPECT_EQ(json["kinds"]["vision"]["tensors"], 266);
  EXPECT_EQ(json["kinds"]["draft"]["used"], false);
  EXPECT_EQ(json["complete"], false);
}

} // namespace
} // namespace troupe::test
