// Goal: a job that was stopped or killed goes on with the same command, and with no other one.
// Method: part of a job is run, then a file, the model or the command is changed.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kGood = 200;
constexpr std::int64_t kBad = 3; ///< Lines that go to the errors file, first of the input.

class Resume : public testing::Test {
protected:
  Resume() { prepare(job_); }

  static void prepare(BatchFolder& job) {
    std::string bad;
    for (std::int64_t i = 0; i < kBad; ++i) {
      bad += fmt::format(R"({{"custom_id":"bad{}","method":"POST","url":"/v1/completions",)"
                         R"("body":{{"prompt":""}}}})"
                         "\n",
                         i);
    }
    job.write_input(bad + BatchFolder::completions(kGood));
    job.use_null_device();
    // Steps take their modelled time: a job of a second or more, that can be met halfway.
    for (const char* set : {"cost_model.null_speed=1.0", "limits.inflight_max=4",
                            "journal.flush_ms=20", "ledger.level=\"off\""}) {
      job.flags.emplace_back("--set");
      job.flags.emplace_back(set);
    }
  }

  std::int64_t lines_so_far() const {
    return static_cast<std::int64_t>(app::lines_of(job_.files.read("out.jsonl")).size());
  }

  /// Waits until the output holds `lines` lines; false when the job ended before.
  bool wait_for_lines(TroupeProcess& process, std::int64_t lines) const {
    while (lines_so_far() < lines) {
      if (!process.is_running()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    return true;
  }

  /// Runs until some lines are done, then ends it with this signal.
  ProcessEnd run_part(int signal) const {
    TroupeProcess process(job_.command());
    EXPECT_TRUE(wait_for_lines(process, 20));
    process.signal(signal);
    ProcessEnd end = process.wait();
    EXPECT_LT(lines_so_far(), kGood) << "the job was too short to be met halfway";
    return end;
  }

  /// The same command ends the job, with the answers of an undisturbed run.
  void expect_completes(const std::vector<std::string>& more = {}) const {
    const ProcessEnd end = job_.run(more);
    ASSERT_EQ(end.code, 3) << end.err;
    const JobAnswers answers = job_.answers();
    EXPECT_TRUE(answers.is_exact());
    EXPECT_EQ(answers.lines, kGood + kBad);
    EXPECT_TRUE(answers == undisturbed());
  }

  /// Exit code 2, a message with these words, and files as they were.
  void expect_refused(const std::vector<std::string>& words,
                      const std::vector<std::string>& more = {}) const {
    const auto before = contents();
    const ProcessEnd end = job_.run(more);
    EXPECT_EQ(end.code, 2) << end.err;
    for (const std::string& word : words)
      EXPECT_NE(end.err.find(word), std::string::npos) << word << "\n" << end.err;
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
    EXPECT_EQ(contents(), before) << "a refusal changes nothing";
  }

  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> out;
    for (const char* name : {"in.jsonl", "out.jsonl", "out.errors.jsonl"}) {
      if (job_.files.has(name)) out[name] = job_.files.read(name);
    }
    return out;
  }

  static const JobAnswers& undisturbed() {
    static const JobAnswers answers = [] {
      BatchFolder calm;
      prepare(calm);
      EXPECT_EQ(calm.run().code, 3);
      return calm.answers();
    }();
    return answers;
  }

  BatchFolder job_;
};

TEST_F(Resume, TornLastLinesAreCutOff) {
  EXPECT_EQ(run_part(SIGKILL).code, -SIGKILL);
  for (const char* name : {"out.jsonl", "out.errors.jsonl"})
    job_.files.write(name, job_.files.read(name) + R"({"id":"batch_req_)");
  expect_completes();
}

TEST_F(Resume, AFileThatWasRemovedIsMissed) {
  run_part(SIGKILL);
  for (const std::string name : {"out.jsonl", "out.errors.jsonl"}) {
    const std::string bytes = job_.files.read(name);
    ASSERT_FALSE(bytes.empty());
    fs::remove(job_.files.path(name));
    expect_refused({name, "it is missing", "put it back", "--restart"});
    EXPECT_FALSE(job_.files.has(name));
    job_.files.write(name, bytes);
  }
  expect_completes();
}

TEST_F(Resume, AFileThatWasShortenedIsRefused) {
  run_part(SIGTERM);
  for (const std::string name : {"out.jsonl", "out.errors.jsonl"}) {
    const std::string bytes = job_.files.read(name);
    job_.files.write(name, bytes.substr(0, 50));
    expect_refused({name, "it has 50 bytes", fmt::format("knows {} bytes", bytes.size())});
    job_.files.write(name, bytes);
  }
  expect_completes();
}

TEST_F(Resume, AFileThatGrewAfterACleanStopIsRefused) {
  run_part(SIGINT);
  for (const std::string name : {"out.jsonl", "out.errors.jsonl"}) {
    const std::string bytes = job_.files.read(name);
    job_.files.write(name, bytes + "x");
    expect_refused({name, fmt::format("it has {} bytes", bytes.size() + 1),
                    fmt::format("knows {} bytes", bytes.size())});
    job_.files.write(name, bytes);
  }
  expect_completes();
}

TEST_F(Resume, FilesOfAFinishedJobAreCompared) {
  expect_completes();
  for (const std::string name : {"out.jsonl", "out.errors.jsonl"}) {
    const std::string bytes = job_.files.read(name);
    for (const std::string& changed : {bytes + "\n", bytes.substr(1), std::string()}) {
      job_.files.write(name, changed);
      expect_refused({name, fmt::format("it has {} bytes", changed.size())});
    }
    job_.files.write(name, bytes);
  }
  expect_completes();
}

TEST_F(Resume, AFinishedJobSaysSoAndEndsAsItDid) {
  expect_completes();
  const auto before = contents();
  const ProcessEnd again = TroupeProcess([&] {
                             ProcessOptions options = job_.command({"--summary", "s.json"});
                             std::erase(options.arguments, "--quiet");
                             return options;
                           }())
                               .wait();
  EXPECT_EQ(again.code, 3);
  EXPECT_NE(again.err.find("already complete"), std::string::npos) << again.err;
  EXPECT_EQ(contents(), before);
  const Json summary = Json::parse(job_.files.read("s.json"));
  EXPECT_EQ(summary["end"], "already_complete");
  EXPECT_EQ(summary["requests"]["total"], kGood + kBad);
  EXPECT_EQ(summary["requests"]["succeeded"], kGood);
  EXPECT_EQ(summary["requests"]["failed"], kBad);
}

TEST_F(Resume, AnEditedInputIsRefused) {
  run_part(SIGKILL);
  const std::string input = job_.files.read("in.jsonl");
  std::string edited = input;
  edited[edited.find("\"max_tokens\":4") + 13] = '5';
  for (const std::string& text : {edited, input + "\n", input.substr(0, input.size() - 1)}) {
    job_.files.write("in.jsonl", text);
    expect_refused({"out.jsonl.journal", "begun differently", "input (digest) was", "--restart"});
  }
  fs::remove(job_.files.path("in.jsonl"));
  EXPECT_NE(job_.run().code, 0);
  job_.files.write("in.jsonl", input);
  expect_completes();
}

TEST_F(Resume, ALineThatChangesWhileTheJobRunsStopsIt) {
  const std::string input = job_.files.read("in.jsonl");
  const std::size_t last = input.rfind("\"max_tokens\":4") + 13;
  TroupeProcess process(job_.command());
  ASSERT_TRUE(wait_for_lines(process, 10));
  // In place: another file of that name would not be the one that is open.
  std::fstream(job_.files.path("in.jsonl"), std::ios::in | std::ios::out | std::ios::binary)
      .seekp(static_cast<std::streamoff>(last))
      .put('9');
  const ProcessEnd end = process.wait();
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.err.find(fmt::format("in.jsonl:{}: this line changed", kGood + kBad)),
            std::string::npos)
      << end.err;
  EXPECT_NE(end.err.find("bring the old file back"), std::string::npos) << end.err;
  job_.files.write("in.jsonl", input);
  expect_completes();
}

