// `troupe ledger` and `troupe replay` on the ledger of a job of the executable.

#include "tests/support/batch_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::int64_t kLines = 30;

/// A finished job whose requests wait for each other.
class LedgerCommand : public testing::Test {
protected:
  LedgerCommand() {
    job_.use_null_device();
    job_.flags.insert(job_.flags.end(), {"--set", "limits.sequences_max=2"});
    job_.write_input(BatchFolder::completions(kLines));
    const ProcessEnd end = job_.run();
    EXPECT_EQ(end.code, 0) << end.err;
  }

  ProcessEnd troupe(const std::vector<std::string>& arguments) const {
    ProcessOptions options;
    options.arguments = arguments;
    options.folder = job_.files.path("");
    return TroupeProcess(options).wait();
  }

  BatchFolder job_;
  std::string ledger_ = "out.jsonl.ledger";
};

TEST_F(LedgerCommand, StatsCountWhatTheJobDid) {
  const ProcessEnd end = troupe({"ledger", "stats", "--ledger", ledger_, "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.err, "");
  const Json stats = Json::parse(end.out);
  EXPECT_EQ(stats["requests"], kLines);
  EXPECT_EQ(stats["kinds"]["admission"], kLines);
  EXPECT_EQ(stats["kinds"]["prefill_router"], kLines);
  EXPECT_EQ(stats["invalid"], 0);
  EXPECT_EQ(stats["fallbacks"], 0);
  EXPECT_EQ(stats["dropped"], 0);
  std::int64_t decisions = 0;
  for (const auto& [kind, count] : stats["kinds"].items())
    decisions += count.get<std::int64_t>();
  EXPECT_EQ(stats["decisions"], decisions);
  ASSERT_EQ(stats["epochs"].size(), 1U);
  EXPECT_EQ(stats["epochs"][0],
            (Json{{"epoch", 1}, {"name", "default"}, {"decisions", decisions}}));
  const ProcessEnd words = troupe({"ledger", "stats", "--ledger", ledger_});
  EXPECT_NE(words.out.find(fmt::format("decisions   {}", decisions)), std::string::npos);
}

TEST_F(LedgerCommand, ExportHasEveryEntryAndTailTheLastOnes) {
  const Json stats = Json::parse(troupe({"ledger", "stats", "--ledger", ledger_, "--json"}).out);
  const ProcessEnd all = troupe({"ledger", "export", "--ledger", ledger_});
  ASSERT_EQ(all.code, 0) << all.err;
  std::vector<std::string> lines;
  std::istringstream in(all.out);
  for (std::string line; std::getline(in, line);)
    lines.push_back(line);
  ASSERT_EQ(lines.size(), stats["records"]);
  std::int64_t named = 0;
  std::int64_t finished = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Json entry = Json::parse(lines[i]);
    EXPECT_EQ(entry["n"], i);
    named += entry["what"] == "named" ? 1 : 0;
    finished += entry["what"] == "finish" ? 1 : 0;
  }
  EXPECT_EQ(named, kLines);
  EXPECT_EQ(finished, kLines);

  const ProcessEnd last = troupe({"ledger", "tail", "--ledger", ledger_, "--lines", "3", "--json"});
  ASSERT_EQ(last.code, 0) << last.err;
  EXPECT_EQ(last.out, fmt::format("{}\n{}\n{}\n", lines[lines.size() - 3], lines[lines.size() - 2],
                                  lines.back()));
  const ProcessEnd words =
      troupe({"ledger", "tail", "--ledger", ledger_, "--what", "decision", "--lines", "5"});
  EXPECT_EQ(std::count(words.out.begin(), words.out.end(), '\n'), 5);
}

TEST_F(LedgerCommand, ReplayIsEqualAndSaysWhereAnotherSetDiffers) {
  const ProcessEnd same = troupe({"replay", ledger_, "--json"});
  ASSERT_EQ(same.code, 0) << same.out << same.err;
  const Json report = Json::parse(same.out);
  EXPECT_GT(report["decisions"], kLines);
  EXPECT_EQ(report["equal"], report["decisions"]);
  EXPECT_EQ(report["different"], 0);
  EXPECT_EQ(report["first"], Json::array());

  job_.files.write("other.toml", "name = \"other\"\n[handoff]\npolicy = \"paced\"\n"
                                 "[prefill_chunker]\npolicy = \"fixed\"\nbudget_tokens = 1\n");
  const ProcessEnd other = troupe({"replay", ledger_, "--policies", "other.toml", "--json"});
  EXPECT_EQ(other.code, 3) << other.err;
  const Json differs = Json::parse(other.out);
  EXPECT_EQ(differs["decisions"], report["decisions"]);
  EXPECT_GT(differs["different"], 0);
  EXPECT_EQ(differs["kinds"]["prefill_chunker"]["different"],
            differs["kinds"]["prefill_chunker"]["decisions"]);
  EXPECT_EQ(differs["kinds"]["admission"]["different"], 0);
  ASSERT_FALSE(differs["first"].empty());
  for (const char* key : {"number", "stage", "kind", "policy", "then", "policy_now", "now", "why"})
    EXPECT_TRUE(differs["first"][0].contains(key)) << key;
  const ProcessEnd words = troupe({"replay", ledger_, "--policies", "other.toml"});
  EXPECT_NE(words.out.find("then time_budget"), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("now  fixed"), std::string::npos) << words.out;
}

TEST_F(LedgerCommand, ReplaySaysThatAnotherSetFails) {
  job_.files.write("failing.toml", fmt::format("name = \"failing\"\n[[library]]\npath = \"{}/"
                                               "bad_policies.so\"\n[decode_balancer]\n"
                                               "policy = \"bad\"\nmode = \"fails\"\nafter = 10\n",
                                               TROUPE_PLUGIN_DIR));
  const ProcessEnd end = troupe({"replay", ledger_, "--policies", "failing.toml", "--json"});
  EXPECT_EQ(end.code, 3) << end.err;
  const Json report = Json::parse(end.out);
  const Json& kind = report["kinds"]["decode_balancer"];
  EXPECT_GT(kind["decisions"], 0);
  EXPECT_EQ(kind["failed"].get<std::int64_t>(), kind["decisions"].get<std::int64_t>() - 10);
  EXPECT_EQ(report["failed"], kind["failed"]);
  EXPECT_EQ(report["different"], 0) << "the default answers, and it did so then";
  EXPECT_NE(report["failed_first"]["decode_balancer"].get<std::string>().find("bad: "),
            std::string::npos);
  const ProcessEnd words = troupe({"replay", ledger_, "--policies", "failing.toml"});
  EXPECT_EQ(words.code, 3) << words.err;
  EXPECT_NE(words.out.find(fmt::format("{0} failed\n", kind["failed"].dump())), std::string::npos)
      << words.out;
  EXPECT_NE(words.out.find(": decode_balancer policy bad: "), std::string::npos) << words.out;
}

TEST_F(LedgerCommand, ReplaySaysThatALibraryEndedIt) {
  for (const std::string mode : {"exits", "crashes"}) {
    for (const std::string isolation : {"lane", "none"}) {
      job_.files.write("ending.toml",
                       fmt::format("name = \"ending\"\n[[library]]\npath = \"{}/bad_policies.so\"\n"
                                   "isolation = \"{}\"\n[decode_balancer]\npolicy = \"bad\"\n"
                                   "mode = \"{}\"\nafter = 10\n",
                                   TROUPE_PLUGIN_DIR, isolation, mode));
      const ProcessEnd end = troupe({"replay", ledger_, "--policies", "ending.toml"});
      EXPECT_EQ(end.code, 1) << mode << end.err;
      EXPECT_EQ(end.out, "") << mode;
      EXPECT_NE(end.err.find("replay gave no report: "), std::string::npos) << end.err;
      EXPECT_NE(end.err.find("those of ending.toml"), std::string::npos) << end.err;
    }
  }
}

TEST_F(LedgerCommand, ReplayIsNotEqualWhereASetCannotBeBuilt) {
  job_.files.write("lent.toml", fmt::format("name = \"lent\"\n[[library]]\npath = \"{}\"\n"
                                            "[decode_balancer]\npolicy = \"turns\"\n",
                                            job_.files.path("lent.so")));
  fs::copy_file(fs::path(TROUPE_PLUGIN_DIR) / "good_policies.so", job_.files.path("lent.so"));
  ASSERT_EQ(job_.run({"--restart", "--policies", "lent.toml"}).code, 0);
  EXPECT_EQ(troupe({"replay", ledger_}).code, 0);
  fs::remove(job_.files.path("lent.so"));
  const ProcessEnd gone = troupe({"replay", ledger_});
  EXPECT_EQ(gone.code, 3) << gone.err;
  EXPECT_NE(gone.out.find("its policy set cannot be built"), std::string::npos) << gone.out;
}

TEST_F(LedgerCommand, ARestartedJobGoesOnWithItsEpochs) {
  ASSERT_EQ(job_.run({"--restart"}).code, 0);
  const Json stats = Json::parse(troupe({"ledger", "stats", "--ledger", ledger_, "--json"}).out);
  ASSERT_EQ(stats["epochs"].size(), 2U);
  EXPECT_EQ(stats["epochs"][1]["epoch"], 2);
  EXPECT_EQ(stats["dropped"], 0);
  EXPECT_EQ(troupe({"replay", ledger_}).code, 0);
}

TEST_F(LedgerCommand, DamageIsNamedAndTheRestIsUsed) {
  const std::string segment = job_.files.path(ledger_ + "/ledger-00000001.seg");
  const auto size = fs::file_size(segment);
  fs::resize_file(segment, size - 5);
  const ProcessEnd torn = troupe({"replay", ledger_});
  EXPECT_EQ(torn.code, 0);
  EXPECT_NE(torn.err.find("ledger-00000001.seg:"), std::string::npos) << torn.err;
  EXPECT_NE(torn.err.find("the file ends inside a frame"), std::string::npos) << torn.err;
  {
    std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file.write("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 16);
  }
  const ProcessEnd damaged = troupe({"ledger", "stats", "--ledger", ledger_});
  EXPECT_EQ(damaged.code, 3);
  EXPECT_NE(damaged.err.find("bytes are skipped"), std::string::npos) << damaged.err;
  EXPECT_EQ(troupe({"replay", ledger_}).code, 3);
  EXPECT_EQ(troupe({"explain", "1", "--ledger", ledger_}).code, 3);
}

TEST_F(LedgerCommand, ALedgerOfWhichNothingCanBeReadIsAFailure) {
  const std::string segment = job_.files.path(ledger_ + "/ledger-00000001.seg");
  const std::vector<std::vector<std::string>> commands = {{"ledger", "stats", "--ledger", ledger_},
                                                          {"ledger", "tail", "--ledger", ledger_},
                                                          {"ledger", "export", "--ledger", ledger_},
                                                          {"explain", "1", "--ledger", ledger_},
                                                          {"replay", ledger_}};
  const auto expect_code = [&](int code) {
    for (const auto& command : commands) {
      const ProcessEnd end = troupe(command);
      EXPECT_EQ(end.code, code) << command[0] << " " << command[1] << end.out;
      EXPECT_NE(end.err.find("ledger-0000000"), std::string::npos) << end.err;
    }
  };
  fs::copy_file(segment, job_.files.path(ledger_ + "/ledger-00000002.seg"));
  expect_code(3); // It stands twice.
  fs::remove(job_.files.path(ledger_ + "/ledger-00000002.seg"));
  const auto size = fs::file_size(segment);
  {
    std::fstream file(segment, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(16);
    file.write("broken", 6);
  }
  expect_code(3); // The head only: the entries behind it are read.
  std::ofstream(segment, std::ios::binary) << std::string(size, '#');
  expect_code(1);
  fs::remove(segment);
  fs::create_directory(segment);
  expect_code(1);
}

/// The same job at level "events", beside the other one.
class LedgerEvents : public LedgerCommand {
protected:
  LedgerEvents() {
    job_.output = "events.jsonl";
    ledger_ = "events.jsonl.ledger";
    const ProcessEnd end = job_.run({"--set", "ledger.level=\"events\""});
    EXPECT_EQ(end.code, 0) << end.err;
  }
};

TEST_F(LedgerEvents, ReplayRunsWholeStagesAgain) {
  const ProcessEnd end = troupe({"replay", ledger_, "--json"});
  ASSERT_EQ(end.code, 0) << end.out << end.err;
  EXPECT_EQ(end.err, "");
  const Json stages = Json::parse(end.out)["stages"];
  EXPECT_GT(stages["events"], 10 * kLines);
  EXPECT_EQ(stages["equal"], stages["events"]);
  EXPECT_EQ(stages["different"], 0);
  EXPECT_EQ(stages["stopped"], 0);
  ASSERT_EQ(stages["lives"].size(), 6U) << "driver, chunker, balancer, experts, two ranks";
  const ProcessEnd words = troupe({"replay", ledger_});
  EXPECT_NE(words.out.find("6 lives of stages, "), std::string::npos) << words.out;
  EXPECT_NE(words.out.find("  rank 1, life 1 "), std::string::npos) << words.out;
  // Of a ledger without events nothing is said.
  const ProcessEnd decisions = troupe({"replay", "out.jsonl.ledger"});
  EXPECT_EQ(decisions.out.find("lives of stages"), std::string::npos) << decisions.out;
}

TEST_F(LedgerEvents, StatsExportAndTailKnowThem) {
  const Json stats = Json::parse(troupe({"ledger", "stats", "--ledger", ledger_, "--json"}).out);
  EXPECT_EQ(stats["lives"], 6);
  EXPECT_EQ(stats["events"]["arrive"], kLines);
  EXPECT_EQ(stats["events"]["start"], 3) << "two ranks and the manager of experts";
  EXPECT_NE(troupe({"ledger", "stats", "--ledger", ledger_}).out.find("of 6 lives of stages"),
            std::string::npos);
  const ProcessEnd all = troupe({"ledger", "export", "--ledger", ledger_, "--what", "event"});
  std::istringstream in(all.out);
  std::int64_t arrived = 0;
  for (std::string line; std::getline(in, line);) {
    const Json entry = Json::parse(line);
    EXPECT_TRUE(entry["effects"].is_array());
    if (entry["event"] != "arrive") continue;
    ++arrived;
    EXPECT_EQ(entry["stage"], "driver");
    EXPECT_EQ(entry["fields"]["work"]["prompt"].size(), 3U);
  }
  EXPECT_EQ(arrived, kLines);
  const ProcessEnd began = troupe({"ledger", "tail", "--ledger", ledger_, "--what", "began"});
  EXPECT_EQ(std::count(began.out.begin(), began.out.end(), '\n'), 6);
  const ProcessEnd story = troupe({"explain", "r7", "--ledger", ledger_});
  EXPECT_EQ(story.code, 0) << story.err;
}

TEST_F(LedgerEvents, ARingThatDroppedTheBeginningFallsBackToDecisions) {
  job_.write_input(BatchFolder::completions(400));
  const ProcessEnd run =
      job_.run({"--restart", "--set", "ledger.level=\"events\"", "--set",
                "ledger.directory=\"small\"", "--set", "ledger.size_max=\"256KiB\""});
  ASSERT_EQ(run.code, 0) << run.err;
  const ProcessEnd end = troupe({"replay", "small", "--json"});
  const Json report = Json::parse(end.out);
  EXPECT_EQ(end.code, 0) << end.out;
  EXPECT_GT(report["equal"], 0);
  EXPECT_EQ(report["different"], 0);
  EXPECT_EQ(report["stages"]["equal"], 0);
  EXPECT_EQ(report["stages"]["different"], 0);
  EXPECT_GT(report["stages"]["stopped"], 0);
  for (const Json& life : report["stages"]["lives"]) {
    EXPECT_NE(life["stopped"].get<std::string>().find("its beginning is not in this ledger"),
              std::string::npos)
        << life;
  }
  const ProcessEnd words = troupe({"replay", "small"});
  EXPECT_NE(words.out.find("followed no further: its beginning is not"), std::string::npos)
      << words.out;
}

TEST_F(LedgerCommand, WhatIsNoLedgerIsRefusedWithAHint) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"ledger", "stats"},
        {"ledger", "tail", "--ledger", "none"},
        {"replay", "none"},
        {"replay", "."},
        {"replay", ledger_, "--policies", "none.toml"}}) {
    const ProcessEnd end = troupe(arguments);
    EXPECT_EQ(end.code, 2) << end.out << end.err;
    EXPECT_EQ(std::count(end.err.begin(), end.err.end(), '\n'), 1) << end.err;
  }
}

} // namespace
} // namespace troupe::test
