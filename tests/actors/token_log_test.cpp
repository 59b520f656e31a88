// The token log of a rank: positions, ends, suppressed ids.

#include "actors/token_log.hpp"

#include <gtest/gtest.h>

namespace troupe::actors {
namespace {

const RequestRef kRef{RequestId{7}, Attempt{1}};

SequenceLog sequence(std::int64_t new_tokens_max) {
  SequenceLog log;
  log.work.prompt = {10, 11, 12};
  log.work.answered = {20};
  log.work.stop_ids = {99};
  log.work.new_tokens_max = new_tokens_max;
  return log;
}

TEST(TokenLog, PositionsRunOverPromptAnsweredAndDrawn) {
  TokenLog log({1});
  log.put(kRef, sequence(10));
  EXPECT_EQ(log.draw(kRef, 30), sched::EndReason::none);
  const SequenceLog& found = *log.find(kRef);
  EXPECT_EQ(found.tokens(), 5);
  EXPECT_EQ(found.answered(), 2);
  const std::vector<std::int32_t> want{10, 11, 12, 20, 30};
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(found.token_at(static_cast<std::int64_t>(i)), want[i]);
  }
}

TEST(TokenLog, EndsByEosStopIdAndLength) {
  TokenLog log({1});
  log.put(kRef, sequence(10));
  EXPECT_EQ(log.draw(kRef, 1), sched::EndReason::eos);
  log.put(kRef, sequence(10));
  EXPECT_EQ(log.draw(kRef, 99), sched::EndReason::stop_id);
  // One of the three allowed tokens was answered by an earlier attempt.
  log.put(kRef, sequence(3));
  EXPECT_EQ(log.draw(kRef, 30), sched::EndReason::none);
  EXPECT_EQ(log.draw(kRef, 31), sched::EndReason::length);
}

TEST(TokenLog, IgnoreEosGoesOn) {
  TokenLog log({1});
  SequenceLog quiet = sequence(10);
  quiet.work.sampling.ignore_eos = true;
  log.put(kRef, quiet);
  EXPECT_EQ(log.draw(kRef, 1), sched::EndReason::none);
}

TEST(TokenLog, EndAndStopIdsAreSuppressedUntilTheMinimum) {
  TokenLog log({1, 2});
  SequenceLog minimum = sequence(10);
  minimum.work.sampling.new_tokens_min = 2;
  log.put(kRef, minimum);
  std::vector<std::int32_t> ids;
  log.suppressed(*log.find(kRef), log.find(kRef)->answered(), ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{1, 2, 99}));
  log.draw(kRef, 30); // The second answered token.
  ids.clear();
  log.suppressed(*log.find(kRef), log.find(kRef)->answered(), ids);
  EXPECT_TRUE(ids.empty());
}

TEST(TokenLog, ForgetFreesTheSequence) {
  TokenLog log({1});
  log.put(kRef, sequence(3));
  log.forget(kRef);
  EXPECT_EQ(log.find(kRef), nullptr);
  EXPECT_EQ(log.size(), 0U);
}

} // namespace
} // namespace troupe::actors
