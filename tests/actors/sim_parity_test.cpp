// The actors under virtual time and the simulator are two shells around the same stages: the same
// requests give the same decisions in the same order and the same tokens.

#include "actors/ledger.hpp"
#include "actors/ledger_reader.hpp"
#include "actors/ledger_text.hpp"
#include "engine/model/config.hpp"
#include "schedulers/sim/simulator.hpp"
#include "tests/support/deterministic_system.hpp"
#include "tests/support/rank_groups.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace troupe::test {
namespace {

namespace fs = std::filesystem;

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";

/// Little memory, so that requests wait for room.
app::SystemConfig tight_config(std::int64_t prefill, std::int64_t decode, std::int64_t both) {
  app::SystemConfig config = null_config(prefill, decode, both);
  config.kv.memory_bytes = 96 << 10;
  config.limits.sequences_max = 6;
  config.experts.interval_ms = 0; // The simulator has no experts.
  return config;
}

using Tokens = std::map<RequestId, std::vector<std::int32_t>>;

struct ActorRun {
  std::vector<sim::RequestPlan> requests;
  Tokens tokens;
  std::vector<std::string> decisions; ///< Of the ledger, in order.
};

/// A decision as text, whoever's it is.
std::string text_of(const sched::Record& record, std::int64_t now_us) {
  return actors::entry_json({0, now_us, {}, record});
}

std::vector<std::string> read_decisions(const fs::path& folder) {
  std::vector<std::string> lines;
  const auto faults = actors::read_ledger(folder.string(), [&](sched::LedgerEntry&& entry) {
    const auto* record = std::get_if<sched::Record>(&entry.what);
    if (record != nullptr) lines.push_back(text_of(*record, entry.at_us));
  });
  EXPECT_TRUE(faults.ok() && faults->empty());
  return lines;
}

/// Notes what arrives at the driver: requests and tokens.
void note(ActorRun& run, const sched::Event& event, std::int64_t now_us) {
  if (const auto* arrive = std::get_if<sched::Arrive>(&event)) {
    sim::RequestPlan plan;
    plan.request = arrive->request;
    plan.seed = arrive->work.sampling.seed;
    plan.at_us = now_us;
    plan.prompt = static_cast<std::int64_t>(arrive->work.prompt.size());
    plan.new_tokens_max = arrive->work.new_tokens_max;
    plan.priority = arrive->priority;
    plan.tenant = arrive->tenant;
    plan.session_hash = arrive->session_hash;
    run.requests.push_back(std::move(plan));
  } else if (const auto* tokens = std::get_if<sched::Tokens>(&event)) {
    for (const sched::TokenRow& row : tokens->rows) {
      auto& of = run.tokens[row.ref.request];
      if (row.index >= static_cast<std::int64_t>(of.size()))
        of.resize(static_cast<std::size_t>(row.index) + 1, -1);
      of[static_cast<std::size_t>(row.index)] = row.token;
    }
  }
}

ActorRun run_actors(const app::SystemConfig& config, int count, const sched::PolicySet& policies) {
  std::string name = (fs::temp_directory_path() / "troupe-parity-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  ActorRun run;
  {
    DeterministicSystem::Options options;
    options.config = config;
    options.policies = policies;
    options.inflight_max = 256;
    options.ledger_directory = folder.string();
    options.tap = [&](const std::string& stage, const sched::Event& event, std::int64_t now_us) {
      if (stage == "driver") note(run, event, now_us);
    };
    DeterministicSystem system(std::move(options), kModel);
    for (int i = 0; i < count; ++i) {
      const std::vector<int> prompt(static_cast<std::size_t>(1 + i * 37 % 300), 20 + i % 50);
      system.job().push(
          text::Endpoint::completions,
          fmt::format(R"({{"prompt": [{}], "max_tokens": {}, "seed": {}, "ignore_eos": true}})",
                      fmt::join(prompt, ","), 1 + i % 23, i));
      system.pass(20'000 + 7'000 * (i % 5));
    }
    system.job().close();
    const actors::JobState state = system.run(100'000);
    EXPECT_TRUE(state.ended);
    EXPECT_EQ(state.succeeded, count);
    system.actors().ledger->flush();
  }
  run.decisions = read_decisions(folder);
  fs::remove_all(folder);
  return run;
}

sim::TokenRule null_tokens() {
  const auto config = engine::read_model_config(kModel);
  EXPECT_TRUE(config.ok());
  sim::TokenRule rule;
  rule.vocab = config->vocab;
  rule.never.assign(config->eos_tokens.begin(), config->eos_tokens.end());
  rule.never.push_back(static_cast<std::int32_t>(config->bos_token));
  rule.never.push_back(static_cast<std::int32_t>(config->pad_token));
  if (config->image_token) rule.never.push_back(static_cast<std::int32_t>(*config->image_token));
  std::sort(rule.never.begin(), rule.never.end());
  return rule;
}

sim::SimOptions sim_options(const app::SystemConfig& config) {
  sim::SimOptions options;
  options.driver = app::driver_options(config);
  options.prefill = app::prefill_options(config);
  options.decode = app::decode_options(config);
  app::SystemConfig with_model = config;
  with_model.model.path = kModel;
  auto ranks = app::open_ranks(with_model);
  EXPECT_TRUE(ranks.ok());
  for (std::size_t i = 0; i < ranks->size(); ++i) {
    options.ranks.push_back(
        app::rank_options(with_model, (*ranks)[i], RankId{static_cast<std::uint32_t>(i)}));
  }
  options.start_us = 1'000'000; // Where the virtual clock of the actors begins.
  options.network.delay_us_min = options.network.delay_us_max = 0;
  options.engine.tokens = null_tokens();
  options.engine.export_us = options.engine.copy_us_min = options.engine.copy_us_max = 0;
  return options;
}

void expect_parity(const app::SystemConfig& config, int count,
                   const std::string& overlap = "serial") {
  sched::PolicySet policies;
  policies.kinds["overlap"].policy = overlap;
  const ActorRun actors = run_actors(config, count, policies);
  ASSERT_EQ(actors.requests.size(), static_cast<std::size_t>(count));
  sim::SimOptions options = sim_options(config);
  options.policies = policies;
  sim::Simulator simulator(options, actors.requests);
  ASSERT_TRUE(simulator.run(100'000'000'000, 0)) << simulator.problem();
  std::vector<std::string> decisions;
  for (const sim::TimedRecord& one : simulator.records())
    decisions.push_back(text_of(one.record, one.now_us));
  EXPECT_GT(decisions.size(), static_cast<std::size_t>(4 * count));
  ASSERT_EQ(actors.decisions.size(), decisions.size());
  for (std::size_t i = 0; i < decisions.size(); ++i)
    ASSERT_EQ(actors.decisions[i], decisions[i]) << "decision " << i;
  for (const sim::Outcome& outcome : simulator.outcomes().all()) {
    const auto found = actors.tokens.find(outcome.plan.request);
    ASSERT_NE(found, actors.tokens.end());
    EXPECT_EQ(found->second, outcome.tokens) << raw(outcome.plan.request);
    EXPECT_EQ(outcome.code(), ErrorCode::ok);
  }
}

TEST(SimParity, SplitRanksDecideTheSame) { expect_parity(tight_config(2, 3, 0), 80); }

TEST(SimParity, RanksOfBothRolesDecideTheSame) { expect_parity(tight_config(0, 0, 2), 80); }

TEST(SimParity, MixedRolesDecideTheSame) { expect_parity(tight_config(1, 1, 1), 80); }

TEST(SimParity, OneStepAheadDecidesTheSame) {
  expect_parity(tight_config(2, 3, 0), 80, "one_ahead");
  expect_parity(tight_config(0, 0, 2), 80, "one_ahead");
  expect_parity(tight_config(1, 1, 1), 80, "one_ahead");
}

} // namespace
} // namespace troupe::test
