// What lags by a step when the next one is planned while one runs, and what must not: policies.md
// section 6.2. Timelines show steps in flight; `*` is a wasted row.

#include "schedulers/stage/rank_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace troupe::sched::testing {
namespace {

/// What an engine answers for some sequences of a step; the others get a token and go on.
struct Answers {
  std::map<RequestRef, EndReason> ends;
  std::vector<RequestRef> failed;
  ErrorCode code = ErrorCode::ok; ///< Of the whole step.
};

class AheadRank {
public:
  explicit AheadRank(std::int64_t kv_blocks = 32, const std::string& overlap = "one_ahead",
                     std::int64_t slots = 4, Role role = Role::decode)
      : stage_(options(kv_blocks, slots, role), set_of(overlap, 1), builtins()) {
    stage_.start(0, effects);
  }

  static PolicySet set_of(const std::string& overlap, std::uint64_t epoch) {
    PolicySet set;
    set.epoch = PolicyEpoch{epoch};
    set.kinds["overlap"].policy = overlap;
    return set;
  }

  template <class E>
  void on(const E& event) {
    effects.clear();
    stage_.on(event, ++now_us_, effects);
    const RankCounts& counts = stage_.counts();
    EXPECT_TRUE(stage_.check().ok());
    EXPECT_EQ(counts.kv_blocks_free + counts.kv_blocks_reserved, kv_blocks_);
    for (const RunStep& step : asked<RunStep>(effects))
      in_flight.push_back(step);
    for (const Ended& one : sent<Ended>(effects))
      ended.push_back(one);
    for (const Forget& gone : asked<Forget>(effects))
      expect_not_in_flight(gone.ref);
    EXPECT_LE(in_flight.size(), 2U);
  }

  /// A sequence of 4 positions with one token answered, of `new_tokens_max`.
  void adopt(std::uint64_t id, std::int64_t new_tokens_max = 20, Claim claim = {}) {
    const std::int64_t positions_max = 4 + new_tokens_max - 1;
    on(Reserve{ref(id), rank_ref(0), HandoffId{id}, positions_max, 1'000'000, 1, new_tokens_max,
               static_cast<std::int64_t>(id), claim});
    ASSERT_EQ(sent<Reserved>(effects).size(), 1U);
    on(Pull{ref(id), rank_ref(0), HandoffId{id}, rank_ref(7), 4, "m"});
    on(Imported{ref(id), HandoffId{id}, ErrorCode::ok, Digest{}, "", 4, 1, new_tokens_max});
    on(Adopt{ref(id), rank_ref(0), HandoffId{id}, Digest{}});
  }

  /// Ends the oldest step.
  void done(const Answers& answers = {}) {
    ASSERT_FALSE(in_flight.empty());
    const RunStep step = in_flight.front();
    in_flight.pop_front();
    StepDone event;
    event.step = step.step;
    event.code = answers.code;
    event.compute_us = 5;
    for (const StepEntry& entry : step.entries) {
      if (answers.code != ErrorCode::ok) break;
      StepRow row{entry.ref, ErrorCode::ok, entry.first_position + entry.count, entry.draw, {}};
      const auto end = answers.ends.find(entry.ref);
      if (end != answers.ends.end()) row.token.end = end->second;
      const bool fails = std::count(answers.failed.begin(), answers.failed.end(), entry.ref) != 0;
      if (fails) row = {entry.ref, ErrorCode::engine_failed, entry.first_position, false, {}};
      event.rows.push_back(row);
    }
    on(event);
  }

  /// Requests with a token in the last event's message to the driver.
  std::vector<std::uint64_t> streamed() const {
    std::vector<std::uint64_t> ids;
    for (const Tokens& tokens : sent<Tokens>(effects)) {
      for (const TokenRow& row : tokens.rows)
        ids.push_back(raw(row.ref.request));
    }
    return ids;
  }
  static bool names(const RunStep& step, std::uint64_t id) {
    return std::any_of(step.entries.begin(), step.entries.end(),
                       [&](const StepEntry& entry) { return entry.ref == ref(id); });
  }
  /// The last answer of the overlap policy in the last event.
  Record overlap_record() const {
    Record found;
    for (const Record& record : asked<Record>(effects)) {
      if (record.kind == "overlap") found = record;
    }
    return found;
  }
  const RankCounts& counts() const { return stage_.counts(); }
  RankStage& stage() { return stage_; }

