// Goal: whatever moment a job dies at, the same command answers each line exactly once.
// Method: a child process is killed at the n-th write point, for every n, then a run without
// disturbance goes on; what stands in the files is compared with a run that was never disturbed.

#include "schedulers/core/rng.hpp"
#include "tests/actors/app/sample_job.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <sys/resource.h>
#include <sys/wait.h>

namespace troupe::app {
namespace {

/// Works on everything, three lines a flush; of each three the last is committed first.
Status work(BatchJob& job) {
  std::vector<PendingLine> open;
  for (bool at_end = false; !at_end || !open.empty();) {
    if (!at_end) {
      auto next = job.next_lines(4);
      if (!next) {
        return next.status();
      }
      at_end = next->at_end;
      for (PendingLine& line : next->lines) {
        open.push_back(std::move(line));
      }
    }
    std::vector<LineResult> results;
    while (!open.empty() && results.size() < 3) {
      results.push_back(answer(job.facts(), open.back()));
      open.pop_back();
    }
    if (results.empty()) {
      continue;
    }
    if (Status status = job.commit(results); !status) {
      return status;
    }
  }
  return job.finish();
}

Status run(Job& job) {
  auto opened = job.open();
  if (!opened) {
    return opened.status();
  }
  if ((*opened)->facts().is_finished) {
    return {};
  }
  return work(**opened);
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::sort(lines.begin(), lines.end());
  return lines;
}

/// Runs in a child that kills itself at the n-th point; true when it was killed.
bool run_and_kill(Job& job, int point) {
  const pid_t child = ::fork();
  if (child == 0) {
    int seen = 0;
    job.options.at_write = [&](const char*) {
      if (++seen == point) {
        ::kill(::getpid(), SIGKILL);
      }
    };
    ::_exit(run(job).ok() ? 0 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_TRUE(WIFSIGNALED(state) || WEXITSTATUS(state) == 0) << "point " << point;
  return WIFSIGNALED(state);
}

/// Both runs have one start time, so even a job that died before it was committed is the same.
void expect_every_kill_is_mended(OutputOrder order) {
  Job whole;
  whole.options.order = order;
  ASSERT_TRUE(run(whole).ok());
  ASSERT_EQ(lines_of(whole.output()).size(), 8U);
  ASSERT_EQ(lines_of(whole.errors()).size(), 3U);
  for (int point = 1;; ++point) {
    Job job;
    job.options.order = order;
    const bool is_killed = run_and_kill(job, point);
    const Status status = run(job);
    ASSERT_TRUE(status.ok()) << point << ": " << status.error().message;
    if (order == OutputOrder::input) {
      EXPECT_EQ(job.output(), whole.output()) << point;
      EXPECT_EQ(job.errors(), whole.errors()) << point;
    }
    EXPECT_EQ(sorted_lines(job.output()), sorted_lines(whole.output())) << point;
    EXPECT_EQ(sorted_lines(job.errors()), sorted_lines(whole.errors())) << point;
    if (!is_killed) {
      std::printf("%d write points\n", point - 1);
      ASSERT_GT(point, 20);
      return;
    }
  }
}

TEST(Journal, SurvivesAKillAtEveryWritePoint) {
  expect_every_kill_is_mended(OutputOrder::completion);
}

TEST(Journal, SurvivesAKillAtEveryWritePointInInputOrder) {
  expect_every_kill_is_mended(OutputOrder::input);
}

TEST(Journal, InputOrderHoldsForEachFile) {
  Job job;
  job.options.order = OutputOrder::input;
  ASSERT_TRUE(run(job).ok());
  const std::vector<std::string> lines = lines_of(job.output());
  const std::vector<std::string> ids = {"a", "b", "c", "e", "f", "g", "h", "i"};
  ASSERT_EQ(lines.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_NE(lines[i].find(R"("custom_id":")" + ids[i] + '"'), std::string::npos) << i;
  }
  const std::vector<std::string> errors = lines_of(job.errors());
  ASSERT_EQ(errors.size(), 3U);
  EXPECT_NE(errors[0].find(R"("line":4)"), std::string::npos);
  EXPECT_NE(errors[1].find(R"("custom_id":"d")"), std::string::npos);
  EXPECT_NE(errors[2].find("duplicate_custom_id"), std::string::npos);
}

TEST(Journal, SurvivesAStormOfKills) {
  constexpr std::uint64_t kSeed = 11;
  std::printf("seed %d\n", static_cast<int>(kSeed));
  Rng rng(kSeed);
  Job whole;
  ASSERT_TRUE(run(whole).ok());
  for (int round = 0; round < 6; ++round) {
    Job job;
    for (int kill = 0; kill < 6; ++kill) {
      run_and_kill(job, static_cast<int>(rng.below(25)) + 1);
    }
    ASSERT_TRUE(run(job).ok());
    EXPECT_EQ(sorted_lines(job.output()), sorted_lines(whole.output()));
    EXPECT_EQ(sorted_lines(job.errors()), sorted_lines(whole.errors()));
  }
}

TEST(Journal, AnEndedJobIsCompleteAndSaysSo) {
  Job job;
  ASSERT_TRUE(run(job).ok());
  const std::string output = job.output();
  auto again = job.open();
  ASSERT_TRUE(again.ok()) << again.error().message;
  const JobFacts& facts = (*again)->facts();
  EXPECT_TRUE(facts.is_finished);
  EXPECT_TRUE(facts.is_resumed);
  EXPECT_EQ(facts.lines, kSampleLines);
  EXPECT_EQ(facts.succeeded, 8);
  EXPECT_EQ(facts.failed, 3);
  EXPECT_EQ(facts.prompt_tokens, 110);
  EXPECT_EQ(facts.completion_tokens, 11);
  EXPECT_EQ(facts.start_us, kStartUs);
  EXPECT_EQ(job.output(), output);
}

TEST(Journal, AnEmptyErrorsFileGoes) {
  Job job(batch_line("a") + "\n");
  ASSERT_TRUE(run(job).ok());
  EXPECT_FALSE(job.folder.has("out.errors.jsonl"));
  EXPECT_EQ(lines_of(job.output()).size(), 1U);
  ASSERT_TRUE(run(job).ok()) << "the second run does not miss it";
  EXPECT_FALSE(job.folder.has("out.errors.jsonl"));
}

TEST(Journal, AnEmptyInputIsAFinishedJob) {
  for (const char* input : {"", "\n\n", "\xEF\xBB\xBF"}) {
    Job job(input);
    ASSERT_TRUE(run(job).ok());
    EXPECT_EQ(job.output(), "");
    auto again = job.open();
    ASSERT_TRUE(again.ok());
    EXPECT_TRUE((*again)->facts().is_finished);
    EXPECT_EQ((*again)->facts().lines, 0);
  }
}

TEST(Journal, ASecondResultOfALineIsDropped) {
  Job job;
  auto opened = job.open();
  ASSERT_TRUE(opened.ok());
  auto next = (*opened)->next_lines(1);
  const LineResult first = answer((*opened)->facts(), next->lines[0]);
  LineResult second = first;
  second.text = "{}";
  const std::vector<LineResult> results = {first, second};
  ASSERT_TRUE((*opened)->commit(results).ok());
  ASSERT_TRUE((*opened)->commit(results).ok());
  EXPECT_EQ(job.output(), first.text + "\n");
  EXPECT_EQ((*opened)->facts().succeeded, 1);
  LineResult unknown = first;
  unknown.index = 99;
  ASSERT_TRUE((*opened)->commit(std::vector<LineResult>{unknown}).ok());
  EXPECT_EQ((*opened)->facts().done(), 1);
}

/// Opens, answers `count` lines, then stops or just goes away.
void work_a_little(Job& job, std::int64_t count, bool stops) {
  auto opened = job.open();
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  auto next = (*opened)->next_lines(count);
  ASSERT_TRUE(next.ok());
  for (const PendingLine& line : next->lines) {
    const std::vector<LineResult> results = {answer((*opened)->facts(), line)};
    ASSERT_TRUE((*opened)->commit(results).ok());
  }
  if (stops) {
    ASSERT_TRUE((*opened)->stop().ok());
  }
}

TEST(Journal, GoesOnWithTheRestOnly) {
  Job job;
  work_a_little(job, 5, true);
  job.options.now_us = kStartUs + 1'000'000;
  auto opened = job.open();
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->facts().done(), 5);
  EXPECT_EQ((*opened)->facts().start_us, kStartUs) << "a job keeps its start";
  auto next = (*opened)->next_lines(100);
  EXPECT_EQ(next->lines.size(), 6U);
  EXPECT_EQ(next->lines.front().index, 6);
  auto end = (*opened)->next_lines(100);
  EXPECT_TRUE(end->at_end);
  EXPECT_TRUE(end->lines.empty());
}

std::string refusal(Job& job) {
  auto opened = job.open();
  return opened.ok() ? "opened" : opened.error().message;
}

TEST(Journal, ATornLastLineIsCutOff) {
  Job job;
  work_a_little(job, 3, false);
  const std::string output = job.output();
  job.folder.write("out.jsonl", output + R"({"id":"batch_req_)");
  job.folder.write("out.errors.jsonl", "half a li");
  ASSERT_EQ(refusal(job), "opened");
  EXPECT_EQ(job.output(), output);
  EXPECT_EQ(job.errors(), "");
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.output()).size(), 8U);
}

TEST(Journal, RefusesAShorterOutput) {
  Job job;
  work_a_little(job, 3, false);
  const std::string output = job.output();
  job.folder.write("out.jsonl", output.substr(0, 50));
  const std::string message = refusal(job);
  EXPECT_NE(message.find("50 bytes"), std::string::npos) << message;
  EXPECT_NE(message.find(std::to_string(output.size()) + " bytes"), std::string::npos);
  EXPECT_EQ(job.output(), output.substr(0, 50)) << "a refusal changes nothing";
  job.folder.write("out.jsonl", output);
  EXPECT_TRUE(run(job).ok());
}

TEST(Journal, AMissingOutputIsNamedAsMissing) {
  Job job;
  work_a_little(job, 5, false);
  for (const char* name : {"out.jsonl", "out.errors.jsonl"}) {
    const std::string kept = job.folder.read(name);
    ASSERT_NE(kept, "") << name;
    std::filesystem::remove(job.folder.path(name));
    const std::string message = refusal(job);
    EXPECT_EQ(message.rfind(job.folder.path(name) + ": it is missing, but the journal ", 0), 0U)
        << message;
    for (const std::string& part :
         {"out.jsonl.journal knows " + std::to_string(kept.size()) + " bytes of it",
          std::string("put it back"), std::string("--restart")})
      EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
    EXPECT_FALSE(job.folder.has(name)) << "a refusal leaves no trace";
    job.folder.write(name, kept);
  }
  EXPECT_TRUE(run(job).ok());
}

TEST(Journal, RefusesALongerOutputAfterACleanEnd) {
  Job stopped;
  work_a_little(stopped, 3, true);
  stopped.folder.write("out.jsonl", stopped.output() + "x");
  EXPECT_NE(refusal(stopped).find("out.jsonl"), std::string::npos);
  Job finished;
  ASSERT_TRUE(run(finished).ok());
  finished.folder.write("out.jsonl", finished.output() + "x");
  EXPECT_NE(refusal(finished).find("somebody changed it"), std::string::npos);
  EXPECT_EQ(finished.output().back(), 'x');
}

TEST(Journal, MakesAMissingFileOfNoLength) {
  Job job;
  work_a_little(job, 2, true);
  std::filesystem::remove(job.folder.path("out.errors.jsonl"));
  EXPECT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.errors()).size(), 3U);
}

