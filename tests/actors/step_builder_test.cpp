// The join of a stage's decision with the token log, and back.

#include "actors/step_builder.hpp"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

constexpr RequestRef kPrefill{RequestId{1}, Attempt{1}};
constexpr RequestRef kDecode{RequestId{2}, Attempt{1}};

// request 1: prompt [10 11 12 13], the step runs positions 1..2 of it, nothing is drawn
// request 2: prompt [20 21], drawn [30]; the step feeds token 30 at position 2 and draws
struct Step {
  TokenLog log{{1}};
  sched::RunStep run;

  Step() {
    SequenceLog prefill;
    prefill.work.prompt = {10, 11, 12, 13};
    prefill.work.new_tokens_max = 4;
    log.put(kPrefill, prefill);
    SequenceLog decode;
    decode.work.prompt = {20, 21};
    decode.work.new_tokens_max = 4;
    decode.work.sampling.new_tokens_min = 4;
    decode.work.sampling.seed = 5;
    decode.drawn = {30};
    log.put(kDecode, decode);
    run.step = 9;
    run.entries.push_back({kPrefill, StateSlotId{0}, 1, 2, false, 0, 1});
    run.entries.push_back({kDecode, StateSlotId{4}, 2, 1, true, 1, 2});
    run.blocks = {KvBlockId{3}, KvBlockId{5}, KvBlockId{6}};
  }
};

TEST(StepBuilder, LaysSequencesOneAfterTheOther) {
  const Step step;
  PlannedStep planned;
  planned.plan.tokens = {77}; // What an earlier step left must go.
  planned.follows = {5};
  build_plan(step.run, step.log, planned);
  const engine::StepPlan& plan = planned.plan;
  EXPECT_TRUE(planned.follows.empty());
  EXPECT_EQ(plan.step, 9U);
  EXPECT_EQ(plan.tokens, (std::vector<std::int32_t>{11, 12, 30}));
  EXPECT_EQ(plan.block_table, (std::vector<KvBlockId>{KvBlockId{3}, KvBlockId{5}, KvBlockId{6}}));
  ASSERT_EQ(plan.blocks_of.size(), 2U);
  EXPECT_EQ(plan.blocks_of[1].begin, 1);
  EXPECT_EQ(plan.blocks_of[1].count, 2);
  EXPECT_EQ(plan.first_position, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(plan.sampling_of, (std::vector<std::int32_t>{-1, 0}));
  ASSERT_EQ(plan.sampling.size(), 1U);
  EXPECT_EQ(plan.sampling[0].output_position, 1);
  EXPECT_EQ(plan.sampling[0].seed, 5U);
  EXPECT_EQ(plan.suppressed_ids, (std::vector<std::int32_t>{1})); // Below the minimum of 4.
}

// The next step is planned before step 9 has drawn: request 2 feeds what that draws at position 3,
// and its draw is number 2 of the answer.
TEST(StepBuilder, LeavesTheTokenOpenThatTheStepBeforeDraws) {
  const Step step;
  sched::RunStep next;
  next.step = 10;
  next.entries.push_back({kDecode, StateSlotId{4}, 3, 1, true, 0, 1, true});
  next.entries.push_back({kPrefill, StateSlotId{0}, 3, 1, true, 1, 1, true});
  next.blocks = {KvBlockId{5}, KvBlockId{3}};
  PlannedStep planned;
  build_plan(next, step.log, planned);
  EXPECT_EQ(planned.plan.tokens, (std::vector<std::int32_t>{kOpenToken, 13}));
  EXPECT_EQ(planned.follows, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(planned.plan.sampling[0].output_position, 2);
  EXPECT_EQ(planned.plan.sampling[1].output_position, 0);
}

// The minimum of answered tokens counts the one that is still to be drawn.
TEST(StepBuilder, AnOpenTokenCountsForTheMinimum) {
  Step step;
  SequenceLog log = *step.log.find(kDecode);
  log.work.sampling.new_tokens_min = 2;
  step.log.put(kDecode, log);
  sched::RunStep next;
  next.entries.push_back({kDecode, StateSlotId{4}, 3, 1, true, 0, 1, true});
  next.blocks = {KvBlockId{5}};
  PlannedStep planned;
  build_plan(next, step.log, planned);
  EXPECT_TRUE(planned.plan.suppressed_ids.empty());
}

TEST(StepBuilder, AfterItsEndASequenceDrawsNothing) {
  Step step;
  engine::StepResult result;
  result.status = {ErrorCode::ok, ErrorCode::ok};
  result.length = {3, 3};
  result.sampled = {-1, 1}; // Ends the answer.
  result.logprob_bits = {0, 0};
  result.top_of = {{0, 0}, {0, 0}};
  EXPECT_EQ(take_result(step.run, result, step.log).rows[1].token.end, sched::EndReason::eos);
  result.sampled = {-1, 31};
  EXPECT_FALSE(take_result(step.run, result, step.log).rows[1].drew);
  EXPECT_EQ(step.log.find(kDecode)->drawn, (std::vector<std::int32_t>{30, 1}));
}

TEST(StepBuilder, TakesResultsIntoTheLog) {
  Step step;
  engine::StepResult result;
  result.status = {ErrorCode::ok, ErrorCode::ok};
  result.length = {3, 3};
  result.sampled = {-1, 31};
  result.logprob_bits = {0, 42};
  result.top_of = {{0, 0}, {0, 2}};
  result.top = {{31, 42}, {32, 43}};
  result.compute_us = 8;
  const sched::StepDone done = take_result(step.run, result, step.log);
  EXPECT_EQ(done.step, 9U);
  EXPECT_EQ(done.compute_us, 8);
  ASSERT_EQ(done.rows.size(), 2U);
  EXPECT_FALSE(done.rows[0].drew);
  EXPECT_EQ(done.rows[0].length, 3);
  EXPECT_TRUE(done.rows[1].drew);
  EXPECT_EQ(done.rows[1].token.index, 1);
  EXPECT_EQ(done.rows[1].token.token, 31);
  EXPECT_EQ(done.rows[1].token.top_tokens, (std::vector<std::int32_t>{31, 32}));
  EXPECT_EQ(done.rows[1].token.end, sched::EndReason::none);
  EXPECT_EQ(step.log.find(kDecode)->drawn, (std::vector<std::int32_t>{30, 31}));
}

TEST(StepBuilder, AFailedRowDrawsNothing) {
  Step step;
  engine::StepResult result;
  result.status = {ErrorCode::ok, ErrorCode::engine_failed};
  result.length = {3, 2};
  result.sampled = {-1, -1};
  result.logprob_bits = {0, 0};
  result.top_of = {{0, 0}, {0, 0}};
  const sched::StepDone done = take_result(step.run, result, step.log);
  EXPECT_FALSE(done.rows[1].drew);
  EXPECT_EQ(done.rows[1].status, ErrorCode::engine_failed);
  EXPECT_EQ(step.log.find(kDecode)->drawn.size(), 1U);
}

} // namespace
} // namespace troupe::actors