  Effects effects;
  std::deque<RunStep> in_flight;
  std::vector<Ended> ended;

private:
  RankOptions options(std::int64_t kv_blocks, std::int64_t slots, Role role) {
    kv_blocks_ = kv_blocks;
    RankOptions made;
    made.rank = rank_ref(0);
    made.role = role;
    made.kv_blocks = kv_blocks;
    made.block_tokens = 4;
    made.slots = slots;
    return made;
  }
  void expect_not_in_flight(const RequestRef& gone) const {
    for (const RunStep& step : in_flight)
      EXPECT_FALSE(names(step, raw(gone.request))) << "freed while step " << step.step << " runs";
  }

  std::int64_t kv_blocks_ = 0;
  std::int64_t now_us_ = 0;
  RankStage stage_;
};

std::vector<std::uint64_t> list(std::initializer_list<std::uint64_t> ids) { return ids; }

// in flight   1      1,2      2,3
// request 1   d      d        d      (positions 4, 5, 6)
TEST(OverlapStage, OneStepIsPlannedBesidesTheRunningOne) {
  AheadRank rank;
  rank.adopt(1);
  ASSERT_EQ(rank.in_flight.size(), 2U);
  const StepEntry first = rank.in_flight[0].entries.at(0);
  const StepEntry second = rank.in_flight[1].entries.at(0);
  EXPECT_EQ(first.first_position, 4);
  EXPECT_FALSE(first.follows);
  EXPECT_EQ(second.first_position, 5);
  EXPECT_TRUE(second.follows) << "its token is the one that step 1 draws";
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_EQ(rank.overlap_record().reason, Reason::within_budget);
  EXPECT_EQ(rank.overlap_record().policy, "one_ahead");
  EXPECT_TRUE(rank.overlap_record().asked.has_value());
  rank.done();
  EXPECT_EQ(rank.streamed(), list({1}));
  ASSERT_EQ(rank.in_flight.size(), 2U);
  EXPECT_EQ(rank.in_flight[1].step, 3U);
  EXPECT_EQ(rank.in_flight[1].entries.at(0).first_position, 6);
  EXPECT_EQ(rank.counts().steps, 3);
  EXPECT_EQ(rank.counts().steps_ahead, 2);
}

TEST(OverlapStage, SerialIsAskedAndWaits) {
  AheadRank rank(32, "serial");
  rank.adopt(1);
  ASSERT_EQ(rank.in_flight.size(), 1U);
  EXPECT_EQ(rank.overlap_record().policy, "serial");
  EXPECT_EQ(rank.overlap_record().value, 0);
  rank.done();
  ASSERT_EQ(rank.in_flight.size(), 1U);
  EXPECT_FALSE(rank.in_flight[0].entries.at(0).follows);
  EXPECT_EQ(rank.counts().steps_ahead, 0);
}

// A no holds until the running step has ended, whatever comes meanwhile.
TEST(OverlapStage, TheQuestionIsAskedOnceAboutAStep) {
  AheadRank rank(32, "serial");
  rank.adopt(1);
  rank.adopt(2);
  EXPECT_TRUE(rank.overlap_record().kind.empty());
  rank.done();
  EXPECT_EQ(rank.overlap_record().kind, "overlap");
}

// step        1    2    3    4
// request 1   eos  *
// request 2        d    d    d
TEST(OverlapStage, AStopIsLateByOneStepAndItsTokenIsThrownAway) {
  AheadRank rank;
  rank.adopt(1);
  rank.adopt(2); // Steps 1 and 2 are planned already.
  rank.done({{{ref(1), EndReason::eos}}, {}, ErrorCode::ok});
  EXPECT_EQ(rank.streamed(), list({1}));
  EXPECT_EQ(rank.stage().sequences(), 2) << "step 2 still works on it";
  EXPECT_TRUE(asked<Forget>(rank.effects).empty());
  ASSERT_EQ(rank.in_flight.size(), 2U);
  EXPECT_FALSE(AheadRank::names(rank.in_flight[1], 1));
  EXPECT_TRUE(AheadRank::names(rank.in_flight[1], 2));
  rank.done();
  EXPECT_TRUE(rank.streamed().empty()) << "nothing past the end";
  EXPECT_EQ(asked<Forget>(rank.effects).size(), 1U);
  EXPECT_EQ(rank.stage().sequences(), 1);
  EXPECT_EQ(rank.counts().wasted_rows, 1);
  EXPECT_TRUE(rank.ended.empty());
}

// A limit of tokens is known: no step that is certain to be surplus is planned.
TEST(OverlapStage, TheLastTokenOfALimitIsNotPlannedBeyond) {
  AheadRank rank;
  rank.adopt(1, 3); // One token answered, two to come.
  ASSERT_EQ(rank.in_flight.size(), 2U);
  rank.done();
  EXPECT_EQ(rank.in_flight.size(), 1U);
  EXPECT_TRUE(rank.overlap_record().kind.empty()) << "nothing to plan, nobody is asked";
  rank.done();
  const auto tokens = sent<Tokens>(rank.effects);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].rows.at(0).end, EndReason::length);
  EXPECT_EQ(rank.counts().wasted_rows, 0);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

