// The evaluation set of the bundled model, greedy, against the token ids of the reference:
// without activation quantisation every id, with it as many right answers within four.

#include "actors/job_window.hpp"
#include "tests/support/live_system.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>

namespace troupe::test {
namespace {

const std::string kModel = std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1";
constexpr std::int64_t kRightMayDiffer = 4;

using Ids = std::vector<std::int32_t>;

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<nlohmann::json> out;
  std::string line;
  while (std::getline(in, line))
    out.push_back(nlohmann::json::parse(line));
  return out;
}

/// Token ids of every case, in the order of the file.
std::vector<Ids> run(const std::string& activation_quant) {
  std::vector<Request> requests;
  for (const auto& line : lines_of(kModel + "/eval.jsonl")) {
    const nlohmann::json body{{"prompt", line["prompt"]}, {"max_tokens", 512}, {"temperature", 0}};
    requests.emplace_back(text::Endpoint::completions, body.dump());
  }
  app::SystemConfig config;
  config.model.path = kModel;
  config.model.activation_quant = activation_quant;
  const char* path = std::getenv("TROUPE_CPU_PATH");
  if (path != nullptr) config.model.cpu_path = path;
  config.kv.memory_bytes = 64LL << 20;
  std::vector<Ids> ids(requests.size());
  std::mutex mutex;
  LiveOptions extra;
  extra.tap = [&](const std::string& stage, const sched::Event& event, std::int64_t) {
    const auto* tokens = std::get_if<sched::Tokens>(&event);
    if (stage != "driver" || tokens == nullptr) return;
    const std::lock_guard lock(mutex);
    for (const sched::TokenRow& row : tokens->rows) {
      Ids& of_case = ids.at(static_cast<std::size_t>(actors::line_of(row.ref.request)));
      if (of_case.size() <= static_cast<std::size_t>(row.index)) {
        of_case.resize(static_cast<std::size_t>(row.index) + 1, -1);
      }
      of_case[static_cast<std::size_t>(row.index)] = row.token;
    }
  };
  const LiveRun done = run_live(config, requests, extra);
  EXPECT_TRUE(done.state.complete);
  EXPECT_EQ(done.failed, 0);
  return ids;
}

TEST(EvalReference, OffGivesTheTokenIdsOfTheReference) {
  const auto reference = lines_of(kModel + "/eval.reference.jsonl");
  const std::vector<Ids> got = run("off");
  ASSERT_EQ(got.size(), reference.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], reference[i]["off"]["ids"].get<Ids>()) << "case " << i;
  }
}

TEST(EvalReference, CheckpointQuantisationKeepsTheRightAnswers) {
  const auto reference = lines_of(kModel + "/eval.reference.jsonl");
  const auto cases = lines_of(kModel + "/eval.jsonl");
  auto tokenizer = text::Tokenizer::load(kModel + "/tokenizer.json");
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<Ids> got = run("checkpoint");
  ASSERT_EQ(got.size(), reference.size());
  std::int64_t right = 0;
  std::int64_t reference_right = 0;
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto want =
        (*tokenizer)->encode(cases[i]["completion"].get<std::string>(), text::AddedTokens::match);
    ASSERT_TRUE(want.ok());
    right += got[i] == *want ? 1 : 0;
    reference_right += reference[i]["sim"]["right"].get<bool>() ? 1 : 0;
    equal += got[i] == reference[i]["sim"]["ids"].get<Ids>() ? 1 : 0;
  }
  std::cout << right << " of " << got.size() << " right, the reference " << reference_right << "; "
            << equal << " with the reference's ids\n";
  EXPECT_LE(std::abs(right - reference_right), kRightMayDiffer);
}

} // namespace
} // namespace troupe::test