TEST_F(Resume, AnotherModelIsRefused) {
  const std::string copy = job_.files.path("model");
  fs::copy(job_.model, copy, fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(copy))
    fs::permissions(entry.path(), fs::perms::owner_all);
  job_.model = copy;
  run_part(SIGKILL);
  const std::string config = job_.files.read("model/config.json");
  job_.files.write("model/config.json", config + " ");
  expect_refused({"begun differently", "model was ", "Go back"});
  job_.files.write("model/config.json", config);
  expect_completes();
}

TEST_F(Resume, WhatChangesAnswersMayNotChange) {
  run_part(SIGKILL);
  for (const auto& [key, value] :
       std::vector<std::pair<std::string, std::string>>{{"cluster.seed", "2"},
                                                        {"model.activation_quant", "\"off\""},
                                                        {"model.context_max", "128"},
                                                        {"sampling.temperature", "0.5"},
                                                        {"sampling.thinking", "false"},
                                                        {"sampling.max_tokens_completion", "17"},
                                                        {"limits.choices_max", "7"},
                                                        {"limits.line_bytes_max", "\"1MiB\""}}) {
    expect_refused({key + " was ", "--restart"}, {"--set", key + "=" + value});
  }
  // How fast it goes is nobody's answer.
  expect_completes({"--set", "limits.inflight_max=32", "--set", "kv.memory=\"256MiB\"", "--set",
                    "rank.decode.count=2", "--set", "cost_model.null_speed=0.0", "--order",
                    "input"});
}