TEST(Journal, RefusesAnotherInputModelOrSetting) {
  Job job;
  work_a_little(job, 2, true);
  job.identity.fields[0].second = "m2";
  const std::string model = refusal(job);
  EXPECT_NE(model.find("model was m1, is m2 now"), std::string::npos) << model;
  EXPECT_NE(model.find("--restart"), std::string::npos);
  job.identity = sample_identity();
  job.options.line_bytes_max = 4096;
  EXPECT_NE(refusal(job).find("limits.line_bytes_max was 16777216, is 4096"), std::string::npos);
  job.options = {};
  job.folder.write("in.jsonl", sample_input() + "\n\n");
  EXPECT_NE(refusal(job).find("input"), std::string::npos);
  job.folder.write("in.jsonl", sample_input());
  EXPECT_TRUE(run(job).ok());
}

TEST(Journal, WarnsAboutOtherNumerics) {
  Job job;
  work_a_little(job, 2, true);
  job.identity.numerics[0].second = "scalar";
  auto opened = job.open();
  ASSERT_TRUE(opened.ok());
  ASSERT_EQ((*opened)->facts().warnings.size(), 1U);
  EXPECT_NE((*opened)->facts().warnings[0].find("cpu_path was avx2, is scalar now"),
            std::string::npos);
}

