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
  const std::pair<const char*, const char*> cases[] = {
      {"[[rank]]\nrole = \"prefill\"\n", "s.toml:1: rank: found none that decodes, expected"},
      {"\n[[rank]]\nrole = \"decode\"\n", "s.toml:2: rank: found none that prefills, expected"},
      {"[[rank]]\nrole = \"both\"\ncount = [0, 3]\n", "s.toml:1: rank: found no rank, expected"},
      {"", "s.toml:1: rank: found no rank, expected"}};
  for (const auto& [text, message] : cases) {
    const SimOutcome outcome = parse(text);
    ASSERT_EQ(outcome.errors.size(), 1U) << error_lines(outcome.errors);
    EXPECT_EQ(outcome.errors[0].text().rfind(message, 0), 0U) << outcome.errors[0].text();
  }
}

// One cause, one message: what follows from a mistake is not told as another one.
TEST(SimFile, OneCauseIsOneMessage) {
  const std::string ranks = "[[rank]]\nrole = \"both\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {ranks + "[policies.queue]\npolicy = []\n",
       "s.toml:4: policies.queue.policy: found an array of nothing, expected names of policies"},
      {ranks + "[policies.queue]\npolicy = [1]\n",
       "s.toml:4: policies.queue.policy: found an array of the integer 1, expected names"},
      {ranks + "[policies.queue]\npolicy = [\"fcfs\", []]\n",
       "s.toml:4: policies.queue.policy: found an array of the text \"fcfs\", an array, expected"},
      {ranks + "[policies]\nqueue = []\n", "s.toml:4: policies.queue: found an array, expected"},
      {ranks + "[network]\ndelay_us_max = -5\n",
       "s.toml:4: network.delay_us_max: found the integer"},
      {ranks + "[network]\ndelay_us_min = 50\ndelay_us_max = 5.0\n",
       "s.toml:5: network.delay_us_max: found the number 5.0, expected an integer from 1 to"},
      {ranks + "[network]\ndelay_us_min = -1\ndelay_us_max = 5\n",
       "s.toml:4: network.delay_us_min: found the integer -1, expected"},
      {ranks + "[network]\ndelay_us_min = 50\ndelay_us_max = 5\n",
       "s.toml:5: network.delay_us_max: found 5, expected at least delay_us_min, which is up to "
       "50"},
      {"[[rank]]\nrole = \"prefil\"\n" + ranks, "s.toml:2: rank.role: found the text \"prefil\""},
      {"[[rank]]\nrole = \"both\"\ncount = -1\n[[fault]]\nkind = \"kill\"\nrank = \"both-0\"\n",
       "s.toml:3: rank.count: found the integer -1, expected"},
      {ranks + "[cost_model]\nsequence = 0.0\ncontext_token = 0\n",
       "s.toml:4: cost_model.sequence: found the number 0.0, expected an integer"},
  };
  for (const auto& [text, message] : cases) {
    const SimOutcome outcome = parse(text);
    ASSERT_EQ(outcome.errors.size(), 1U) << text << error_lines(outcome.errors);
    EXPECT_EQ(outcome.errors[0].text().rfind(message, 0), 0U) << outcome.errors[0].text();
  }
}

TEST(SimFile, ARateSaysWhatALowEndBelowZeroMeans) {
  const std::string begin = "[[rank]]\nrole = \"both\"\n[network]\nloss_permille = ";
  EXPECT_TRUE(parse(begin + "[-60, 60]\n").ok());
  EXPECT_TRUE(parse(begin + "900\n").ok());
  for (const char* bad :
       {"901", "-5", "[-1001, 5]", "[5, 901]", "[9, 1]", "[1]", "[1, 2, 3]", "0.5"}) {
    const SimOutcome outcome = parse(begin + bad + "\n");
    ASSERT_EQ(outcome.errors.size(), 1U) << bad;
    const std::string message = outcome.errors[0].text();
    EXPECT_NE(message.find("expected an integer from 0 to 900, or [LOW, HIGH] of such, where LOW "
                           "may be below 0, down to -1000, for seeds without any"),
              std::string::npos)
        << message;
  }
}