// Blocks and slot of a cancelled sequence are nobody else's until both steps are back.
TEST(OverlapStage, ACancelledSequenceIsQuarantinedUntilBothStepsAreBack) {
  AheadRank rank(6, "one_ahead", 1);
  rank.adopt(1);
  ASSERT_EQ(rank.in_flight.size(), 2U);
  rank.on(Release{ref(1), rank_ref(0), ErrorCode::cancelled});
  EXPECT_EQ(rank.counts().kv_blocks_free, 0);
  const auto refused = [&](std::uint64_t id) {
    rank.on(Reserve{ref(id), rank_ref(0), HandoffId{id}, 10, 1'000'000, 1, 5, 1, {}});
    return !sent<Refused>(rank.effects).empty();
  };
  EXPECT_TRUE(refused(2));
  rank.done();
  EXPECT_TRUE(rank.streamed().empty());
  EXPECT_TRUE(refused(3));
  EXPECT_EQ(rank.in_flight.size(), 1U);
  rank.done();
  EXPECT_EQ(rank.counts().kv_blocks_free, 6);
  EXPECT_EQ(rank.counts().wasted_rows, 2);
  EXPECT_FALSE(refused(4));
}

Claim expecting() { return {Reservation::expected, 1, 1, 0}; }

// Four blocks of 4 for two sequences of two blocks each. Their next block is missing from position
// 8 on: step 5 would feed it. Nobody is preempted while a step is in flight.
TEST(OverlapStage, BlocksThatAreNotFreeAreWaitedForAndOnlyThenIsSomebodyPreempted) {
  AheadRank rank(4);
  rank.adopt(1, 20, expecting());
  rank.adopt(2, 20, expecting());
  EXPECT_EQ(rank.counts().kv_blocks_free, 0);
  while (rank.ended.empty() && rank.counts().steps < 20) {
    const auto preempted_before = rank.counts().preempted;
    const std::size_t in_flight_before = rank.in_flight.size();
    rank.done();
    if (rank.counts().preempted > preempted_before) {
      EXPECT_EQ(in_flight_before, 1U);
    }
  }
  ASSERT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.ended[0].ref, ref(2));
  EXPECT_EQ(rank.ended[0].code, ErrorCode::preempted);
  EXPECT_GT(rank.counts().steps_ahead, 0);
}

TEST(OverlapStage, TheOptimisticBlockIsTakenFromWhatIsFreeAndComesBack) {
  AheadRank rank(3);
  rank.adopt(1, 20, expecting()); // Two blocks; positions 4 to 7 are planned without a third.
  for (int i = 0; i < 2; ++i)
    rank.done();
  EXPECT_EQ(rank.counts().kv_blocks_free, 1);
  rank.done(); // Plans the step that feeds position 8.
  EXPECT_EQ(rank.counts().kv_blocks_free, 0);
  rank.done({{{ref(1), EndReason::stop_id}}, {}, ErrorCode::ok});
  rank.done();
  EXPECT_EQ(rank.counts().kv_blocks_free, 3) << "the surplus too";
}

