// One rank: pulls, steps, accounts, leases. Timelines show tokens per step.

#include "schedulers/stage/rank_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

/// A rank with the fake engine's answers at hand.
class RankBench {
public:
  explicit RankBench(Role role, std::int64_t step_tokens_max = 16, std::int64_t kv_blocks = 16,
                     PolicySet set = {})
      : stage_(options(role, step_tokens_max, kv_blocks), set, builtins()) {
    stage_.start(0, effects);
  }

  template <class E>
  RankBench& on(const E& event) {
    effects.clear();
    stage_.on(event, now_us, effects);
    EXPECT_TRUE(stage_.check().ok());
    return *this;
  }
  RankBench& chunks(std::uint64_t step, std::vector<Slice> slices) {
    return on(RunChunks{rank_ref(0), step, std::move(slices)});
  }
  RunStep step() const {
    const auto steps = asked<RunStep>(effects);
    EXPECT_EQ(steps.size(), 1U);
    return steps.empty() ? RunStep{} : steps[0];
  }
  /// Ends the step as a good engine does; `end` goes to every drawn token.
  RankBench& done(const RunStep& step, EndReason end = EndReason::none) {
    StepDone event{step.step, ErrorCode::ok, 5, {}};
    for (const StepEntry& entry : step.entries) {
      StepRow row{entry.ref, ErrorCode::ok, entry.first_position + entry.count, entry.draw, {}};
      row.token.token = 42;
      row.token.end = end;
      event.rows.push_back(row);
    }
    return on(event);
  }
  RankReport report() const {
    const auto to_chunker = sent<RankReport>(effects);
    EXPECT_FALSE(to_chunker.empty());
    return to_chunker.empty() ? RankReport{} : to_chunker.back();
  }
  RankStage& stage() { return stage_; }

  Effects effects;
  std::int64_t now_us = 0;

private:
  static RankOptions options(Role role, std::int64_t step_tokens_max, std::int64_t kv_blocks) {
    RankOptions made;
    made.rank = rank_ref(0);
    made.role = role;
    made.name = "rank-0";
    made.kv_blocks = kv_blocks;
    made.block_tokens = 4;
    made.slots = 3;
    made.step_tokens_max = step_tokens_max;
    made.context_max = 60;
    return made;
  }
  RankStage stage_;
};

TEST(RankStage, AnnouncesItselfAndPulls) {
  RankBench rank(Role::prefill);
  EXPECT_EQ(sent<RankUp>(rank.effects).size(), 3U);
  EXPECT_TRUE(rank.report().wants_chunks);
  EXPECT_EQ(rank.report().step_next, 1U);
  EXPECT_EQ(rank.report().kv_blocks_free, 16);
  RankBench decode(Role::decode);
  EXPECT_FALSE(decode.report().wants_chunks) << "a decode rank never asks for chunks";
}

// step      1        2        3
// request 1 ####     ###      (exported)
TEST(RankStage, PrefillOfTwoChunksIsExportedAndKeptUntilRelease) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(7, 5)});
  EXPECT_EQ(sent<Assigned>(rank.effects).size(), 1U);
  EXPECT_EQ(rank.stage().counts().kv_blocks_reserved, 2) << "prompt only: 7 tokens in blocks of 4";
  rank.chunks(1, {{ref(1), 0, 4, false}});
  const RunStep first = rank.step();
  ASSERT_EQ(first.entries.size(), 1U);
  EXPECT_FALSE(first.entries[0].draw);
  EXPECT_EQ(first.blocks_of(first.entries[0]).size(), 1U);
  rank.done(first);
  EXPECT_TRUE(sent<Tokens>(rank.effects).empty());
  EXPECT_EQ(rank.report().progress[0].done, 4);
  EXPECT_EQ(rank.report().step_next, 2U);
  rank.chunks(2, {{ref(1), 4, 3, true}});
  const RunStep second = rank.step();
  EXPECT_TRUE(second.entries[0].draw);
  EXPECT_EQ(second.blocks_of(second.entries[0]).size(), 2U);
  rank.done(second);
  const auto tokens = sent<Tokens>(rank.effects);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].rows[0].index, 0);
  ASSERT_EQ(asked<ExportSequence>(rank.effects).size(), 1U);
  EXPECT_TRUE(sent<PrefillDone>(rank.effects).empty());
  rank.on(Exported{ref(1), ErrorCode::ok, "manifest"});
  const auto handed = sent<PrefillDone>(rank.effects);
  ASSERT_EQ(handed.size(), 1U);
  EXPECT_EQ(handed[0].positions, 7);
  EXPECT_EQ(handed[0].positions_max, 12);
  EXPECT_EQ(handed[0].answered, 1);
  EXPECT_FALSE(handed[0].in_place);
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.on(Release{ref(1), rank_ref(0), ErrorCode::ok});
  EXPECT_EQ(rank.stage().sequences(), 0);
  EXPECT_EQ(rank.report().freed, (std::vector<RequestRef>{ref(1)}));
  EXPECT_EQ(asked<Forget>(rank.effects).size(), 1U);
}

