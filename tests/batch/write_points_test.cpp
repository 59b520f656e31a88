// Goal: wherever a job dies among its writes, the same command answers each line exactly once.
// Method: the executable kills itself at its n-th write, sync, truncation or removal, for every n
// until a run has no n-th one; SQLite's count too. Then the same command runs undisturbed.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>

namespace troupe::test {
namespace {

constexpr int kPointsMax = 2000; ///< Far more than a run of six lines has.

/// Three answers, a refusal, a repeated custom_id, a line that is no JSON.
std::string six_lines() {
  const std::string good = BatchFolder::completions(3);
  return good +
         R"({"custom_id":"refused","method":"POST","url":"/v1/completions","body":{"prompt":""}})"
         "\n" +
         good.substr(0, good.find('\n') + 1) + "no json\n";
}

void prepare(BatchFolder& job, const std::string& order) {
  job.write_input(six_lines());
  job.flags = {"--order", order, "--set", "journal.sync=\"line\"", "--set", "ledger.level=\"off\""};
}

/// @param point  0 = undisturbed
ProcessEnd run_until(BatchFolder& job, int point) {
  job.environment = {{"LD_PRELOAD", TROUPE_KILL_AT_WRITE_LIBRARY},
                     {"TROUPE_KILL_AT_WRITE", fmt::format("{}", point)}};
  return job.run();
}

JobAnswers calm_answers(const std::string& order) {
  BatchFolder calm;
  prepare(calm, order);
  const ProcessEnd end = calm.run();
  EXPECT_EQ(end.code, 3) << end.err;
  const JobAnswers answers = calm.answers();
  EXPECT_EQ(answers.output.size(), 3U);
  EXPECT_EQ(answers.lines, 6);
  return answers;
}

/// The same command ends the job: every line once, answers as in the undisturbed run.
void expect_mended(BatchFolder& job, const JobAnswers& calm, const std::string& where) {
  const ProcessEnd end = run_until(job, 0);
  ASSERT_EQ(end.code, 3) << where << ": " << end.err;
  const JobAnswers answers = job.answers();
  EXPECT_EQ(answers.lines, 6) << where;
  EXPECT_EQ(answers.torn, 0) << where;
  EXPECT_EQ(answers.output, calm.output) << where;
  EXPECT_EQ(answers.errors, calm.errors) << where;
}

void expect_every_point_mended(const std::string& order) {
  const JobAnswers calm = calm_answers(order);
  for (int point = 1; point < kPointsMax; ++point) {
    BatchFolder job;
    prepare(job, order);
    const ProcessEnd killed = run_until(job, point);
    if (killed.code != -SIGKILL) {
      EXPECT_EQ(killed.code, 3) << killed.err;
      std::printf("%d write points, order %s\n", point - 1, order.c_str());
      EXPECT_GT(point, 60) << "SQLite's writes are not seen";
      return;
    }
    expect_mended(job, calm, fmt::format("point {}", point));
  }
  FAIL() << "the job has no end";
}

TEST(WritePoints, AKillAtEachIsMended) { expect_every_point_mended("completion"); }

TEST(WritePointsSlow, AKillAtEachIsMendedInInputOrder) { expect_every_point_mended("input"); }

TEST(WritePointsSlow, KillsOfTheRunThatGoesOnAreMendedToo) {
  const JobAnswers calm = calm_answers("completion");
  int pairs = 0;
  for (int first = 1; first < kPointsMax; first += 7) {
    for (int second = 1; second < kPointsMax; second += 11) {
      BatchFolder job;
      prepare(job, "completion");
      if (run_until(job, first).code != -SIGKILL) {
        std::printf("%d pairs of kills\n", pairs);
        EXPECT_GT(pairs, 50);
        return;
      }
      const bool is_killed = run_until(job, second).code == -SIGKILL;
      expect_mended(job, calm, fmt::format("points {} and {}", first, second));
      if (!is_killed) break;
      ++pairs;
    }
  }
}

} // namespace
} // namespace troupe::test