TEST(Journal, AnEditedLineStopsTheJob) {
  Job job;
  auto opened = job.open();
  ASSERT_TRUE(opened.ok());
  std::string input = sample_input();
  input[input.find("\"c\"") + 1] = 'X';
  job.folder.write("in.jsonl", input);
  const auto next = (*opened)->next_lines(100);
  ASSERT_FALSE(next.ok());
  EXPECT_EQ(next.error().code, ErrorCode::mismatch);
  EXPECT_NE(next.error().message.find("in.jsonl:3"), std::string::npos) << next.error().message;
  EXPECT_FALSE((*opened)->commit({}).ok()) << "nothing goes on after a failure";
}

// What is read a second time must be what was read first, also in the first run.
TEST(Journal, AnInputThatChangesWhileTheJobIsBegunIsNamed) {
  Job job;
  bool has_changed = false;
  job.options.at_write = [&](const char* point) {
    if (std::string(point) != "after begin commit" || has_changed) return;
    has_changed = true;
    std::ofstream(job.paths.input, std::ios::app) << "\n" << batch_line("more");
  };
  const auto opened = job.open();
  ASSERT_TRUE(has_changed);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(
      opened.error().message.rfind(job.paths.input + ": it changed while the job was begun", 0), 0U)
      << opened.error().message;
  EXPECT_FALSE(job.folder.has("out.jsonl.journal")) << "the same command must not meet it";
  EXPECT_TRUE(job.open().ok());
}