// step        1      2
// request 1   fails  (left out by the lane)
TEST(OverlapStage, AFailedStepDropsWhatGoesOnFromIt) {
  AheadRank rank;
  rank.adopt(1);
  rank.adopt(2);
  rank.done();
  ASSERT_EQ(rank.in_flight.size(), 2U); // 2 with request 1; 3 with both.
  rank.done({{}, {}, ErrorCode::engine_failed});
  ASSERT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.ended[0].ref, ref(1));
  EXPECT_TRUE(rank.ended[0].retryable);
  EXPECT_EQ(rank.stage().sequences(), 2) << "step 3 names it";
  rank.done({{}, {ref(1)}, ErrorCode::ok});
  EXPECT_EQ(rank.ended.size(), 1U) << "it is told once";
  EXPECT_EQ(rank.streamed(), list({2})) << "what did not follow went on";
  EXPECT_EQ(rank.stage().sequences(), 1);
}

TEST(OverlapStage, AFailedRowIsToldOnceAndOthersGoOn) {
  AheadRank rank;
  rank.adopt(1);
  rank.adopt(2);
  rank.done();
  rank.done();
  rank.done({{}, {ref(1)}, ErrorCode::ok});
  EXPECT_EQ(rank.streamed(), list({2}));
  ASSERT_EQ(rank.ended.size(), 1U);
  rank.done({{}, {ref(1)}, ErrorCode::ok});
  EXPECT_EQ(rank.streamed(), list({2}));
  EXPECT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.stage().sequences(), 1);
}

// The second of two steps fails: the token of the first one counts.
TEST(OverlapStage, AFailedSecondStepKeepsTheTokenOfTheFirst) {
  AheadRank rank;
  rank.adopt(1, 3);
  rank.done();
  EXPECT_EQ(rank.streamed(), list({1}));
  rank.done({{}, {}, ErrorCode::engine_failed});
  ASSERT_EQ(rank.ended.size(), 1U);
  EXPECT_TRUE(rank.ended[0].retryable);
  EXPECT_TRUE(rank.in_flight.empty());
  EXPECT_EQ(rank.counts().kv_blocks_free, 32);
}

TEST(OverlapStage, ASwapWithTwoStepsInFlightDecidesFromTheNextQuestionOn) {
  AheadRank rank;
  rank.adopt(1);
  ASSERT_EQ(rank.in_flight.size(), 2U);
  SwapPrepare prepare;
  prepare.set = AheadRank::set_of("serial", 2);
  rank.on(prepare);
  rank.on(SwapCommit{PolicyEpoch{2}});
  ASSERT_EQ(rank.in_flight.size(), 2U) << "a swap changes no step in flight";
  rank.done();
  EXPECT_EQ(rank.in_flight.size(), 1U);
  EXPECT_EQ(rank.overlap_record().policy, "serial");
  EXPECT_EQ(rank.overlap_record().epoch, PolicyEpoch{2});
  rank.done();
  EXPECT_EQ(rank.streamed(), list({1}));
  EXPECT_EQ(rank.in_flight.size(), 1U);
}

TEST(OverlapStage, StepsEndInOrder) {
  AheadRank rank;
  rank.adopt(1);
  const std::int64_t stale = rank.counts().stale_dropped;
  StepDone second;
  second.step = rank.in_flight[1].step;
  rank.on(second);
  EXPECT_EQ(rank.counts().stale_dropped, stale + 1);
  EXPECT_EQ(rank.in_flight.size(), 2U);
}

// -- where chunks are pulled: the pull comes as early as the plan --------------------------------

// step        1     2     3
// request 1   ####  ####  ##   (10 tokens; each slice is pulled while the one before runs)
TEST(OverlapPulls, TheNextSliceOfAPromptIsPlannedWhileTheOneBeforeRuns) {
  AheadRank rank(32, "one_ahead", 4, Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(10, 5)});
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 4, false}}});
  const auto early = sent<RankReport>(rank.effects);
  ASSERT_EQ(early.size(), 1U);
  EXPECT_TRUE(early[0].wants_chunks);
  EXPECT_EQ(early[0].step_next, 2U);
  ASSERT_EQ(early[0].progress.size(), 1U);
  EXPECT_EQ(early[0].progress[0].done, 0) << "nothing is computed yet";
  EXPECT_EQ(early[0].progress[0].planned, 4);
  rank.on(RunChunks{rank_ref(0), 2, {{ref(1), 4, 4, false}}});
  ASSERT_EQ(rank.in_flight.size(), 2U);
  EXPECT_TRUE(rank.in_flight[1].entries.at(0).follows);
  EXPECT_FALSE(rank.in_flight[1].entries.at(0).draw);
  rank.done();
  EXPECT_EQ(sent<RankReport>(rank.effects).size(), 1U)
      << "the pull goes with the report of the end";
  EXPECT_EQ(sent<RankReport>(rank.effects)[0].step_next, 3U);
  rank.on(RunChunks{rank_ref(0), 3, {{ref(1), 8, 2, true}}});
  EXPECT_TRUE(rank.in_flight[1].entries.at(0).draw);
  rank.done();
  rank.done();
  EXPECT_EQ(asked<ExportSequence>(rank.effects).size(), 1U);
  EXPECT_EQ(rank.counts().steps_ahead, 2);
}

