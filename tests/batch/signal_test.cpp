// Goal: Ctrl-C and SIGTERM stop a job cleanly, with the exit codes of the interface, and the same
// command goes on.
// Method: a job whose steps take their modelled time gets signals halfway.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <thread>

namespace troupe::test {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr std::int64_t kLines = 200;

/// `tokens` a line; with many of them a line takes minutes.
void prepare(BatchFolder& job, std::int64_t lines, std::int64_t tokens) {
  job.write_input(BatchFolder::completions(lines, tokens));
  job.use_null_device();
  for (const char* set :
       {"cost_model.null_speed=1.0", "limits.inflight_max=4", "journal.flush_ms=20"}) {
    job.flags.emplace_back("--set");
    job.flags.emplace_back(set);
  }
}

std::int64_t lines_in(const BatchFolder& job) {
  return static_cast<std::int64_t>(app::lines_of(job.files.read("out.jsonl")).size());
}

void wait_for_lines(const BatchFolder& job, TroupeProcess& process, std::int64_t lines) {
  while (lines_in(job) < lines && process.is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

JobAnswers undisturbed() {
  BatchFolder calm;
  prepare(calm, kLines, 4);
  EXPECT_EQ(calm.run({"--set", "cost_model.null_speed=0.0"}).code, 0);
  return calm.answers();
}

/// Stops a job halfway with this signal, looks at it, and lets the same command end it.
void expect_clean_stop(int signal, int exit_code) {
  BatchFolder job;
  prepare(job, kLines, 4);
  TroupeProcess process(job.command({"--summary", "s.json"}));
  wait_for_lines(job, process, 20);
  process.signal(signal);
  const ProcessEnd end = process.wait();
  EXPECT_EQ(end.code, exit_code) << end.err;
  EXPECT_NE(end.err.find("stopped before the end; the same command goes on"), std::string::npos)
      << end.err;
  const std::int64_t done = lines_in(job);
  EXPECT_GE(done, 20);
  EXPECT_LT(done, kLines);
  const Json summary = Json::parse(job.files.read("s.json"));
  EXPECT_EQ(summary["end"], "stopped");
  EXPECT_EQ(summary["requests"]["succeeded"], done) << "what is counted is in the file";
  EXPECT_TRUE(job.answers().is_exact());

  const ProcessEnd rest = job.run({"--summary", "s.json"});
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(Json::parse(job.files.read("s.json"))["run"]["requests"], kLines - done)
      << "the next run does the rest only";
  EXPECT_TRUE(job.answers().is_exact());
  EXPECT_TRUE(job.answers() == undisturbed());
}

TEST(Cases, B9_CtrlCAtHalfKeepsWhatIsDoneAndTheNextRunDoesTheRest) {
  expect_clean_stop(SIGINT, 130);
}

TEST(Signals, SigtermStopsCleanly) { expect_clean_stop(SIGTERM, 143); }

TEST(Signals, AClosedTerminalStopsCleanly) { expect_clean_stop(SIGHUP, 143); }

TEST(Signals, WhatIsIgnoredAtTheStartStaysIgnored) {
  for (const int signal : {SIGHUP, SIGINT, SIGTERM}) {
    BatchFolder job;
    prepare(job, 40, 4);
    ProcessOptions options = job.command();
    options.ignored_signals = {signal};
    TroupeProcess process(options);
    wait_for_lines(job, process, 4);
    EXPECT_TRUE(process.is_running()) << "the job was too short";
    for (int i = 0; i < 4; ++i)
      process.signal(signal);
    const ProcessEnd end = process.wait();
    EXPECT_EQ(end.code, 0) << signal << ": " << end.err;
    EXPECT_EQ(lines_in(job), 40);
  }
}

/// A job of answers that take minutes; `stop` asks it to end. @return seconds until it did
double seconds_to_stop(BatchFolder& job, int exit_code, const std::vector<std::string>& more,
                       const std::function<void(TroupeProcess&)>& stop) {
  prepare(job, 8, 20'000);
  job.flags.insert(job.flags.end(), {"--set", "model.context_max=0"});
  ProcessOptions options = job.command(more);
  std::erase(options.arguments, "--quiet");
  TroupeProcess process(options);
  std::this_thread::sleep_for(std::chrono::milliseconds{1500});
  EXPECT_TRUE(process.is_running());
  const auto begin = Clock::now();
  stop(process);
  const ProcessEnd end = process.wait();
  EXPECT_EQ(end.code, exit_code) << end.err;
  EXPECT_EQ(lines_in(job), 0) << "nothing half done is written";
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(Signals, TwiceStopsAtOnce) {
  BatchFolder job;
  const double seconds = seconds_to_stop(job, 130, {}, [](TroupeProcess& process) {
    process.signal(SIGINT);
    EXPECT_TRUE(process.wait_for_error_text("again to stop now"));
    std::this_thread::sleep_for(std::chrono::milliseconds{500});
    EXPECT_TRUE(process.is_running()) << "once lets finish what decodes";
    process.signal(SIGINT);
  });
  EXPECT_LT(seconds, 10.0);
}

TEST(Signals, TheGracePeriodActsAsASecondOne) {
  BatchFolder job;
  const double seconds = seconds_to_stop(job, 143, {"--set", "limits.stop_grace_s=1"},
                                         [](TroupeProcess& process) { process.signal(SIGTERM); });
  EXPECT_GT(seconds, 0.9);
  EXPECT_LT(seconds, 10.0);
}

TEST(Signals, ManyOfThemEndAtOnceAndLoseNothing) {
  BatchFolder job;
  prepare(job, kLines, 4);
  for (int round = 0; round < 3; ++round) {
    TroupeProcess process(job.command());
    wait_for_lines(job, process, 15 * (round + 1));
    for (int i = 0; i < 5; ++i) {
      process.signal(round % 2 == 0 ? SIGINT : SIGTERM);
      std::this_thread::sleep_for(std::chrono::milliseconds{round});
    }
    EXPECT_NE(process.wait().code, 0);
  }
  EXPECT_EQ(job.run().code, 0);
  EXPECT_TRUE(job.answers().is_exact());
  EXPECT_TRUE(job.answers() == undisturbed());
}

} // namespace
} // namespace troupe::test