TEST(Journal, RefusesASecondProcess) {
  Job job;
  auto first = job.open();
  ASSERT_TRUE(first.ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const auto second = job.open();
    ::_exit(!second.ok() && second.error().code == ErrorCode::busy ? 42 : 1);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  EXPECT_EQ(WEXITSTATUS(state), 42);
  EXPECT_TRUE(work(**first).ok()) << "the first is not disturbed";
  EXPECT_EQ(lines_of(job.output()).size(), 8U);
}

TEST(Journal, RefusesAnOutputThatIsNotItsOwn) {
  Job job;
  job.folder.write("out.jsonl", "mine\n");
  const std::string message = refusal(job);
  EXPECT_NE(message.find("out.jsonl: it is not empty"), std::string::npos) << message;
  EXPECT_EQ(job.output(), "mine\n");
  EXPECT_FALSE(job.folder.has("out.errors.jsonl"));
  EXPECT_FALSE(job.folder.has("out.jsonl.journal"));
  job.folder.write("out.jsonl", "");
  EXPECT_TRUE(run(job).ok()) << "an empty one is taken";
}

TEST(Journal, RestartBeginsAnew) {
  Job job;
  ASSERT_TRUE(run(job).ok());
  const std::string before = job.output();
  job.folder.write("in.jsonl", batch_line("z") + "\n");
  job.options.restart = true;
  job.options.now_us = kStartUs + 5;
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.output()).size(), 1U);
  EXPECT_EQ(before.find(lines_of(job.output())[0]), std::string::npos);
  EXPECT_FALSE(job.folder.has("out.errors.jsonl"));
  job.options.restart = false;
  auto again = job.open();
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->facts().is_finished);
  EXPECT_EQ((*again)->facts().start_us, kStartUs + 5);
}

TEST(Journal, RestartTakesForeignResults) {
  Job job;
  job.folder.write("out.jsonl", "of somebody else\n");
  job.options.restart = true;
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(job.output().find("somebody"), std::string::npos);
}

TEST(Journal, RefusesAFileThatIsNoJournal) {
  Job text;
  text.folder.write("out.jsonl.journal", std::string(5000, 'x'));
  EXPECT_NE(refusal(text).find("out.jsonl.journal"), std::string::npos) << refusal(text);
  EXPECT_EQ(text.folder.read("out.jsonl.journal").size(), 5000U);
  Job empty;
  empty.folder.write("out.jsonl.journal", "");
  EXPECT_TRUE(run(empty).ok()) << "an empty one is none";
}

