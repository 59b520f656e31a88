// Goal: what the metrics file says is what the job did, at every moment a whole file.
// Method: jobs of the executable, their summary, and a strict reader of the text format.

#include "tests/support/batch_folder.hpp"
#include "tests/support/prometheus_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace troupe::test {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLines = 150;

void expect_well_formed(const PrometheusText& metrics) {
  for (const std::string& fault : metrics.faults)
    ADD_FAILURE() << fault;
  EXPECT_GT(metrics.samples.size(), 100U);
}

PrometheusText read_metrics(const BatchFolder& job) {
  return read_prometheus_text(job.files.read("m.prom"));
}

/// 150 answers, two lines that cannot be read, a refused one.
std::string mixed_input() {
  return BatchFolder::completions(kLines, 6) + "no json\n\nno json\n" +
         R"({"custom_id":"refused","method":"POST","url":"/v1/completions","body":{"prompt":""}})"
         "\n";
}

void expect_equal_to_summary(const PrometheusText& metrics, const Json& summary) {
  const Json& run = summary["run"];
  EXPECT_EQ(metrics.at(R"(troupe_batch_lines{result="succeeded"})"),
            summary["requests"]["succeeded"]);
  EXPECT_EQ(metrics.at(R"(troupe_batch_lines{result="failed"})"), summary["requests"]["failed"]);
  EXPECT_EQ(metrics.sum("vllm:prompt_tokens_total"), run["prompt_tokens"]);
  EXPECT_EQ(metrics.sum("vllm:generation_tokens_total"), run["completion_tokens"]);
  EXPECT_EQ(metrics.sum("vllm:request_generation_tokens_sum"), run["completion_tokens"]);
  EXPECT_EQ(metrics.sum("vllm:time_to_first_token_seconds_count"), run["ttft"]["count"]);
  EXPECT_EQ(metrics.sum("vllm:request_time_per_output_token_seconds_count"), run["tpot"]["count"]);
  EXPECT_NEAR(metrics.sum("vllm:time_to_first_token_seconds_sum") * 1e6,
              run["ttft"]["mean_us"].get<double>() * run["ttft"]["count"].get<double>(),
              run["ttft"]["count"].get<double>());
  EXPECT_EQ(metrics.at("troupe_messages_total"), run["messages"]);
  EXPECT_EQ(std::floor(metrics.at("troupe_scheduling_seconds_total") * 1e6 + 1e-6),
            run["scheduling_us"]);
  EXPECT_EQ(metrics.sum("troupe_steps_total"), run["steps"]);
  EXPECT_EQ(metrics.sum("vllm:num_preemptions_total"), run["preemptions"]);
  for (const Json& rank : run["ranks"]) {
    const std::string name = rank["name"];
    EXPECT_EQ(metrics.at(fmt::format("troupe_steps_total{{rank=\"{}\"}}", name)), rank["steps"]);
    EXPECT_NEAR(metrics.at(fmt::format("troupe_busy_seconds_total{{rank=\"{}\"}}", name)) * 1e6,
                rank["busy_us"].get<double>(), 1.0);
  }
}