TEST(SimFile, LongArraysAreCut) {
  std::string many = "1";
  for (int i = 0; i < 10'000; ++i)
    many += ", 1";
  const SimOutcome outcome = parse("seeds = [" + many + "]\n[[rank]]\nrole = \"both\"\n");
  ASSERT_EQ(outcome.errors.size(), 1U);
  EXPECT_NE(outcome.errors[0].text().find("the integer 1 and 9997 more, expected"),
            std::string::npos)
      << outcome.errors[0].text();
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

// What is no whole number, no day or stands twice is not rounded, moved or chosen from.
TEST(TraceReader, BadColumnsAreNamedWithWhatIsExpected) {
  const TemporaryFolder folder;
  const std::string tokens = "expected a whole number from 1 to 16777216";
  const std::string more = "expected a whole number from 0 to 16777216";
  const std::string day = "expected a day of the calendar and a time, as in 2023-11-16 18:15:46.68";
  const std::tuple<const char*, std::string, std::string> cases[] = {
      {R"({"timestamp": 6, "input_length": 12.5, "output_length": 1})", "input_length: found 12.5",
       tokens},
      {R"({"timestamp": 6, "input_length": 0, "output_length": 1})", "input_length: found 0",
       tokens},
      {R"({"timestamp": 6, "input_length": 7, "output_length": 0.25})", "output_length: found 0.25",
       more},
      {R"({"timestamp": 6, "input_length": 7, "output_length": 1e9})",
       "output_length: found 1000000000.0", more},
      {R"({"timestamp": 6, "input_length": 7})", "output_length: found nothing", more},
      {R"({"timestamp": "6", "input_length": 7, "output_length": 1})", "timestamp: found \"6\"",
       "expected milliseconds from 0 to 9000000000000"},
      {R"({"timestamp": 6, "input_length": 7, "output_length": 1, "input_length": 8})",
       "input_length: found twice in one object", "expected once"},
      {R"({"timestamp": 6, "input_length": 7, "output_length": 1, "x": {"a": 1, "a": 1}})",
       "x.a: found twice in one object", "expected once"},
      {"2023-02-30 18:15:47,3,1", "TIMESTAMP: found \"2023-02-30 18:15:47\"", day},
      {"2023-02-29 18:15:47,3,1", "TIMESTAMP: found \"2023-02-29 18:15:47\"", day},
      {"2100-02-29 18:15:47,3,1", "TIMESTAMP: found \"2100-02-29 18:15:47\"", day},
      {"2023-04-31 18:15:47,3,1", "TIMESTAMP: found \"2023-04-31 18:15:47\"", day},
      {"2023-11-16 18:15:47Z,3,1", "TIMESTAMP: found \"2023-11-16 18:15:47Z\"", day},
      {"2023-11-16 18:15:47,3.5,1", "ContextTokens: found \"3.5\"", tokens},
      {"2023-11-16 18:15:47,0,1", "ContextTokens: found \"0\"", tokens},
      {"2023-11-16 18:15:47,3", "GeneratedTokens: found nothing", more},
      {"2023-11-16 18:15:47,3,1.5,x", "GeneratedTokens: found \"1.5\"", more},
  };
  for (const auto& [bad, found, expected] : cases) {
    const std::string good = bad[0] == '{'
                                 ? R"({"timestamp": 5, "input_length": 7, "output_length": 3})"
                                 : "TIMESTAMP,ContextTokens,GeneratedTokens";
    const std::string path = folder.write("t", fmt::format("{}\n{}\n", good, bad));
    const auto rows = read_trace(path, 10);
    ASSERT_FALSE(rows.ok()) << bad;
    EXPECT_EQ(rows.error().message,
              fmt::format("{}:2: {}, {}; repair the row or take it out", path, found, expected));
  }
}

TEST(TraceReader, WholeNumbersWithAPointAndFractionsOfTime) {
  const TemporaryFolder folder;
  auto rows = read_trace(
      folder.write("t", "{\"timestamp\": 1000.25, \"input_length\": 7.0, \"output_length\": 3}\n"
                        "{\"timestamp\": 1250.5, \"input_length\": 9, \"output_length\": 4e1}\n"),
      10);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_EQ((*rows)[0].prompt, 7);
  EXPECT_EQ((*rows)[1].at_us, 250'250);
  EXPECT_EQ((*rows)[1].output, 40);
  rows = read_trace(folder.write("t", "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                                      "2024-02-29 23:59:59,3.0,1,more\n"
                                      "2024-03-01 00:00:00,3,1\n"),
                    10);
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  EXPECT_EQ((*rows)[1].at_us, 1'000'000);
}

TEST(TraceReader, HostileRowsAreBoundedInTimeAndWords) {
  const TemporaryFolder folder;
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  const std::string good = header + "2023-11-16 18:15:46.68,374,44\n";
  const std::string bad[] = {
      good + "2023-11-16 18:15:47,99999999999999999999,1\n",
      good + "99999999999-11-16 18:15:47,3,1\n",
      good + "2023-13-16 18:15:47,3,1\n",
      good + "2023-11-32 18:15:47,3,1\n",
      good + "2023-11-16 24:15:47,3,1\n",
      good + "2023-11-16 18:60:47,3,1\n",
      good + "2023-11-16 18:15:47,-3,1\n",
      good + "2023-11-16 18:15:47,+3,1\n",
      good + "2023-11-16 18:15:47\n",
      good + "2023-11-16T18:15:47,3,1\n",
      good + std::string("2023-11-16 18:15:47,3,\0001\n", 25),
      good + std::string(5'000'000, 'x'),
      good + "\x1b[2J\n",
      good + std::string(100'000, '[') + "\n",
      "{\"timestamp\": 1, \"input_length\": 7, \"output_length\": 1}\n" + header,
      "{\"timestamp\": 1, \"input_length\": 7, \"output_length\": 1}\n" + std::string(100'000, '['),
  };
  for (const std::string& text : bad) {
    const std::string path = folder.write("t", text);
    const auto rows = read_trace(path, 10);
    ASSERT_FALSE(rows.ok()) << text.substr(0, 200);
    const std::string& message = rows.error().message;
    EXPECT_TRUE(message.rfind(path + (text[0] == '{' ? ":2: " : ":3: "), 0) == 0) << message;
    EXPECT_NE(message.find("found"), std::string::npos) << message;
    EXPECT_NE(message.find("expected"), std::string::npos) << message;
    EXPECT_LE(message.size(), 600U);
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
  for (const std::string& text : {std::string(), std::string("\n\n\n"), header}) {
    const auto rows = read_trace(folder.write("t", text), 10);
    ASSERT_FALSE(rows.ok());
    EXPECT_NE(rows.error().message.find("found no rows"), std::string::npos);
  }
  // Rows beyond the wanted ones are not looked at.
  EXPECT_EQ(read_trace(folder.write("t", good + "x\n"), 1)->size(), 1U);
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