TEST_F(Resume, TwoProcessesDoNotShareAJob) {
  TroupeProcess first(job_.command());
  ASSERT_TRUE(wait_for_lines(first, 5));
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--errors", "other.jsonl"}, {"--restart"}}) {
    const ProcessEnd second = job_.run(more);
    EXPECT_EQ(second.code, 2) << second.err;
    EXPECT_NE(second.err.find("another process is working on this job"), std::string::npos)
        << second.err;
  }
  EXPECT_FALSE(job_.files.has("other.jsonl"));
  ProcessOptions shares_errors = job_.command({"--errors", "out.errors.jsonl"});
  for (std::string& word : shares_errors.arguments)
    if (word == "out.jsonl") word = "other_out.jsonl";
  const ProcessEnd third = TroupeProcess(shares_errors).wait();
  EXPECT_EQ(third.code, 2) << third.err;
  EXPECT_FALSE(job_.files.has("other_out.jsonl")) << "a refusal leaves no trace";
  EXPECT_EQ(first.wait().code, 3) << "the first one is not disturbed";
  EXPECT_TRUE(job_.answers() == undisturbed());
}

TEST_F(Resume, AClockThatWentBackChangesNothing) {
  run_part(SIGKILL);
  const std::int64_t done = lines_so_far();
  constexpr std::int64_t kYear2100S = 4'102'444'800;
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(job_.files.path("out.jsonl.journal").c_str(), &db), SQLITE_OK);
  const std::string later = fmt::format("UPDATE job SET start_us = {}", kYear2100S * 1'000'000);
  EXPECT_EQ(sqlite3_exec(db, later.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  expect_completes({"--summary", "s.json"});
  std::int64_t of_2100 = 0;
  for (const std::string& line : app::lines_of(job_.files.read("out.jsonl")))
    of_2100 += Json::parse(line)["response"]["body"]["created"] == kYear2100S ? 1 : 0;
  EXPECT_GE(of_2100, kGood - done - 64) << "`created` is the start of the job, not the clock";
  EXPECT_GT(of_2100, 0);
  const Json summary = Json::parse(job_.files.read("s.json"));
  EXPECT_GT(summary["run"]["wall_us"], 0);
  EXPECT_LT(summary["run"]["wall_us"], 600'000'000) << "durations come from the steady clock";
}

TEST_F(Resume, AnOutputThatIsRemovedWhileTheJobRunsStopsIt) {
  TroupeProcess process(job_.command());
  ASSERT_TRUE(wait_for_lines(process, 10));
  fs::remove(job_.files.path("out.jsonl"));
  const ProcessEnd end = process.wait();
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.err.find("out.jsonl: it was removed or moved away while the job runs"),
            std::string::npos)
      << end.err;
  expect_refused({"out.jsonl", "it is missing"});
  expect_completes({"--restart"});
}

TEST_F(Resume, WithoutItsJournalAnOutputIsSomebodyElses) {
  run_part(SIGTERM);
  const std::string journal = job_.files.read("out.jsonl.journal");
  fs::remove(job_.files.path("out.jsonl.journal"));
  expect_refused({"out.jsonl", "there is no journal", "out.jsonl.journal", "--restart"});
  EXPECT_FALSE(job_.files.has("out.jsonl.journal"));
  job_.files.write("out.jsonl.journal", journal);
  expect_completes();
}

} // namespace
} // namespace troupe::test