TEST(Metrics, ValuesAreThoseOfTheSummary) {
  BatchFolder job;
  job.write_input(mixed_input());
  const ProcessEnd end = job.run({"--metrics", "m.prom", "--summary", "s.json"});
  ASSERT_EQ(end.code, 3) << end.err;
  const PrometheusText metrics = read_metrics(job);
  expect_well_formed(metrics);
  expect_equal_to_summary(metrics, Json::parse(job.files.read("s.json")));
  EXPECT_FALSE(job.files.has("m.prom.tmp"));

  // Of a job that ended nothing is left.
  for (const char* gauge : {"vllm:num_requests_running", "vllm:num_requests_waiting",
                            "vllm:num_requests_waiting_by_reason", "vllm:kv_cache_usage_perc",
                            "troupe_state_slots_held", "troupe_invalid_decisions_total",
                            "troupe_unexpected_messages_total", "troupe_ledger_lost_records_total",
                            "troupe_metrics_write_failures_total"}) {
    EXPECT_EQ(metrics.sum(gauge), 0) << gauge;
    EXPECT_TRUE(metrics.types.contains(gauge)) << gauge;
  }
  const double ended = metrics.sum("vllm:request_success_total");
  EXPECT_EQ(ended, kLines);
  EXPECT_EQ(metrics.sum("vllm:request_success_total", R"(finished_reason="length")"), kLines);
  EXPECT_EQ(metrics.sum("troupe_attempts_total"), kLines);
  for (const char* histogram :
       {"vllm:e2e_request_latency_seconds", "vllm:request_prompt_tokens", "vllm:request_params_n",
        "vllm:request_params_max_tokens", "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds",
        "vllm:request_inference_time_seconds", "vllm:request_num_preemptions"})
    EXPECT_EQ(metrics.sum(fmt::format("{}_count", histogram)), ended) << histogram;
  EXPECT_EQ(metrics.sum("vllm:request_prompt_tokens_sum"), 3 * kLines);
  EXPECT_EQ(metrics.sum("vllm:inter_token_latency_seconds_count"),
            metrics.sum("vllm:generation_tokens_total") - kLines);
  EXPECT_EQ(metrics.sum("vllm:iteration_tokens_total_count"), metrics.sum("troupe_steps_total"));
  EXPECT_NEAR(metrics.sum("vllm:request_queue_time_seconds_sum") +
                  metrics.sum("vllm:request_inference_time_seconds_sum"),
              metrics.sum("vllm:e2e_request_latency_seconds_sum"), 1e-6);

  // Each request is admitted and routed once; the ledger holds every decision that is counted.
  EXPECT_EQ(metrics.sum("troupe_decisions_total", R"(kind="admission")"), kLines);
  EXPECT_EQ(metrics.sum("troupe_decisions_total", R"(kind="prefill_router")"), kLines);
  EXPECT_EQ(metrics.sum("troupe_decisions_total"), metrics.sum("troupe_ledger_records_total"));
  for (const auto& [sample, value] : metrics.samples) {
    const bool is_labelled = sample.find("model_name=\"") != std::string::npos;
    EXPECT_EQ(sample.starts_with("vllm:"), is_labelled) << sample;
  }
  EXPECT_EQ(metrics.sum("vllm:cache_config_info", R"(block_size="64")"), 2);
}

// One step of a second for the second token; waiting in the engine and in its actor made it two.
TEST(Metrics, ModelledTimeIsWaitedForOnce) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(1, 2));
  const ProcessEnd end = job.run({"--summary", "s.json", "--set", "cost_model.null_speed=1.0",
                                  "--set", "cost_model.step=1000000000000"});
  EXPECT_EQ(end.code, 0) << end.err;
  const Json run = Json::parse(job.files.read("s.json"))["run"];
  EXPECT_GE(run["tpot"]["max_us"], 950'000);
  EXPECT_LT(run["tpot"]["max_us"], 1'900'000);
}

TEST(Metrics, AFinishedJobHasItsLinesInThem) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(mixed_input());
  EXPECT_EQ(job.run().code, 3);
  EXPECT_EQ(job.run({"--metrics", "m.prom"}).code, 3);
  const PrometheusText metrics = read_metrics(job);
  EXPECT_TRUE(metrics.faults.empty());
  EXPECT_EQ(metrics.at(R"(troupe_batch_lines{result="succeeded"})"), kLines);
  EXPECT_EQ(metrics.at(R"(troupe_batch_lines{result="failed"})"), 3);
  EXPECT_EQ(metrics.sum("vllm:generation_tokens_total"), 0) << "nothing ran";
}

TEST(Metrics, AreReplacedAsAWholeWhileTheJobRuns) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(400, 20));
  job.flags.insert(job.flags.end(),
                   {"--set", "cost_model.null_speed=1.0", "--set", "limits.inflight_max=8", "--set",
                    "metrics.interval_s=1", "--set", "metrics.file=\"m.prom\""});
  TroupeProcess process(job.command());
  std::set<double> seen;
  double most = 0;
  while (process.is_running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds{3});
    if (!job.files.has("m.prom")) continue;
    const std::string text = job.files.read("m.prom");
    ASSERT_FALSE(text.empty()) << "a file that is being written is seen";
    if (!seen.insert(static_cast<double>(std::hash<std::string>()(text))).second) continue;
    const PrometheusText metrics = read_prometheus_text(text);
    ASSERT_TRUE(metrics.faults.empty()) << metrics.faults[0];
    const double tokens = metrics.sum("vllm:generation_tokens_total");
    EXPECT_GE(tokens, most) << "a counter does not fall";
    most = tokens;
    EXPECT_LE(metrics.sum("vllm:num_requests_running"), 8);
  }
  EXPECT_EQ(process.wait().code, 0);
  EXPECT_GE(seen.size(), 3U) << "the job was too short to be seen at work";
  EXPECT_EQ(read_metrics(job).sum("vllm:generation_tokens_total"), 8000);
}

TEST(Metrics, AFileThatCannotBeWrittenWarnsAndTheJobGoesOn) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(kLines));
  ProcessOptions options = job.command({"--metrics", "no/such/folder/m.prom"});
  std::erase(options.arguments, "--quiet");
  const ProcessEnd end = TroupeProcess(options).wait();
  EXPECT_EQ(end.code, 0) << end.err;
  const std::string warning = "no/such/folder/m.prom: cannot write the metrics: No such file";
  EXPECT_NE(end.err.find(warning), std::string::npos) << end.err;
  EXPECT_EQ(end.err.find(warning), end.err.rfind(warning)) << "it warns once";
  EXPECT_EQ(job.answers().lines, kLines);
}

