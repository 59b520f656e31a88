// The evaluation set of the bundled model, greedy: token ids of the reference without quantisation,
// as many right answers with it.

#include "engine/engine.hpp"
#include "engine/text/tokenizer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::engine;

constexpr std::int64_t kSlots = 16;
constexpr std::int64_t kBlocksEach = 20;
constexpr std::int64_t kStepTokens = 256;
constexpr std::size_t kNewTokens = 512; ///< As the batch file of the evaluation set asks.

std::string folder() { return std::string(TROUPE_SOURCE_DIR) + "/examples/models/nano-v4.1/"; }

struct Case {
  std::vector<std::int32_t> prompt, completion, reference_off, answer;
  std::int64_t length = 0;
  bool reference_right = false;
};

std::vector<Case> read_cases() {
  std::vector<Case> out;
  const auto tokenizer = text::Tokenizer::load(folder() + "tokenizer.json");
  if (!tokenizer.ok()) return out;
  std::ifstream cases(folder() + "eval.jsonl");
  std::ifstream references(folder() + "eval.reference.jsonl");
  std::string line, reference_line;
  while (std::getline(cases, line) && std::getline(references, reference_line)) {
    const auto json = nlohmann::json::parse(line);
    const auto reference = nlohmann::json::parse(reference_line);
    const auto encode = [&](const char* key) {
      return *(*tokenizer)->encode(json[key].get<std::string>(), text::AddedTokens::match);
    };
    Case c;
    c.prompt = encode("prompt");
    c.completion = encode("completion");
    c.reference_off = reference["off"]["ids"].get<std::vector<std::int32_t>>();
    c.reference_right = reference["sim"]["right"].get<bool>();
    out.push_back(std::move(c));
  }
  return out;
}

/// Runs all cases, kSlots at a time, decoding and prefilling together.
class Runner {
public:
  Runner(Engine& engine, std::vector<Case>& cases) : engine_(engine), cases_(cases) {
    for (std::int64_t i = 0; i < kSlots; ++i)
      free_.push_back(i);
  }

  void run() {
    while (next_ < cases_.size() || !running_.empty()) {
      while (!free_.empty() && next_ < cases_.size()) {
        running_.push_back({next_++, free_.back()});
        free_.pop_back();
      }
      step();
    }
  }

private:
  struct Running {
    std::size_t index;
    std::int64_t slot;
  };

  bool ended(const Case& c) const {
    const std::vector<std::int32_t>& eos = engine_.model().eos_ids;
    return c.answer.size() == kNewTokens ||
           (!c.answer.empty() && std::find(eos.begin(), eos.end(), c.answer.back()) != eos.end());
  }

  void step() {
    StepPlan plan;
    plan.sampling = {SamplingPlan{.temperature = 0.0F}};
    std::vector<Running*> planned;
    std::int64_t room = kStepTokens;
    for (Running& r : running_) {
      const Case& c = cases_[r.index];
      const auto known = static_cast<std::int64_t>(c.prompt.size() + c.answer.size());
      const std::int64_t count = std::min(room, known - c.length);
      if (count == 0) break;
      room -= count;
      planned.push_back(&r);
      plan.state_slot.push_back(static_cast<StateSlotId>(r.slot));
      plan.first_position.push_back(c.length);
      plan.tokens_of.push_back(
          {static_cast<std::int32_t>(plan.tokens.size()), static_cast<std::int32_t>(count)});
      for (std::int64_t p = c.length; p < c.length + count; ++p) {
        const auto at = static_cast<std::size_t>(p);
        plan.tokens.push_back(at < c.prompt.size() ? c.prompt[at] : c.answer[at - c.prompt.size()]);
      }
      plan.blocks_of.push_back({static_cast<std::int32_t>(plan.block_table.size()),
                                static_cast<std::int32_t>(kBlocksEach)});
      for (std::int64_t b = 0; b < kBlocksEach; ++b) {
        plan.block_table.push_back(static_cast<KvBlockId>(r.slot * kBlocksEach + b));
      }
      const bool sample = c.length + count == known;
      plan.logits.push_back(sample ? Logits::last : Logits::none);
      plan.sampling_of.push_back(sample ? 0 : -1);
    }
    auto result = engine_.step(plan);
    ASSERT_TRUE(result.ok()) << result.error().message;
    for (std::size_t i = 0; i < planned.size(); ++i) {
      Case& c = cases_[planned[i]->index];
      c.length = result->length[i];
      if (result->sampled[i] >= 0) c.answer.push_back(result->sampled[i]);
    }
    std::erase_if(running_, [this](const Running& r) {
      if (!ended(cases_[r.index])) return false;
      free_.push_back(r.slot);
      return true;
    });
  }

  Engine& engine_;
  std::vector<Case>& cases_;
  std::vector<Running> running_;
  std::vector<std::int64_t> free_;
  std::size_t next_ = 0;
};

std::vector<Case> answered(const std::string& quant) {
  std::vector<Case> cases = read_cases();
  EngineOptions options;
  options.model_path = folder();
  options.activation_quant = quant;
  options.sequences_max = kSlots;
  options.step_tokens_max = kStepTokens;
  auto weights = load_weights(options);
  EXPECT_TRUE(weights.ok()) << weights.error().message;
  auto engine = open_cpu_engine(*weights, options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  Runner(**engine, cases).run();
  return cases;
}

TEST(Evaluation, OffGivesTheTokensOfTheReference) {
  const std::vector<Case> cases = answered("off");
  ASSERT_EQ(cases.size(), 357U);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].answer, cases[i].reference_off) << "case " << i;
  }
}

TEST(Evaluation, CheckpointIsAsOftenRight) {
  const std::vector<Case> cases = answered("checkpoint");
  ASSERT_EQ(cases.size(), 357U);
  std::int64_t right = 0;
  std::int64_t reference_right = 0;
  for (const Case& c : cases) {
    right += c.answer == c.completion ? 1 : 0;
    reference_right += c.reference_right ? 1 : 0;
  }
  std::printf("%ld of %zu right, the reference %ld\n", right, cases.size(), reference_right);
  EXPECT_GE(right, reference_right - 4);
}

} // namespace
