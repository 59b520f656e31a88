// Real engines with KV memory far too small: requests are preempted and recomputed, and every
// answer equals the undisturbed one, tokens and log-probability bits.

#include "tests/actors/app/temporary_folder.hpp"
#include "tests/support/eval_requests.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <sys/wait.h>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
constexpr std::int64_t kPrompts = 50;
constexpr std::int64_t kPreemptionsAtLeast = 10;

/// The first answers end by themselves and are short, the others go on to their limit: more than
/// was to be expected.
std::vector<Request> requests() {
  return eval_requests(kModel, kPrompts, [](auto& body, std::int64_t index, std::int64_t line) {
    body["max_tokens"] = 64 + line * 5 % 63;
    if (index >= 16) body["ignore_eos"] = true;
  });
}

/// Eight slots, and blocks for about three average requests of the job.
app::SystemConfig config_of(const std::vector<sched::Role>& roles, bool tight) {
  app::SystemConfig config;
  config.model.path = kModel;
  config.kv.block_tokens = 16;
  config.kv.memory_bytes = tight ? 500LL << 10 : 48LL << 20;
  config.kv.reserve_quantile = 0.3;
  config.limits.sequences_max = 8;
  config.ranks.clear();
  for (const sched::Role role : roles)
    add_ranks(config, role, 1);
  return config;
}

struct Answers {
  std::vector<std::string> choices;
  std::int64_t preempted = 0;
};

Answers answers(const app::SystemConfig& config) {
  std::atomic<std::int64_t> preempted{0};
  LiveOptions extra;
  extra.tap = [&](const std::string& stage, const sched::Event& event, std::int64_t) {
    const auto* ended = std::get_if<sched::Ended>(&event);
    if (stage == "driver" && ended != nullptr && ended->code == ErrorCode::preempted) ++preempted;
  };
  const LiveRun run = run_live(config, requests(), extra);
  EXPECT_TRUE(run.state.complete);
  EXPECT_EQ(run.failed, 0);
  EXPECT_EQ(run.kv_blocks_held, 0);
  EXPECT_EQ(run.slots_held, 0);
  Answers out;
  out.preempted = preempted;
  for (const auto& [number, line] : run.answers) {
    out.choices.push_back(nlohmann::json::parse(line)["response"]["body"]["choices"].dump());
  }
  return out;
}

TEST(Pressure, AnswersUnderPressureEqualTheUndisturbedOnes) {
  using sched::Role;
  const Answers free = answers(config_of({Role::both}, false));
  ASSERT_EQ(free.choices.size(), static_cast<std::size_t>(kPrompts));
  EXPECT_EQ(free.preempted, 0);
  for (const auto& roles :
       {std::vector<Role>{Role::both}, std::vector<Role>{Role::prefill, Role::decode}}) {
    const Answers tight = answers(config_of(roles, true));
    fmt::print("{} rank(s): {} preemptions\n", roles.size(), tight.preempted);
    EXPECT_GE(tight.preempted, kPreemptionsAtLeast);
    ASSERT_EQ(tight.choices.size(), free.choices.size());
    for (std::size_t i = 0; i < free.choices.size(); ++i)
      EXPECT_EQ(tight.choices[i], free.choices[i]) << "request " << i;
  }
}

// -- the executable
// --------------------------------------------------------------------------------

/// Choices by custom_id, and the summary.
struct Job {
  int exit_code = -1;
  std::map<std::string, std::string> choices;
  nlohmann::json summary;
};

Job run_batch(const app::TemporaryFolder& folder, const std::string& flags) {
  const std::string command =
      fmt::format("cd '{}' && '{}' batch --quiet --restart --model '{}' --input in.jsonl "
                  "--output out.jsonl --summary s.json --set limits.sequences_max=8 "
                  "--set kv.block_tokens=16 --set kv.reserve_quantile=0.3 {} </dev/null",
                  folder.path(""), TROUPE_EXECUTABLE, kModel, flags);
  Job job;
  const int state = std::system(command.c_str());
  job.exit_code = WIFEXITED(state) ? WEXITSTATUS(state) : -1;
  for (const std::string& text : app::lines_of(folder.read("out.jsonl"))) {
    const auto line = nlohmann::json::parse(text);
    job.choices[line["custom_id"]] = line["response"]["body"]["choices"].dump();
  }
  job.summary = nlohmann::json::parse(folder.read("s.json"));
  return job;
}

TEST(Pressure, TheSummaryOfABatchCountsPreemptions) {
  const app::TemporaryFolder folder;
  std::string input;
  std::int64_t number = 0;
  for (const auto& [endpoint, body] : requests()) {
    const bool chat = endpoint == text::Endpoint::chat_completions;
    input += fmt::format(
        "{{\"custom_id\": \"r{}\", \"method\": \"POST\", \"url\": \"/v1/{}\", \"body\": {}}}\n",
        number++, chat ? "chat/completions" : "completions", body);
  }
  folder.write("in.jsonl", input);
  const Job free = run_batch(folder, "--set kv.memory=48MiB");
  const Job tight = run_batch(folder, "--set kv.memory=500KiB");
  EXPECT_EQ(free.exit_code, 0);
  EXPECT_EQ(tight.exit_code, 0);
  EXPECT_EQ(free.summary["run"]["preemptions"], 0);
  EXPECT_GE(tight.summary["run"]["preemptions"], kPreemptionsAtLeast);
  ASSERT_EQ(free.choices.size(), static_cast<std::size_t>(kPrompts));
  EXPECT_EQ(tight.choices, free.choices);
}

} // namespace
} // namespace troupe::test
