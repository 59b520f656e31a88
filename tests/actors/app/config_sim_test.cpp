// Simulation files: what they mean, and one clear message for each mistake.

#include "actors/app/config_sim.hpp"
#include "actors/app/trace_reader.hpp"
#include "tests/actors/app/temporary_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <sys/stat.h>

namespace troupe::app {
namespace {

const sched::PolicyRegistry& registry() {
  static const sched::PolicyRegistry made = [] {
    sched::PolicyRegistry out;
    sched::register_builtin_policies(out);
    return out;
  }();
  return made;
}

SimOutcome parse(const std::string& text) { return parse_sim_file(text, "s.toml", registry()); }

TEST(SimFile, NumbersAndRanges) {
  const SimOutcome outcome = parse(R"(
name = "x"
seeds = [3, 9]
block_tokens = 8
[[rank]]
role = "both"
count = [1, 4]
kv_blocks = [12, 40]
[workload]
requests = [1, 30]
arrivals = "poisson"
[[workload.tenant]]
name = "a"
share = 3
[limits]
lease_us = 500_000
[policies.queue]
policy = ["fcfs", "sjf"]
[policies.prefill_router]
policy = "round_robin"
[[fault]]
kind = "pause"
rank = "both-3"
at_us = [10, 20]
for_us = 5
[expect.endings]
ok = [1, 30]
never_fits = 0
)");
  ASSERT_TRUE(outcome.ok()) << error_lines(outcome.errors);
  const sim::Scenario& scenario = outcome.scenario;
  EXPECT_EQ(scenario.seed_first, 3U);
  EXPECT_EQ(scenario.seed_last, 9U);
  EXPECT_EQ(scenario.ranks.at(0).kv_blocks, (sim::Range{12, 40}));
  EXPECT_EQ(scenario.ranks.at(0).name, "both");
  EXPECT_EQ(scenario.workload.arrivals, sim::Arrivals::poisson);
  EXPECT_EQ(scenario.workload.tenants.at(0).share, 3);
  EXPECT_EQ(scenario.limits.lease_us, sim::Range{500'000});
  EXPECT_EQ(scenario.drawn_policies.at("queue").size(), 2U);
  EXPECT_EQ(scenario.policies.kinds.at("prefill_router").policy, "round_robin");
  EXPECT_EQ(scenario.faults.at(0).kind, sim::FaultKind::pause);
  EXPECT_EQ(scenario.expect.endings.size(), 2U);
}

TEST(SimFile, EveryMistakeNamesPlaceAndRemedy) {
  struct Case {
    const char* text;
    const char* message; ///< Part of the first one.
  };
  const std::string ranks = "[[rank]]\nrole = \"both\"\n";
  const Case cases[] = {
      {"nam = 1\n", "s.toml:3: nam: unknown key; did you mean \"name\"?"},
      {"seeds = [9, 3]\n", "s.toml:3: seeds: found an array of the integer 9, the integer 3"},
      {"seeds = \"1..3\"\n", "s.toml:3: seeds: found the text \"1..3\", expected an integer"},
      {"block_tokens = 0\n", "expected an integer from 1 to 65536"},
      {"[[rank]]\nrole = \"prefil\"\n", "did you mean \"prefill\"?"},
      {"[[rank]]\nrole = \"both\"\n", "rank.name: found a second group \"both\""},
      {"[[rank]]\nname = \"b\"\nkv_block = 3\n", "rank.kv_block: unknown key; did you mean"},
      {"[workload]\nprompt = 0\n", "workload.prompt: found the integer 0"},
      {"[workload]\narrivals = 3\n", "workload.arrivals: found the integer 3, expected one of"},
      {"[workload]\ntrace = \"/nowhere/t.jsonl\"\n", "workload.trace: /nowhere/t.jsonl: cannot"},
      {"[workload.tenant]\nname = \"a\"\n", "expected tables [[workload.tenant]]"},
      {"[limits]\nqueue_max = true\n", "limits.queue_max: found true"},
      {"[network]\nloss_permille = 2000\n", "network.loss_permille: found the integer 2000"},
      {"[cost_model]\nsequence = 0\ncontext_token = 0\n", "a balancer would see no load"},
      {"[[fault]]\nrank = \"both-0\"\n", "fault.kind: it is missing"},
      {"[[fault]]\nkind = \"kil\"\n", "did you mean \"kill\"?"},
      {"[[fault]]\nkind = \"kill\"\nrank = \"decode-0\"\n", "fault.rank: found \"decode-0\""},
      {"[policies.queue]\npolicy = \"fifo\"\n", "policies.queue.policy: found the text \"fifo\""},
      {"[policies.queue]\npolicy = [\"fcfs\", \"sfj\"]\n", "did you mean \"sjf\"?"},
      {"[policies.que]\npolicy = \"fcfs\"\n", "policies.que: unknown kind of policy"},
      {"[policies]\nfile = \"absent.toml\"\n", "absent.toml: cannot be opened"},
      {"[expect.endings]\nokay = 1\n", "expect.endings.okay: no request ends with this"},
      {"[expect]\nttft = 1\n", "expect.ttft: unknown key"},
      {"x = [\n", "this is no TOML"},
  };
  for (const Case& one : cases) {
    // The first line of the case is line 3 of keys outside of tables.
    const std::string text = one.text[0] == '[' ? fmt::format("{}\n{}", ranks, one.text)
                                                : fmt::format("\n\n{}{}", one.text, ranks);
    const SimOutcome outcome = parse(text);
    ASSERT_FALSE(outcome.ok()) << one.text;
    EXPECT_NE(error_lines(outcome.errors).find(one.message), std::string::npos)
        << one.text << error_lines(outcome.errors);
  }
}

TEST(SimFile, NeedsRanksThatPrefillAndDecode) {
  const SimOutcome outcome = parse("[[rank]]\nrole = \"prefill\"\n");
  ASSERT_FALSE(outcome.ok());
  EXPECT_NE(outcome.errors.at(0).message.find("one that decodes"), std::string::npos);
}

TEST(TraceReader, TwoFormats) {
  const TemporaryFolder folder;
  const std::string json =
      folder.write("t.jsonl", "{\"timestamp\": 1000, \"input_length\": 7, \"output_length\": 3}\n\n"
                              "{\"timestamp\": 1250, \"input_length\": 9, \"output_length\": 0}\n");
  auto rows = read_trace(json, 10);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[1].at_us, 250'000);
  EXPECT_EQ((*rows)[1].prompt, 9);
  EXPECT_EQ((*rows)[1].output, 1);

  const std::string csv = folder.write("t.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                                                "2023-12-31 23:59:59.5000000,374,44\r\n"
                                                "2024-01-01 00:00:01.25,396,109\r\n");
  rows = read_trace(csv, 10);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2U);
  EXPECT_EQ((*rows)[1].at_us, 1'750'000);
  EXPECT_EQ((*rows)[1].output, 109);
  EXPECT_EQ(read_trace(csv, 1)->size(), 1U);
}

// A row that says something else than a trace is an error with its line, never skipped.
TEST(TraceReader, BadRowsAreErrorsWithTheirLine) {
  const TemporaryFolder folder;
  const std::string good = R"({"timestamp": 5, "input_length": 7, "output_length": 3})";
  for (const char* bad :
       {"{}", "nonsense", R"({"timestamp": 6, "input_length": 0, "output_length": 1})",
        R"({"timestamp": 6, "input_length": "7", "output_length": 1})",
        R"({"timestamp": 1, "input_length": 7, "output_length": 1})"}) {
    const std::string path = folder.write("bad.jsonl", fmt::format("{}\n{}\n", good, bad));
    const auto rows = read_trace(path, 10);
    ASSERT_FALSE(rows.ok()) << bad;
    EXPECT_NE(rows.error().message.find("bad.jsonl:2:"), std::string::npos) << rows.error().message;
  }
  EXPECT_FALSE(read_trace(folder.path("absent"), 10).ok());
}

// Opening a pipe that nobody writes to would never return.
TEST(TraceReader, APipeIsRefusedAtOnce) {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("trace");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto rows = read_trace(pipe, 10);
  ASSERT_FALSE(rows.ok());
  EXPECT_NE(rows.error().message.find("regular file"), std::string::npos) << rows.error().message;
}

} // namespace
} // namespace troupe::app