// A prompt that ends in the running step has nothing to plan: the pull waits for the end.
TEST(OverlapPulls, APromptThatEndsInTheRunningStepIsNotPlannedBeyond) {
  AheadRank rank(32, "one_ahead", 4, Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(4, 5)});
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 4, true}}});
  EXPECT_TRUE(sent<RankReport>(rank.effects).empty());
  rank.on(Assign{ref(2), rank_ref(0), work(6, 5)});
  ASSERT_EQ(sent<RankReport>(rank.effects).size(), 1U) << "what arrives meanwhile is planned";
  EXPECT_TRUE(sent<RankReport>(rank.effects)[0].wants_chunks);
  // A slice that is not where its prompt stands is not run.
  rank.on(RunChunks{rank_ref(0), 2, {{ref(1), 4, 1, true}, {ref(2), 0, 6, true}}});
  ASSERT_EQ(rank.in_flight.size(), 2U);
  EXPECT_FALSE(AheadRank::names(rank.in_flight[1], 1));
  EXPECT_TRUE(AheadRank::names(rank.in_flight[1], 2));
}

// A slice whose predecessor failed is left out by the lane; the request is handed back once.
TEST(OverlapPulls, AFailedSliceDropsTheOneThatFollows) {
  AheadRank rank(32, "one_ahead", 4, Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(10, 5)});
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 4, false}}});
  rank.on(RunChunks{rank_ref(0), 2, {{ref(1), 4, 4, false}}});
  rank.done({{}, {}, ErrorCode::engine_failed});
  ASSERT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.done({{}, {ref(1)}, ErrorCode::ok});
  EXPECT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

// Role both: an empty answer lets a rank decode ahead.
TEST(OverlapPulls, ARankOfBothRolesDecodesAheadOnAnEmptyAnswer) {
  AheadRank rank(32, "one_ahead", 4, Role::both);
  rank.on(Assign{ref(1), rank_ref(0), work(4, 8)});
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 4, true}}});
  rank.done();
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{1}, {}});
  rank.on(RunChunks{rank_ref(0), 2, {}});
  EXPECT_TRUE(sent<RankReport>(rank.effects).at(0).wants_chunks);
  EXPECT_EQ(sent<RankReport>(rank.effects)[0].step_next, 3U);
  rank.on(RunChunks{rank_ref(0), 3, {}});
  ASSERT_EQ(rank.in_flight.size(), 2U);
  EXPECT_EQ(rank.in_flight[1].entries.at(0).first_position, 5);
  EXPECT_TRUE(rank.in_flight[1].entries.at(0).follows);
}

// An answer that comes when blocks are short is kept for the end of the running step.
TEST(OverlapPulls, AnAnswerIsKeptWhereBlocksAreShort) {
  AheadRank rank(2, "one_ahead", 4, Role::both);
  Assign assign{ref(1), rank_ref(0), work(7, 40)};
  assign.claim = expecting();
  rank.on(assign);
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 7, true}}});
  rank.done();
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{1}, {}});
  rank.on(RunChunks{rank_ref(0), 2, {}}); // Feeds position 7; position 8 needs a third block.
  ASSERT_EQ(rank.in_flight.size(), 1U);
  EXPECT_EQ(rank.overlap_record().reason, Reason::no_room);
  EXPECT_TRUE(rank.ended.empty());
}

TEST(OverlapStage, WorkIsPendingWhileASequenceDecodes) {
  AheadRank rank;
  EXPECT_FALSE(rank.stage().has_work());
  rank.adopt(1, 2);
  EXPECT_TRUE(rank.stage().has_work());
  rank.done();
  EXPECT_FALSE(rank.stage().has_work());
}

} // namespace
} // namespace troupe::sched::testing
