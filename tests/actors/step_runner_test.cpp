// Steps that go on from one another before anybody has seen a result.

#include "actors/step_runner.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace troupe::actors {
namespace {

/// Draws 100 + the fed token for every row; keeps the plans it saw.
class EchoEngine final : public engine::Engine {
public:
  EchoEngine() { kv_.slots = 8; }

  const engine::ModelFacts& model() const noexcept override { return model_; }
  const engine::KvFacts& kv() const noexcept override { return kv_; }

  Result<engine::StepResult> step(const engine::StepPlan& plan) override {
    plans.push_back(plan);
    if (fails) return Error{ErrorCode::engine_failed, "as asked"};
    engine::StepResult result;
    result.step = plan.step;
    for (std::size_t i = 0; i < plan.sequences(); ++i) {
      const engine::Span tokens = plan.tokens_of[i];
      const auto last = static_cast<std::size_t>(tokens.begin + tokens.count - 1);
      const bool bad = fails_on == plan.state_slot[i];
      result.status.push_back(bad ? ErrorCode::engine_failed : ErrorCode::ok);
      result.length.push_back(plan.first_position[i] + (bad ? 0 : tokens.count));
      const bool draws = !bad && plan.logits[i] == engine::Logits::last;
      result.sampled.push_back(draws ? 100 + plan.tokens[last] : -1);
      result.logprob_bits.push_back(7);
      result.top_of.push_back({static_cast<std::int32_t>(result.top.size()), draws ? 1 : 0});
      if (draws) result.top.push_back({result.sampled.back(), 7});
    }
    return result;
  }
  Result<engine::KvExport> export_kv(StateSlotId, std::span<const KvBlockId>) override {
    return engine::KvExport{};
  }
  Result<std::vector<std::span<std::byte>>> import_regions(StateSlotId,
                                                           std::span<const KvBlockId>) override {
    return std::vector<std::span<std::byte>>{};
  }
  Status import_kv(const engine::KvManifest&, StateSlotId, std::span<const KvBlockId>) override {
    return {};
  }

  std::vector<engine::StepPlan> plans;
  bool fails = false;
  std::optional<StateSlotId> fails_on;

private:
  engine::ModelFacts model_;
  engine::KvFacts kv_;
};

struct Row {
  std::int32_t slot = 0;
  std::int64_t first = 0;
  std::vector<std::int32_t> tokens;
  bool draws = true;
  bool follows = false;
};

PlannedStep planned(std::uint64_t number, const std::vector<Row>& rows) {
  PlannedStep out;
  out.plan.step = number;
  for (const Row& row : rows) {
    if (row.follows) out.follows.push_back(static_cast<std::int32_t>(out.plan.sequences()));
    out.plan.state_slot.push_back(StateSlotId{row.slot});
    out.plan.first_position.push_back(row.first);
    out.plan.tokens_of.push_back({static_cast<std::int32_t>(out.plan.tokens.size()),
                                  static_cast<std::int32_t>(row.tokens.size())});
    out.plan.tokens.insert(out.plan.tokens.end(), row.tokens.begin(), row.tokens.end());
    out.plan.blocks_of.push_back({static_cast<std::int32_t>(out.plan.block_table.size()), 1});
    out.plan.block_table.push_back(KvBlockId{10 + row.slot});
    out.plan.logits.push_back(row.draws ? engine::Logits::last : engine::Logits::none);
    out.plan.sampling_of.push_back(row.draws ? static_cast<std::int32_t>(out.plan.sampling.size())
                                             : -1);
    if (row.draws) {
      engine::SamplingPlan sampling;
      sampling.seed = static_cast<std::uint64_t>(row.slot);
      out.plan.sampling.push_back(sampling);
    }
  }
  return out;
}

TEST(StepRunner, FillsInWhatTheStepBeforeDrew) {
  EchoEngine engine;
  StepRunner runner(engine);
  PlannedStep first = planned(1, {{3, 5, {40}}, {5, 2, {60}}});
  ASSERT_TRUE(runner.run(first).ok());
  // In another order, beside a row that is new.
  PlannedStep second = planned(
      2, {{5, 3, {kOpenToken}, true, true}, {1, 0, {8, 9}}, {3, 6, {kOpenToken}, true, true}});
  const auto result = runner.run(second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(engine.plans[1].tokens, (std::vector<std::int32_t>{160, 8, 9, 140}));
  EXPECT_EQ(result->sampled, (std::vector<std::int32_t>{260, 109, 240}));
}

TEST(StepRunner, ARowThatFollowsMayHaveAllItsTokens) {
  EchoEngine engine;
  StepRunner runner(engine);
  PlannedStep first = planned(1, {{3, 0, {1, 2}, false}});
  ASSERT_TRUE(runner.run(first).ok());
  PlannedStep second = planned(2, {{3, 2, {3, 4}, true, true}});
  ASSERT_TRUE(runner.run(second).ok());
  EXPECT_EQ(engine.plans[1].tokens, (std::vector<std::int32_t>{3, 4}));
}

TEST(StepRunner, LeavesOutWhatHasNothingToGoOnFrom) {
  EchoEngine engine;
  StepRunner runner(engine);
  engine.fails_on = StateSlotId{3};
  PlannedStep first = planned(1, {{3, 5, {40}}, {5, 2, {60}}});
  ASSERT_TRUE(runner.run(first).ok());
  engine.fails_on.reset();
  PlannedStep second = planned(2, {{3, 6, {kOpenToken}, true, true},
                                   {5, 3, {kOpenToken}, true, true},
                                   {1, 0, {8, 9}, true, false}});
  const auto result = runner.run(second);
  ASSERT_TRUE(result.ok());
  const engine::StepPlan& seen = engine.plans[1];
  EXPECT_EQ(seen.state_slot, (std::vector<StateSlotId>{StateSlotId{5}, StateSlotId{1}}));
  EXPECT_EQ(seen.tokens, (std::vector<std::int32_t>{160, 8, 9}));
  EXPECT_EQ(seen.block_table, (std::vector<KvBlockId>{KvBlockId{15}, KvBlockId{11}}));
  EXPECT_EQ(seen.sampling_of, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(seen.sampling[0].seed, 5U);
  EXPECT_EQ(result->status,
            (std::vector<ErrorCode>{ErrorCode::engine_failed, ErrorCode::ok, ErrorCode::ok}));
  EXPECT_EQ(result->sampled, (std::vector<std::int32_t>{-1, 260, 109}));
  EXPECT_EQ(result->length, (std::vector<std::int64_t>{6, 4, 2}));
  EXPECT_EQ(result->top_of[1].count, 1);
  EXPECT_EQ(result->top[static_cast<std::size_t>(result->top_of[2].begin)].token, 109);
}

TEST(StepRunner, AfterAFailedStepNothingGoesOnFromIt) {
  EchoEngine engine;
  StepRunner runner(engine);
  engine.fails = true;
  PlannedStep first = planned(1, {{3, 5, {40}}});
  EXPECT_FALSE(runner.run(first).ok());
  engine.fails = false;
  PlannedStep second = planned(2, {{3, 6, {kOpenToken}, true, true}});
  const auto result = runner.run(second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->status, (std::vector<ErrorCode>{ErrorCode::engine_failed}));
  EXPECT_EQ(engine.plans[1].sequences(), 0U);
  // A slot that begins anew goes on from nothing.
  PlannedStep third = planned(3, {{3, 0, {1}}});
  ASSERT_TRUE(runner.run(third).ok());
  EXPECT_EQ(engine.plans[2].tokens, (std::vector<std::int32_t>{1}));
}

} // namespace
} // namespace troupe::actors