// step tokens at most 4      1     2     3     4
// request 1 (prompt 3)       ###   d     d
// request 2 (prompt 6)             ###   ###   (deferred remainder is planned again)
TEST(RankStage, DecodeFirstShrinksSlicesAndReportsWhatIsLeft) {
  RankBench rank(Role::both, 4);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 4)});
  EXPECT_EQ(rank.stage().counts().kv_blocks_reserved, 2) << "prompt and answer: 7 tokens";
  rank.on(Assign{ref(2), rank_ref(0), work(6, 4)});
  rank.chunks(1, {{ref(1), 0, 3, true}});
  rank.done(rank.step());
  EXPECT_TRUE(sent<PrefillDone>(rank.effects)[0].in_place);
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{1}, {}});
  EXPECT_EQ(sent<Adopted>(rank.effects).size(), 1U);
  EXPECT_EQ(rank.report().running, 1) << "the chunker must learn that an idle rank decodes now";
  EXPECT_TRUE(rank.report().wants_chunks);
  EXPECT_EQ(rank.report().step_next, 2U);
  rank.chunks(2, {{ref(2), 0, 4, false}});
  const RunStep mixed = rank.step();
  ASSERT_EQ(mixed.entries.size(), 2U);
  EXPECT_EQ(mixed.entries[0].ref, ref(1));
  EXPECT_EQ(mixed.entries[0].count, 1);
  EXPECT_EQ(mixed.entries[1].count, 3) << "shrunk to what the step takes";
  rank.done(mixed);
  EXPECT_EQ(rank.report().progress[0].done, 3);
  // A slice from an older plan does not fit any more: it is dropped and the truth reported.
  rank.chunks(3, {{ref(2), 4, 2, true}});
  EXPECT_EQ(rank.step().entries.size(), 1U);
  rank.done(rank.step());
  EXPECT_EQ(rank.report().progress[0].done, 3);
}

TEST(RankStage, EmptyChunksLetItDecodeAlone) {
  RankBench rank(Role::both);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 2)}).chunks(1, {{ref(1), 0, 3, true}});
  rank.done(rank.step());
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{1}, {}}).chunks(2, {});
  rank.done(rank.step());
  const auto tokens = sent<Tokens>(rank.effects);
  ASSERT_EQ(tokens.size(), 1U);
  EXPECT_EQ(tokens[0].rows[0].index, 1);
  EXPECT_EQ(tokens[0].rows[0].end, EndReason::length) << "the stage counts new tokens";
  EXPECT_EQ(rank.stage().sequences(), 0);
  EXPECT_EQ(rank.report().freed, (std::vector<RequestRef>{ref(1)}));
}

TEST(RankStage, ARequestThatEndsWithItsFirstTokenIsNotHandedOver) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).chunks(1, {{ref(1), 0, 3, true}});
  rank.done(rank.step(), EndReason::eos);
  EXPECT_EQ(sent<Tokens>(rank.effects)[0].rows[0].end, EndReason::eos);
  EXPECT_TRUE(asked<ExportSequence>(rank.effects).empty());
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, RefusesWhatHasNoRoomAndWhatNeverFits) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(40, 5)});
  rank.on(Assign{ref(2), rank_ref(0), work(28, 5)});
  auto refused = sent<Refused>(rank.effects);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(refused[0].reason, ErrorCode::no_room);
  EXPECT_EQ(rank.report().kv_blocks_free, 6) << "the view that led here is corrected";
  for (const Work& never : {work(70, 1), work(50, 20), work(0, 5), work(5, 0)}) {
    rank.on(Assign{ref(3), rank_ref(0), never});
    refused = sent<Refused>(rank.effects);
    ASSERT_EQ(refused.size(), 1U);
    EXPECT_EQ(refused[0].reason, ErrorCode::never_fits);
  }
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.on(Assign{ref(1), rank_ref(0), work(40, 5)});
  EXPECT_EQ(sent<Assigned>(rank.effects).size(), 1U) << "a repeated Assign is confirmed again";
}