TEST(Metrics, LinksAndDevicesStayWhatTheyAre) {
  namespace fs = std::filesystem;
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  job.files.write("real.prom", "old");
  fs::create_symlink("real.prom", job.files.path("link.prom"));
  fs::create_symlink("/dev/null", job.files.path("device.json"));
  const ProcessEnd end = job.run({"--metrics", "link.prom", "--summary", "device.json"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(fs::is_symlink(job.files.path("link.prom")));
  EXPECT_TRUE(read_prometheus_text(job.files.read("real.prom")).faults.empty());
  EXPECT_NE(job.files.read("real.prom"), "old");
  EXPECT_TRUE(fs::is_symlink(job.files.path("device.json")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(Metrics, ADanglingLinkStaysALink) {
  namespace fs = std::filesystem;
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  fs::create_directory(job.files.path("far"));
  fs::create_symlink("near.prom", job.files.path("link.prom"));
  fs::create_symlink("far/metrics.prom", job.files.path("near.prom"));
  fs::create_symlink(job.files.path("far/s.json"), job.files.path("link.json"));
  const ProcessEnd end = job.run({"--metrics", "link.prom", "--summary", "link.json"});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_TRUE(fs::is_symlink(job.files.path("link.prom")));
  EXPECT_TRUE(fs::is_symlink(job.files.path("near.prom")));
  EXPECT_TRUE(read_prometheus_text(job.files.read("far/metrics.prom")).faults.empty());
  EXPECT_EQ(Json::parse(job.files.read("far/s.json"))["end"], "finished");
}

TEST(Metrics, APathThatCanNeverBeWrittenIsRefusedAtTheStart) {
  for (const char* flag : {"--metrics", "--summary"}) {
    BatchFolder job;
    job.use_null_device();
    job.write_input(BatchFolder::completions(3));
    std::filesystem::create_directory(job.files.path("folder"));
    const ProcessEnd end = job.run({flag, "folder"});
    EXPECT_EQ(end.code, 2) << flag << end.err;
    EXPECT_NE(end.err.find("folder: the "), std::string::npos) << end.err;
    EXPECT_NE(end.err.find("found a folder, expected a file"), std::string::npos) << end.err;
    EXPECT_FALSE(job.files.has("out.jsonl"));
  }
}

TEST(Metrics, APipeThatNobodyReadsKeepsNobodyWaiting) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  ASSERT_EQ(::mkfifo(job.files.path("pipe").c_str(), 0600), 0);
  ProcessOptions options = job.command({"--metrics", "pipe"});
  std::erase(options.arguments, "--quiet");
  const ProcessEnd metrics = TroupeProcess(options).wait();
  EXPECT_EQ(metrics.code, 0) << metrics.err;
  EXPECT_NE(metrics.err.find("pipe: cannot write the metrics: it is a pipe that nobody reads"),
            std::string::npos)
      << metrics.err;
  const ProcessEnd summary = job.run({"--restart", "--summary", "pipe"});
  EXPECT_EQ(summary.code, 1) << summary.err;
  EXPECT_NE(summary.err.find("pipe: cannot write the summary: it is a pipe that nobody reads"),
            std::string::npos)
      << summary.err;
  EXPECT_EQ(job.answers().lines, 3);
}

TEST(Metrics, APipeWhoseReaderSleepsIsLeftAfterASecond) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  ASSERT_EQ(::mkfifo(job.files.path("pipe").c_str(), 0600), 0);
  const int reader = ::open(job.files.path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  const int writer = ::open(job.files.path("pipe").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  const std::string page(4096, 'x');
  while (::write(writer, page.data(), page.size()) > 0) {
  }
  ProcessOptions options = job.command({"--metrics", "pipe"});
  std::erase(options.arguments, "--quiet");
  const ProcessEnd end = TroupeProcess(options).wait();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_NE(end.err.find("pipe whose reader does not read"), std::string::npos) << end.err;
  ::close(writer);
  ::close(reader);
}

TEST(Metrics, ADraftThatIsNoFileIsLeftAlone) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  ASSERT_EQ(::mkfifo(job.files.path("s.json.tmp").c_str(), 0600), 0);
  const ProcessEnd end = job.run({"--summary", "s.json"});
  EXPECT_EQ(end.code, 1) << end.err;
  EXPECT_NE(end.err.find("s.json.tmp is no file; move it away"), std::string::npos) << end.err;
  EXPECT_TRUE(std::filesystem::is_fifo(job.files.path("s.json.tmp")));
}

// Each would be lost: by the first write of metrics or summary, or by --restart.
TEST(Metrics, MayNotBeAFileTheJobReads) {
  namespace fs = std::filesystem;
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  fs::copy(job.model, job.files.path("model"), fs::copy_options::recursive);
  job.model = job.files.path("model");
  const std::string policies = "name = \"p\"\n";
  job.files.write("p.toml", policies);
  job.files.write("c.toml", "[cluster]\nname = \"c\"\n");
  fs::create_symlink("model/config.json", job.files.path("link"));
  const std::string config = job.files.read("model/config.json");
  for (const char* name : {"model/config.json", "./link", "model/tokenizer.json", "p.toml"}) {
    for (const char* flag : {"--metrics", "--summary", "--errors"}) {
      const ProcessEnd end = job.run({"--policies", "p.toml", flag, name, "--restart"});
      EXPECT_EQ(end.code, 2) << flag << " " << name << ": " << end.err;
      EXPECT_NE(end.err.find("would be the same file as the"), std::string::npos) << end.err;
    }
  }
  EXPECT_EQ(job.files.read("model/config.json"), config);
  EXPECT_EQ(job.files.read("p.toml"), policies);
  EXPECT_FALSE(job.files.has("out.jsonl"));
  // Another file of the folder is nobody's.
  EXPECT_EQ(job.run({"--metrics", "model/m.prom"}).code, 0);
}

TEST(Metrics, ADraftMayNotBeAFileOfTheJobEither) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  job.output = "m.prom.tmp";
  const ProcessEnd end = job.run({"--metrics", "m.prom"});
  EXPECT_EQ(end.code, 2) << end.err;
  EXPECT_NE(end.err.find("m.prom.tmp: the draft of the metrics would be the same file as the "
                         "output"),
            std::string::npos)
      << end.err;
}

TEST(Metrics, MayNotBeAFileOfTheJob) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(3));
  std::filesystem::create_hard_link(job.files.path("in.jsonl"), job.files.path("link"));
  for (const char* name : {"in.jsonl", "out.jsonl", "out.errors.jsonl", "out.jsonl.journal",
                           "./link", "s.json", "out.jsonl.journal-journal", "out.jsonl.journal-wal",
                           "out.jsonl.ledger", "out.jsonl.sock"}) {
    const ProcessEnd end = job.run({"--metrics", name, "--summary", "s.json"});
    EXPECT_EQ(end.code, 2) << name << end.err;
    EXPECT_NE(end.err.find("would be the same file"), std::string::npos) << end.err;
  }
  for (const char* name : {"out.jsonl.journal-journal", "out.jsonl.ledger"}) {
    const ProcessEnd end = job.run({"--errors", name});
    EXPECT_EQ(end.code, 2) << name << end.err;
    EXPECT_NE(end.err.find("would be the same file"), std::string::npos) << end.err;
  }
  EXPECT_EQ(job.files.read("in.jsonl"), BatchFolder::completions(3));
  EXPECT_FALSE(job.files.has("out.jsonl"));
}

TEST(Metrics, AreWrittenWhenAJobIsStopped) {
  BatchFolder job;
  job.use_null_device();
  job.write_input(BatchFolder::completions(400));
  job.flags.insert(job.flags.end(),
                   {"--set", "cost_model.null_speed=1.0", "--set", "limits.inflight_max=4"});
  TroupeProcess process(job.command({"--metrics", "m.prom", "--summary", "s.json"}));
  while (app::lines_of(job.files.read("out.jsonl")).size() < 20 && process.is_running())
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait().code, 143);
  const PrometheusText metrics = read_metrics(job);
  EXPECT_TRUE(metrics.faults.empty());
  expect_equal_to_summary(metrics, Json::parse(job.files.read("s.json")));
}

TEST(PrometheusText, FindsFaults) {
  const std::string good = "# HELP a_total A.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n";
  EXPECT_TRUE(read_prometheus_text(good).faults.empty());
  for (const std::string& bad :
       {good + "b 1\n", good + "a_total{x=\"1\"} 3\n", good + "a_total 1", good + "\n",
        good + "a_total{x=1} 1\n", good + "a_total one\n", good + "a_total{y=\"2\"} -1\n",
        good + "# TYPE a_total counter\n", good + "# HELP c C.\n# TYPE c counter\nc 1\n",
        std::string("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} "
                    "1\nh_sum 1\nh_count 1\n"),
        std::string("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_sum 1\nh_count 2\n"),
        std::string("# HELP h H.\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count "
                    "1\n")})
    EXPECT_FALSE(read_prometheus_text(bad).faults.empty()) << bad;
}

} // namespace
} // namespace troupe::test