TEST(Journal, AnotherOrderMayGoOn) {
  Job job;
  job.options.order = OutputOrder::input;
  {
    auto opened = job.open();
    auto next = (*opened)->next_lines(11);
    // The first line is not done, so all of these wait in the journal.
    std::vector<LineResult> results;
    for (std::size_t i = 1; i < 5; ++i) {
      results.push_back(answer((*opened)->facts(), next->lines[i]));
    }
    ASSERT_TRUE((*opened)->commit(results).ok());
    EXPECT_EQ(job.output(), "");
    EXPECT_EQ(job.errors(), "");
    EXPECT_EQ((*opened)->facts().done(), 4);
  }
  job.options.order = OutputOrder::completion;
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.output()).size(), 8U);
  EXPECT_EQ(lines_of(job.errors()).size(), 3U);
}

TEST(Journal, AFullDiskStopsAndTheSameCommandGoesOn) {
  Job job;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    // Some bytes of the first line still fit. The database is larger, so it cannot go on either.
    job.options.at_write = [](const char* point) {
      const rlimit limit{50, 50};
      if (std::string(point) == "before output") {
        ::setrlimit(RLIMIT_FSIZE, &limit);
      }
    };
    auto opened = job.open();
    if (!opened.ok()) {
      ::_exit(2);
    }
    auto next = (*opened)->next_lines(3);
    std::vector<LineResult> results;
    for (const PendingLine& line : next->lines) {
      results.push_back(answer((*opened)->facts(), line));
    }
    const Status status = (*opened)->commit(results);
    const bool says_so = !status.ok() && status.error().code == ErrorCode::io_error &&
                         status.error().message.find("same command") != std::string::npos;
    ::_exit(says_so && !(*opened)->commit(results).ok() ? 42 : 3);
  }
  int state = 0;
  ::waitpid(child, &state, 0);
  ASSERT_EQ(WEXITSTATUS(state), 42);
  EXPECT_EQ(job.output().size(), 50U) << "the torn line is there";
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.output()).size(), 8U);
}

TEST(Journal, LinesAboveTheLimitAreErrorsOfTheirOwn) {
  Job job(batch_line("a") + "\n" + std::string(2000, 'x') + "\n" + batch_line("b") + "\n");
  job.options.line_bytes_max = 1024;
  ASSERT_TRUE(run(job).ok());
  EXPECT_EQ(lines_of(job.output()).size(), 2U);
  EXPECT_NE(job.errors().find("line_too_long"), std::string::npos);
  EXPECT_NE(job.errors().find(R"("line":2)"), std::string::npos);
}

/// Runs a job on standard input that gets `input`.
Status run_stream(Job& job, const std::string& input) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  EXPECT_EQ(::write(ends[1], input.data(), input.size()), static_cast<ssize_t>(input.size()));
  ::close(ends[1]);
  const int saved = ::dup(STDIN_FILENO);
  ::dup2(ends[0], STDIN_FILENO);
  ::close(ends[0]);
  job.paths = batch_paths("-", job.paths.output, "");
  Status status;
  {
    auto opened = open_stream_job(job.paths, job.identity, job.options);
    status = opened.ok() ? work(**opened) : opened.status();
  }
  ::dup2(saved, STDIN_FILENO);
  ::close(saved);
  return status;
}

TEST(StreamJob, GivesTheSameLinesWithoutAJournal) {
  for (const OutputOrder order : {OutputOrder::completion, OutputOrder::input}) {
    Job job;
    job.options.order = order;
    ASSERT_TRUE(run_stream(job, sample_input()).ok());
    EXPECT_EQ(lines_of(job.output()).size(), 8U);
    EXPECT_EQ(lines_of(job.errors()).size(), 3U);
    EXPECT_FALSE(job.folder.has("out.jsonl.journal"));
    if (order == OutputOrder::input) {
      EXPECT_NE(lines_of(job.output())[0].find(R"("custom_id":"a")"), std::string::npos);
      EXPECT_NE(lines_of(job.output())[7].find(R"("custom_id":"i")"), std::string::npos);
    }
    const Status again = run_stream(job, sample_input());
    EXPECT_EQ(again.error().code, ErrorCode::mismatch) << "it cannot go on";
    EXPECT_EQ(lines_of(job.output()).size(), 8U);
  }
}

} // namespace
} // namespace troupe::app