TEST(RankStage, APullWithoutAnswerIsRepeatedForTheSameStep) {
  RankBench rank(Role::prefill);
  const Timer again = timers(rank.effects, TimerKind::pull_again).at(0);
  rank.now_us = 1'000'000;
  rank.on(again);
  EXPECT_TRUE(rank.report().wants_chunks);
  EXPECT_EQ(rank.report().step_next, 1U);
  EXPECT_EQ(timers(rank.effects, TimerKind::pull_again).size(), 1U);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).chunks(1, {{ref(1), 0, 3, true}});
  const RunStep step = rank.step();
  rank.chunks(1, {{ref(1), 0, 3, true}});
  EXPECT_TRUE(asked<RunStep>(rank.effects).empty()) << "one step at a time";
  EXPECT_EQ(rank.stage().counts().stale_dropped, 1);
  rank.on(again);
  EXPECT_TRUE(rank.effects.list().empty()) << "its reason is gone";
  rank.done(step);
}

TEST(RankStage, AnAnswerThatLeavesNothingToDoIsUsedUp) {
  RankBench rank(Role::prefill);
  rank.chunks(1, {{ref(9), 0, 3, true}});
  EXPECT_TRUE(asked<RunStep>(rank.effects).empty());
  EXPECT_EQ(rank.report().step_next, 2U);
  EXPECT_EQ(rank.report().freed, (std::vector<RequestRef>{ref(9)})) << "it is not here any more";
}

TEST(RankStage, ReleaseDuringAStepFreesAfterIt) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).chunks(1, {{ref(1), 0, 3, true}});
  const RunStep step = rank.step();
  rank.on(Release{ref(1), rank_ref(0), ErrorCode::cancelled});
  EXPECT_EQ(rank.stage().sequences(), 1) << "the engine still works on its blocks";
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)});
  EXPECT_TRUE(sent<Assigned>(rank.effects).empty());
  rank.done(step);
  EXPECT_TRUE(sent<Tokens>(rank.effects).empty());
  EXPECT_EQ(rank.stage().sequences(), 0);
  EXPECT_EQ(rank.report().freed, (std::vector<RequestRef>{ref(1)}));
}

TEST(RankStage, AFailedRowEndsOneSequenceAndAFailedStepAll) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).on(Assign{ref(2), rank_ref(0), work(3, 9)});
  rank.chunks(1, {{ref(1), 0, 2, false}, {ref(2), 0, 2, false}});
  StepDone mixed{1, ErrorCode::ok, 5, {}};
  mixed.rows.push_back({ref(1), ErrorCode::bad_plan, 0, false, {}});
  mixed.rows.push_back({ref(2), ErrorCode::ok, 2, false, {}});
  rank.on(mixed);
  auto ended = sent<Ended>(rank.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].ref, ref(1));
  EXPECT_EQ(ended[0].code, ErrorCode::engine_failed);
  EXPECT_FALSE(ended[0].retryable);
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.chunks(2, {{ref(2), 2, 1, true}});
  rank.on(StepDone{2, ErrorCode::engine_failed, 5, {}});
  ended = sent<Ended>(rank.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_TRUE(ended[0].retryable);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, RowsThatAreMissingOrOfAnotherLengthAreFailures) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).on(Assign{ref(2), rank_ref(0), work(3, 9)});
  rank.chunks(1, {{ref(1), 0, 2, false}, {ref(2), 0, 2, false}});
  StepDone done{1, ErrorCode::ok, 5, {}};
  done.rows.push_back({ref(1), ErrorCode::ok, 3, false, {}});
  rank.on(done);
  EXPECT_EQ(sent<Ended>(rank.effects).size(), 2U);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, ALeaseEndsUnlessRenewedAndTheDriverHearsOfIt) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0), work(3, 9)}).chunks(1, {{ref(1), 0, 3, true}});
  rank.done(rank.step()).on(Exported{ref(1), ErrorCode::ok, "m"});
  const Timer lease = timers(rank.effects, TimerKind::lease).at(0);
  rank.now_us = 9'000'000;
  rank.on(Renew{ref(1), rank_ref(0), HandoffId{}, 10'000'000});
  rank.now_us = 10'000'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 1);
  EXPECT_EQ(timers(rank.effects, TimerKind::lease).size(), 1U);
  rank.now_us = 19'000'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 0);
  EXPECT_EQ(rank.stage().counts().leases_expired, 1);
  EXPECT_TRUE(sent<Ended>(rank.effects).at(0).retryable);
}

