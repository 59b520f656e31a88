// A long batch, killed with SIGKILL at random moments and continued by the same command: each line
// ends exactly once, with the answer of the undisturbed run.

#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

constexpr int kLines = 300;
constexpr int kKills = 10;
constexpr int kRunsMax = 200; ///< Runs until the job is done, killed ones included.

class Kill : public testing::Test {
protected:
  Kill() {
    std::string name = (fs::temp_directory_path() / "troupe-kill-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    std::ifstream all(kModel + "/eval.batch.jsonl");
    std::ofstream input(folder_ / "input.jsonl");
    std::string line;
    for (int i = 0; i < kLines && std::getline(all, line); ++i)
      input << line << '\n';
  }
  ~Kill() override { fs::remove_all(folder_); }

  pid_t start(const std::string& output) const {
    const pid_t child = fork();
    if (child != 0) return child;
    const std::string input = folder_ / "input.jsonl";
    const std::string results = folder_ / output;
    execl(TROUPE_BINARY, "troupe", "batch", "--model", kModel.c_str(), "--input", input.c_str(),
          "--output", results.c_str(), "--quiet", "--set", "journal.flush_ms=50",
          static_cast<char*>(nullptr));
    _exit(127);
  }

  static int wait_for(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  /// custom_id to line; every custom_id must occur once in output and errors together.
  std::map<std::string, std::string> lines_of(const std::string& output) const {
    std::map<std::string, std::string> lines;
    fs::path errors = folder_ / output;
    errors.replace_extension(".errors.jsonl");
    for (const fs::path& path : {folder_ / output, errors}) {
      std::ifstream in(path);
      std::string line;
      while (std::getline(in, line)) {
        const auto parsed = nlohmann::json::parse(line);
        EXPECT_TRUE(
            lines.emplace(parsed["custom_id"], parsed["response"]["body"]["choices"].dump()).second)
            << parsed["custom_id"];
      }
    }
    return lines;
  }

  const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
  fs::path folder_;
};

TEST_F(Kill, EachLineOnceAndAsUndisturbed) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(wait_for(start("calm.jsonl")), 0);
  const auto calm_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - begin)
                           .count();
  const auto calm = lines_of("calm.jsonl");
  ASSERT_EQ(calm.size(), static_cast<std::size_t>(kLines));

  const char* given = std::getenv("TROUPE_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::cout << "seed " << seed << " (TROUPE_SEED), undisturbed run " << calm_ms << " ms\n";
  Rng rng(seed);
  int kills = 0;
  int code = -1;
  for (int run = 0; run < kRunsMax && code < 0; ++run) {
    const pid_t child = start("stormy.jsonl");
    if (kills < kKills) {
      // From the middle of loading to about a fifth of the job, so that ten kills fit into it.
      const auto moment = 20 + rng.below(static_cast<std::uint64_t>(calm_ms) / 5 + 1);
      std::this_thread::sleep_for(std::chrono::milliseconds{moment});
      if (kill(child, SIGKILL) == 0) ++kills;
    }
    code = wait_for(child);
  }
  EXPECT_EQ(kills, kKills);
  ASSERT_EQ(code, 0);
  EXPECT_EQ(lines_of("stormy.jsonl"), calm);
}

} // namespace
} // namespace troupe::test
