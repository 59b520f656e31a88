// The contract of a StepPlan: one good plan, and one change a case that breaks it.

#include "engine/plan_check.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace troupe::engine {
namespace {

constexpr PlanLimits kLimits{/*vocab=*/100, /*context_max=*/16, /*block_tokens=*/4,
                             /*blocks=*/8,  /*slots=*/3,        /*step_tokens_max=*/10};

/// Slot 0: positions 0..5 in blocks 1 and 0. Slot 2: position 7 in blocks 4 and 5, one token drawn.
StepPlan good_plan() {
  StepPlan plan;
  plan.step = 9;
  plan.state_slot = {StateSlotId{0}, StateSlotId{2}};
  plan.first_position = {0, 7};
  plan.tokens_of = {{0, 6}, {6, 1}};
  plan.blocks_of = {{0, 2}, {2, 2}};
  plan.logits = {Logits::none, Logits::last};
  plan.sampling_of = {-1, 0};
  plan.tokens = {1, 2, 3, 4, 5, 6, 99};
  plan.block_table = {KvBlockId{1}, KvBlockId{0}, KvBlockId{4}, KvBlockId{5}};
  plan.sampling.resize(1);
  plan.sampling[0].suppressed = {0, 1};
  plan.suppressed_ids = {7};
  return plan;
}

const std::int64_t kLengths[] = {12, 0, 7};

struct PlanCase {
  const char* name;
  std::function<void(StepPlan&)> change;
  const char* part;
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const PlanCase kCases[] = {
    {"ArraysDiffer", [](StepPlan& p) { p.logits.pop_back(); }, "arrays differ in length"},
    {"SlotNegative", [](StepPlan& p) { p.state_slot[0] = StateSlotId{-1}; },
     "sequence 0: state_slot is -1, expected 0 to 2"},
    {"SlotTooLarge", [](StepPlan& p) { p.state_slot[1] = StateSlotId{3}; }, "state_slot is 3"},
    {"SlotTwice", [](StepPlan& p) { p.state_slot[1] = StateSlotId{0}; },
     "sequence 1: state_slot 0 occurs twice"},
    {"FirstIsGap", [](StepPlan& p) { p.first_position[1] = 8; },
     "first_position is 8, expected 0 or the slot's length 7"},
    {"FirstIsBack", [](StepPlan& p) { p.first_position[1] = 6; }, "first_position is 6"},
    {"FirstNegative", [](StepPlan& p) { p.first_position[1] = -1; }, "first_position is -1"},
    {"NoToken", [](StepPlan& p) { p.tokens_of[1].count = 0; }, "has no token"},
    {"TokensOutside", [](StepPlan& p) { p.tokens_of[1].count = 2; }, "tokens_of is [6, 8)"},
    {"TokensNegative", [](StepPlan& p) { p.tokens_of[0].begin = -1; }, "tokens_of is [-1"},
    {"TokensHugeCount",
     [](StepPlan& p) { p.tokens_of[1].count = std::numeric_limits<std::int32_t>::max(); },
     "tokens_of is [6, 2147483653)"},
    {"TokensOverlap", [](StepPlan& p) { p.tokens_of[1].begin = 5; },
     "tokens_of begins at 5, expected 6"},
    {"TokensLeftOver", [](StepPlan& p) { p.tokens.push_back(1); },
     "has 8 tokens, but its sequences take 7"},
    {"TokenNegative", [](StepPlan& p) { p.tokens[2] = -5; }, "token is -5, expected 0 to 99"},
    {"TokenTooLarge", [](StepPlan& p) { p.tokens[6] = 100; }, "sequence 1: token is 100"},
    {"TooManyTokens",
     [](StepPlan& p) {
       p.tokens.insert(p.tokens.begin(), 4, 1);
       p.tokens_of[0].count = 10;
       p.tokens_of[1].begin = 10;
       p.block_table.insert(p.block_table.begin(), KvBlockId{7});
       p.blocks_of = {{0, 3}, {3, 2}};
     },
     "more than step_tokens_max = 10"},
    {"TooFewBlocks", [](StepPlan& p) { p.blocks_of[0].count = 1; },
     "has 1 kv blocks of 4 tokens, expected room for 6"},
    {"BlocksOutside", [](StepPlan& p) { p.blocks_of[1].begin = 3; }, "blocks_of is [3, 5)"},
    {"BlockTooLarge", [](StepPlan& p) { p.block_table[3] = KvBlockId{8}; },
     "kv block is 8, expected 0 to 7"},
    {"BlockTwiceInOne", [](StepPlan& p) { p.block_table[1] = KvBlockId{1}; },
     "kv block 1 occurs twice"},
    {"BlockOfTwo", [](StepPlan& p) { p.block_table[2] = KvBlockId{0}; },
     "sequence 1: kv block 0 occurs twice"},
    {"SamplingWithoutLogits", [](StepPlan& p) { p.sampling_of[0] = 0; },
     "sampling_of is 0, expected -1"},
    {"LogitsWithoutSampling", [](StepPlan& p) { p.sampling_of[1] = -1; }, "sampling_of is -1"},
    {"SamplingOutside", [](StepPlan& p) { p.sampling_of[1] = 1; }, "sampling_of is 1"},
    {"UnknownLogits", [](StepPlan& p) { p.logits[1] = static_cast<Logits>(7); },
     "logits has an unknown value"},
    {"TemperatureNan", [](StepPlan& p) { p.sampling[0].temperature = kNan; }, "temperature is"},
    {"TemperatureNegative", [](StepPlan& p) { p.sampling[0].temperature = -1; }, "temperature is"},
    {"TopPZero", [](StepPlan& p) { p.sampling[0].top_p = 0; }, "top_p is 0"},
    {"TopPNan", [](StepPlan& p) { p.sampling[0].top_p = kNan; }, "top_p is"},
    {"TopPLarge", [](StepPlan& p) { p.sampling[0].top_p = 1.5F; }, "top_p is 1.5"},
    {"TopKNegative", [](StepPlan& p) { p.sampling[0].top_k = -1; }, "top_k is -1"},
    {"PositionNegative", [](StepPlan& p) { p.sampling[0].output_position = -1; },
     "output_position is -1"},
    {"TopLogprobs", [](StepPlan& p) { p.sampling[0].top_logprobs = -2; }, "top_logprobs is -2"},
    {"SuppressedSpan",
     [](StepPlan& p) {
       p.sampling[0].suppressed = {1, 1};
     },
     "suppressed is [1, 2)"},
    {"SuppressedId", [](StepPlan& p) { p.suppressed_ids[0] = 100; }, "suppressed id is 100"},
};

TEST(PlanCheck, AcceptsGoodPlans) {
  const Status good = check_plan(good_plan(), kLimits, kLengths);
  EXPECT_TRUE(good.ok()) << good.error().message;
  EXPECT_TRUE(check_plan(StepPlan{}, kLimits, kLengths).ok()) << "a plan without sequences";
}

TEST(PlanCheck, ContextIsABound) {
  StepPlan plan = good_plan();
  const std::int64_t lengths[] = {0, 0, 16};
  plan.first_position[1] = 16;
  const Status status = check_plan(plan, kLimits, lengths);
  EXPECT_NE(status.error().message.find("would hold 17 tokens, expected at most context_max = 16"),
            std::string::npos)
      << status.error().message;
}

class BadPlan : public testing::TestWithParam<PlanCase> {};

TEST_P(BadPlan, IsRefused) {
  StepPlan plan = good_plan();
  GetParam().change(plan);
  const Status status = check_plan(plan, kLimits, kLengths);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::bad_plan);
  EXPECT_NE(status.error().message.find("step 9: "), std::string::npos);
  EXPECT_NE(status.error().message.find(GetParam().part), std::string::npos)
      << status.error().message;
}

INSTANTIATE_TEST_SUITE_P(All, BadPlan, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

} // namespace
} // namespace troupe::engine