// seconds      0     3   6   9  10           60
// rank         Assign, then step 1 until 60; it reads no mail
// its mail           R   R   R  lease timer   done
// The timer may overtake the renewals; in either order the prefill goes on.
TEST(RankStage, ALeaseOutlivesAStepThatTakesLongerThanIt) {
  const Renew renew{ref(1), rank_ref(0), HandoffId{}, 10'000'000};
  for (const bool timer_first : {false, true}) {
    RankBench rank(Role::prefill);
    Assign assign{ref(1), rank_ref(0), work(7, 9)};
    assign.lease_us = 10'000'000;
    rank.on(assign);
    Timer lease = timers(rank.effects, TimerKind::lease).at(0);
    for (std::uint64_t number = 1; number <= 2; ++number) {
      const std::int64_t offset = number == 1 ? 0 : 4;
      rank.chunks(number, {{ref(1), offset, number == 1 ? 4 : 3, number == 2}});
      const RunStep step = rank.step();
      rank.now_us += 60'000'000;
      if (!timer_first) rank.on(renew);
      rank.on(lease);
      EXPECT_TRUE(sent<Ended>(rank.effects).empty()) << "the renewals wait behind the timer";
      if (timer_first) rank.on(renew);
      rank.done(step);
    }
    EXPECT_EQ(rank.stage().counts().leases_expired, 0);
    EXPECT_EQ(asked<ExportSequence>(rank.effects).size(), 1U);
  }
}

// A finished prefill, and room for a handoff, wait for their renewals behind a long step too.
TEST(RankStage, LeasesOfHandoffsOutliveAStepOfAnother) {
  RankBench rank(Role::both);
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{3}, 12, 1'000'000});
  const Timer lease = timers(rank.effects, TimerKind::lease).at(0);
  rank.now_us = 5'000'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.on(Renew{ref(2), rank_ref(0), HandoffId{3}, 1'000'000});
  rank.now_us = 5'900'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 1) << "renewed";
}

TEST(RankStage, ALeaseThatNobodyRenewsEndsHoweverLongTheStepsAre) {
  RankBench rank(Role::prefill);
  Assign assign{ref(1), rank_ref(0), work(7, 9)};
  assign.lease_us = 10'000'000;
  rank.on(assign);
  const Timer lease = timers(rank.effects, TimerKind::lease).at(0);
  rank.now_us = 60'000'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 1);
  rank.now_us = 120'000'000;
  rank.on(lease);
  EXPECT_EQ(rank.stage().sequences(), 0);
  EXPECT_EQ(sent<Ended>(rank.effects).at(0).code, ErrorCode::rank_lost);
}

/// Brings request 1 to "imported" under handoff 3.
void import_one(RankBench& rank) {
  rank.on(Reserve{ref(1), rank_ref(0), HandoffId{3}, 12, 1'000'000});
  EXPECT_EQ(sent<Reserved>(rank.effects).size(), 1U);
  rank.on(Pull{ref(1), rank_ref(0), HandoffId{3}, rank_ref(7), 7, "m"});
  const auto imports = asked<ImportSequence>(rank.effects);
  ASSERT_EQ(imports.size(), 1U);
  EXPECT_EQ(imports[0].blocks.size(), 2U) << "exactly the blocks that arrive";
  rank.on(Imported{ref(1), HandoffId{3}, ErrorCode::ok, Digest{1, 2}, "", 7, 1, 6});
  EXPECT_EQ(sent<TransferDone>(rank.effects).at(0).code, ErrorCode::ok);
}

TEST(RankStage, AdoptsWhatArrivedUnderItsHandoffAndDigest) {
  RankBench rank(Role::decode);
  import_one(rank);
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{2}, Digest{1, 2}});
  EXPECT_EQ(sent<Refused>(rank.effects).at(0).reason, ErrorCode::stale);
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{3}, Digest{1, 2}});
  EXPECT_EQ(sent<Adopted>(rank.effects).size(), 1U);
  const RunStep step = rank.step();
  EXPECT_EQ(step.entries[0].first_position, 7);
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{3}, Digest{1, 2}});
  EXPECT_EQ(sent<Adopted>(rank.effects).size(), 1U) << "a repeated Adopt is confirmed again";
  rank.done(step);
  EXPECT_EQ(sent<Tokens>(rank.effects)[0].rows[0].index, 1);
  EXPECT_EQ(rank.report().running, 1);
  EXPECT_EQ(rank.report().tokens_to_come, 4);
}

