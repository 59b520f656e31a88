// A long batch, killed with SIGKILL at random moments and continued by the same command: each line
// ends exactly once, with the answer of the undisturbed run.

#include "schedulers/core/rng.hpp"
#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <thread>

namespace troupe::test {
namespace {

constexpr int kRunsMax = 2000; ///< Runs until the job is done, killed ones included.

/// The evaluation set again and again, with custom_ids of its own each time.
std::string long_input(int lines) {
  std::string text;
  int count = 0;
  for (int round = 0; count < lines; ++round) {
    std::ifstream all(fmt::format("{}/eval.batch.jsonl", bundled_model()));
    std::string line;
    while (count < lines && std::getline(all, line)) {
      const std::size_t at = line.find(R"("custom_id": ")");
      EXPECT_NE(at, std::string::npos) << line;
      if (at == std::string::npos) return text;
      text += line.insert(at + 14, fmt::format("{}-", round)) + "\n";
      ++count;
    }
  }
  return text;
}

void prepare(BatchFolder& job, const std::string& input) {
  job.model = bundled_model();
  job.flags = {"--set", "journal.flush_ms=50"};
  job.write_input(input);
}

/// @param share    of the undisturbed run's time that a run may live at most, as 1/share
/// @param overlap  policy of the runs that are killed; the undisturbed one plans serially
void expect_storm_survived(int lines, int kills_wanted, int share, const char* overlap) {
  const std::string input = long_input(lines);
  BatchFolder calm;
  prepare(calm, input);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(calm.run().code, 0);
  const auto calm_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                           std::chrono::steady_clock::now() - begin)
                           .count();
  const JobAnswers expected = calm.answers();
  ASSERT_TRUE(expected.is_exact());
  ASSERT_EQ(expected.lines, lines);

  const char* given = std::getenv("TROUPE_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
  std::cout << "seed " << seed << " (TROUPE_SEED), undisturbed run " << calm_ms << " ms\n";
  Rng rng(seed);
  BatchFolder stormy;
  prepare(stormy, input);
  stormy.files.write("policies.toml",
                     fmt::format("name = \"storm\"\n[overlap]\npolicy = \"{}\"\n", overlap));
  stormy.flags.insert(stormy.flags.end(), {"--policies", "policies.toml"});
  int kills = 0;
  int code = -SIGKILL;
  for (int run = 0; run < kRunsMax && code == -SIGKILL; ++run) {
    TroupeProcess process(stormy.command());
    if (kills < kills_wanted) {
      // From the start of the process to a small share of the job, so that all kills fit into it.
      const auto longest = static_cast<std::uint64_t>(calm_ms / share) + 1;
      std::this_thread::sleep_for(std::chrono::milliseconds{5 + rng.below(longest)});
      process.signal(SIGKILL);
    }
    code = process.wait().code;
    kills += code == -SIGKILL ? 1 : 0;
  }
  std::cout << kills << " kills, " << lines << " lines\n";
  EXPECT_EQ(kills, kills_wanted);
  ASSERT_EQ(code, 0);
  const JobAnswers answers = stormy.answers();
  EXPECT_TRUE(answers.is_exact());
  EXPECT_EQ(answers.lines, lines);
  EXPECT_TRUE(answers == expected);
}

TEST(Kill, EachLineOnceAndAsUndisturbed) { expect_storm_survived(300, 20, 10, "serial"); }

TEST(Kill, WithTwoStepsInFlight) { expect_storm_survived(200, 10, 10, "one_ahead"); }

TEST(KillSlow, TwoHundredKills) { expect_storm_survived(2000, 200, 100, "one_ahead"); }

} // namespace
} // namespace troupe::test