TEST(RankStage, OtherBytesThanWereSentAreNeverAdopted) {
  RankBench rank(Role::decode);
  import_one(rank);
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{3}, Digest{1, 3}});
  EXPECT_EQ(sent<Refused>(rank.effects).at(0).reason, ErrorCode::bad_digest);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, AnImportThatDoesNotFitItsReservationFails) {
  RankBench rank(Role::decode);
  rank.on(Reserve{ref(1), rank_ref(0), HandoffId{3}, 12, 1'000'000});
  rank.on(Pull{ref(1), rank_ref(0), HandoffId{3}, rank_ref(7), 13, "m"});
  EXPECT_EQ(sent<TransferDone>(rank.effects).at(0).code, ErrorCode::stale);
  rank.on(Pull{ref(1), rank_ref(0), HandoffId{3}, rank_ref(7), 7, "m"});
  rank.on(Imported{ref(1), HandoffId{3}, ErrorCode::ok, Digest{1, 2}, "", 7, 1, 60});
  EXPECT_EQ(sent<TransferDone>(rank.effects).at(0).code, ErrorCode::mismatch);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, ARefusedHandoffGoesBeforeNewPrefills) {
  RankBench rank(Role::both);
  rank.on(Assign{ref(1), rank_ref(0), work(40, 8)}); // 12 of 16 blocks
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{1}, 20, 1'000'000});
  EXPECT_EQ(sent<Refused>(rank.effects).at(0).reason, ErrorCode::no_room);
  rank.on(Assign{ref(3), rank_ref(0), work(4, 4)});
  EXPECT_EQ(sent<Refused>(rank.effects).size(), 1U) << "the room is kept for the handoff";
  rank.on(Release{ref(1), rank_ref(0), ErrorCode::cancelled});
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{2}, 20, 1'000'000});
  EXPECT_EQ(sent<Reserved>(rank.effects).size(), 1U);
  rank.on(Assign{ref(3), rank_ref(0), work(4, 4)});
  EXPECT_EQ(sent<Assigned>(rank.effects).size(), 1U);
}

TEST(RankStage, MailOfAnotherLifeChangesNothing) {
  RankBench rank(Role::both);
  const RankRef old{RankId{0}, Incarnation{9}};
  rank.on(Assign{ref(1), old, work(4, 4)}).on(Reserve{ref(1), old, HandoffId{1}, 8, 1000});
  rank.on(RunChunks{old, 1, {}}).on(Release{ref(1), old, ErrorCode::ok});
  EXPECT_EQ(rank.stage().counts().stale_dropped, 4);
  EXPECT_EQ(rank.stage().sequences(), 0);
}

TEST(RankStage, AnAssignForAnotherLifeIsForgotten) {
  RankBench rank(Role::prefill);
  rank.on(Assign{ref(1), rank_ref(0, 2), work(4, 2)});
  ASSERT_EQ(asked<Forget>(rank.effects).size(), 1U);
  EXPECT_EQ(asked<Forget>(rank.effects)[0].ref, ref(1));
  EXPECT_EQ(rank.stage().sequences(), 0);
}

// More sequences than a step takes: each gets its turn.
// step tokens at most 2      a b   c a   b c
TEST(RankStage, DecodingSequencesTakeTurns) {
  RankBench rank(Role::decode, 2);
  RunStep step;
  for (std::uint64_t r = 1; r <= 3; ++r) {
    rank.on(Reserve{ref(r), rank_ref(0), HandoffId{r}, 12, 1'000'000});
    rank.on(Pull{ref(r), rank_ref(0), HandoffId{r}, rank_ref(7), 4, "m"});
    rank.on(Imported{ref(r), HandoffId{r}, ErrorCode::ok, Digest{}, "", 4, 1, 8});
    rank.on(Adopt{ref(r), rank_ref(0), HandoffId{r}, Digest{}});
    if (r == 1) step = rank.step();
  }
  std::vector<std::uint64_t> turns;
  for (int i = 0; i < 4; ++i) {
    for (const StepEntry& entry : step.entries)
      turns.push_back(raw(entry.ref.request));
    rank.done(step);
    step = rank.step();
  }
  EXPECT_EQ(turns, (std::vector<std::uint64_t>{1, 2, 3, 1, 2, 3, 1}));
}

} // namespace
} // namespace troupe::sched::testing
