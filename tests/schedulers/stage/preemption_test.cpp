// Room that grows and runs out: who gives it up, how much comes free, and what a rank does then.
//
// Timelines show blocks of 4 positions held by each request.

#include "schedulers/stage/preemption.hpp"
#include "schedulers/stage/rank_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::sched::testing {
namespace {

constexpr Claim kExpected{Reservation::expected, 0, 0, 0};

// -- the table alone
// -------------------------------------------------------------------------------

/// A decoding sequence that fills `blocks` blocks to the last position.
Sequence& full(SequenceTable& table, std::uint64_t id, std::int64_t arrival_us, std::int64_t blocks,
               Reservation reservation = Reservation::expected) {
  Sequence& sequence = *table.add(ref(id), blocks);
  sequence.state = SequenceState::decoding;
  sequence.positions = blocks * 4;
  sequence.arrival_us = arrival_us;
  sequence.claim.reservation = reservation;
  table.grow(sequence, sequence.positions, 4);
  return sequence;
}

std::vector<std::uint64_t> ids(const std::vector<Preempted>& gone) {
  std::vector<std::uint64_t> list;
  for (const Preempted& victim : gone)
    list.push_back(raw(victim.ref.request));
  return list;
}

TEST(SequenceTable, CostsWhatIsUsedOfIt) {
  for (int i = 0; i < 1000; ++i) {
    SequenceTable table(8, 2'147'483'647);
    Sequence& one = full(table, 1, 10, 1);
    EXPECT_EQ(table.find_any(one.ref), &one);
    EXPECT_TRUE(table.check().ok());
  }
}

TEST(Preemption, NobodyIsPreemptedWhileBlocksAreFree) {
  SequenceTable table(8, 4);
  full(table, 1, 10, 3);
  full(table, 2, 20, 3);
  EXPECT_TRUE(make_room(table, 4).empty());
  EXPECT_TRUE(has_next_block(*table.find(ref(1)), 4));
  EXPECT_TRUE(has_next_block(*table.find(ref(2)), 4));
  EXPECT_EQ(table.blocks().free(), 0);
}

// blocks of 8      1 1 1 2 2 2 3 3      all ask; 3 is the latest: 1 1 1 + 2 2 2 +
TEST(Preemption, TheLatestArrivalGivesUpAllItsBlocksAndTheyServeSeveral) {
  SequenceTable table(8, 4);
  full(table, 3, 10, 3);
  full(table, 2, 20, 3);
  full(table, 1, 30, 2); // Ids say nothing: it arrived last.
  const auto gone = make_room(table, 4);
  EXPECT_EQ(ids(gone), (std::vector<std::uint64_t>{1}));
  EXPECT_EQ(gone[0].blocks, 2);
  EXPECT_FALSE(gone[0].outgrew);
  EXPECT_EQ(table.find(ref(1)), nullptr);
  EXPECT_TRUE(has_next_block(*table.find(ref(3)), 4));
  EXPECT_TRUE(has_next_block(*table.find(ref(2)), 4));
  EXPECT_TRUE(table.check().ok());
}

TEST(Preemption, TiesOfArrivalGoByReference) {
  SequenceTable table(4, 4);
  full(table, 1, 10, 2);
  full(table, 2, 10, 2);
  EXPECT_EQ(ids(make_room(table, 4)), (std::vector<std::uint64_t>{2}));
}

TEST(Preemption, TheOneThatAsksGivesWayWhenItIsTheLatest) {
  SequenceTable table(6, 4);
  Sequence& early = full(table, 1, 10, 3);
  early.positions = 9; // Its last block has room.
  full(table, 2, 20, 3);
  EXPECT_EQ(ids(make_room(table, 4)), (std::vector<std::uint64_t>{2}));
  EXPECT_EQ(table.blocks().free(), 3);
}

// Case S10: blocks of a sequence that is given up while the engine works on it come back later.
// They count as on their way; nobody else is preempted for them, step after step.
TEST(Preemption, S10DeferredFreesCountAsOnTheirWay) {
  SequenceTable table(8, 4);
  full(table, 1, 10, 3);
  full(table, 2, 20, 3);
  Sequence& doomed = *table.add(ref(3), 2);
  doomed.state = SequenceState::importing;
  doomed.engine = true;
  EXPECT_FALSE(table.drop(doomed));
  for (int step = 0; step < 5; ++step)
    EXPECT_TRUE(make_room(table, 4).empty());
  EXPECT_FALSE(has_next_block(*table.find(ref(1)), 4)) << "it sits out until they are back";
  doomed.engine = false;
  EXPECT_TRUE(table.settle(doomed));
  EXPECT_TRUE(make_room(table, 4).empty());
  EXPECT_TRUE(has_next_block(*table.find(ref(1)), 4));
  EXPECT_TRUE(has_next_block(*table.find(ref(2)), 4));
}

// One block is on its way and two ask: the second one needs a victim, and there is exactly one.
TEST(Preemption, S10OneVictimForWhatIsNotOnItsWay) {
  SequenceTable table(8, 4);
  full(table, 1, 10, 2);
  full(table, 2, 20, 2);
  full(table, 4, 40, 3).positions = 11;
  Sequence& doomed = *table.add(ref(3), 1);
  doomed.state = SequenceState::importing;
  doomed.engine = true;
  static_cast<void>(table.drop(doomed));
  EXPECT_EQ(ids(make_room(table, 4)), (std::vector<std::uint64_t>{4}));
  EXPECT_TRUE(has_next_block(*table.find(ref(2)), 4));
}

TEST(Preemption, WhoReservedTheWorstCaseOrIsShieldedKeepsItsRoom) {
  SequenceTable table(8, 4);
  full(table, 1, 10, 2);
  full(table, 2, 20, 3, Reservation::worst).positions = 11;
  full(table, 3, 30, 3, Reservation::shielded).positions = 11;
  EXPECT_EQ(ids(make_room(table, 4)), (std::vector<std::uint64_t>{1}))
      << "the only one that may be preempted gives way, though it came first";
}

TEST(Preemption, ReservedRoomOfAHandoffIsNotTaken) {
  SequenceTable table(4, 4);
  full(table, 1, 10, 2);
  Sequence& coming = *table.add(ref(2), 2);
  coming.state = SequenceState::reserved;
  coming.arrival_us = 20;
  coming.claim = kExpected;
  EXPECT_EQ(ids(make_room(table, 4)), (std::vector<std::uint64_t>{1}));
}

// Case S11: every sequence asks at once while the list of them shrinks under the walk. As many give
// way as it takes, never more, and the earliest half goes on.
TEST(Preemption, S11TheWalkPreemptsNoMoreThanItMust) {
  for (std::int64_t count = 2; count <= 40; ++count) {
    SequenceTable table(count * 2, count);
    for (std::int64_t i = 1; i <= count; ++i)
      full(table, static_cast<std::uint64_t>(i), i, 2);
    const auto gone = make_room(table, 4);
    // v victims free 2v blocks for count - v that ask.
    EXPECT_EQ(static_cast<std::int64_t>(gone.size()), (count + 2) / 3) << count;
    EXPECT_TRUE(make_room(table, 4).empty());
    EXPECT_TRUE(table.check().ok());
  }
}

// -- one rank
// --------------------------------------------------------------------------------------

class TightRank {
public:
  explicit TightRank(std::int64_t kv_blocks, Role role = Role::decode)
      : stage_(options(kv_blocks, role), {}, builtins()) {
    stage_.start(0, effects);
  }
  template <class E>
  void on(const E& event) {
    effects.clear();
    stage_.on(event, 0, effects);
    EXPECT_TRUE(stage_.check().ok());
    for (const RunStep& step : asked<RunStep>(effects))
      running_ = step;
    for (const Ended& given_back : sent<Ended>(effects))
      ended.push_back(given_back);
  }
  /// A request that arrived at `arrival_us` with `positions` in its KV and one token answered.
  void adopt(std::uint64_t id, std::int64_t arrival_us, std::int64_t positions, Claim claim) {
    on(Reserve{ref(id), rank_ref(0), HandoffId{id}, positions + 40, 1'000'000, 1, 40, arrival_us,
               claim});
    on(Pull{ref(id), rank_ref(0), HandoffId{id}, rank_ref(7), positions, "m"});
    on(Imported{ref(id), HandoffId{id}, ErrorCode::ok, Digest{}, "", positions, 1, 40});
    on(Adopt{ref(id), rank_ref(0), HandoffId{id}, Digest{}});
  }
  /// Ends the running step; false when none runs.
  bool step() {
    if (running_.entries.empty()) return false;
    StepDone done{running_.step, ErrorCode::ok, 1, {}};
    for (const StepEntry& entry : running_.entries) {
      StepRow row{entry.ref, ErrorCode::ok, entry.first_position + entry.count, entry.draw, {}};
      done.rows.push_back(row);
    }
    running_ = {};
    on(done);
    return true;
  }
  bool runs(std::uint64_t id) const {
    return std::any_of(running_.entries.begin(), running_.entries.end(),
                       [&](const StepEntry& entry) { return entry.ref == ref(id); });
  }
  const RankStage& stage() const { return stage_; }

  Effects effects;
  std::vector<Ended> ended;

private:
  static RankOptions options(std::int64_t kv_blocks, Role role) {
    RankOptions made;
    made.rank = rank_ref(0);
    made.role = role;
    made.kv_blocks = kv_blocks;
    made.block_tokens = 4;
    made.slots = 4;
    return made;
  }
  RankStage stage_;
  RunStep running_;
};

Claim expecting(std::int64_t tokens) { return {Reservation::expected, tokens, tokens, 0}; }

// Case S9: blocks of 4 tokens. The victim's blocks come free as a whole, enough for the next step,
// and the driver hears who it was and that it may go on.
TEST(PreemptionRank, S9WholeBlocksComeFreeAndAreEnoughForTheNextStep) {
  TightRank rank(4);
  rank.adopt(1, 10, 6, expecting(1)); // 2 blocks: its prompt and 2 of its tokens.
  rank.adopt(2, 20, 6, expecting(1));
  EXPECT_EQ(rank.stage().counts().kv_blocks_free, 0);
  while (rank.ended.empty())
    ASSERT_TRUE(rank.step());
  ASSERT_EQ(rank.ended.size(), 1U);
  EXPECT_EQ(rank.ended[0].ref, ref(2));
  EXPECT_EQ(rank.ended[0].code, ErrorCode::preempted);
  EXPECT_TRUE(rank.ended[0].retryable);
  EXPECT_TRUE(rank.runs(1)) << "the step that needed the room runs";
  EXPECT_EQ(asked<Forget>(rank.effects).size(), 1U);
  EXPECT_EQ(rank.stage().counts().kv_blocks_free, 1);
  EXPECT_EQ(rank.stage().counts().preempted, 1);
  const auto records = asked<Record>(rank.effects);
  EXPECT_EQ(records.at(0).kind, "preemption");
  EXPECT_EQ(records.at(0).value, 2);
}

// Case S8: the only running request outgrows the pool. It is handed back, the rank lives on.
TEST(PreemptionRank, S8TheOnlyRequestThatOutgrowsThePoolIsHandedBack) {
  TightRank rank(3);
  rank.adopt(1, 10, 7, expecting(1));
  int tokens = 0;
  while (rank.ended.empty()) {
    ASSERT_TRUE(rank.step());
    ++tokens;
  }
  EXPECT_EQ(tokens, 5) << "7 of 12 positions were held";
  EXPECT_EQ(rank.ended[0].code, ErrorCode::preempted);
  EXPECT_EQ(rank.stage().sequences(), 0);
  rank.adopt(2, 20, 3, expecting(1));
  EXPECT_TRUE(rank.step());
}

// Case S8 again, shielded: a whole rank to itself, and still not enough.
TEST(PreemptionRank, S8AShieldedRequestGetsAWholeRankAndIsHandedBackWhenThatIsNotEnough) {
  TightRank rank(3);
  Claim claim = expecting(1);
  claim.reservation = Reservation::shielded;
  rank.adopt(1, 10, 7, claim);
  EXPECT_EQ(rank.stage().counts().kv_blocks_free, 0);
  while (rank.ended.empty())
    ASSERT_TRUE(rank.step());
  EXPECT_EQ(rank.ended[0].code, ErrorCode::preempted);
}

TEST(PreemptionRank, AReservationOfTheExpectationIsSmallerThanTheWorstCase) {
  TightRank rank(16);
  rank.adopt(1, 10, 7, expecting(5));
  EXPECT_EQ(rank.stage().counts().kv_blocks_reserved, 3) << "7 - 1 + 5 + 1 positions";
  TightRank worst(16);
  worst.adopt(1, 10, 7, {});
  EXPECT_EQ(worst.stage().counts().kv_blocks_reserved, 12) << "47 positions";
}

// Role both: a prefill that came later gives its room to an earlier request that decodes; the next
// pull says what came free.
TEST(PreemptionRank, APrefillThatCameLaterGivesWayToADecode) {
  TightRank rank(4, Role::both);
  Work work_1 = work(7, 40);
  work_1.answered = {};
  rank.on(Assign{ref(1), rank_ref(0), work_1, 10, expecting(1)});
  rank.on(RunChunks{rank_ref(0), 1, {{ref(1), 0, 7, true}}});
  rank.step();
  rank.on(Adopt{ref(1), rank_ref(0), HandoffId{1}, {}});
  rank.on(Assign{ref(2), rank_ref(0), work(7, 40), 20, expecting(1)});
  EXPECT_EQ(rank.stage().counts().kv_blocks_free, 0);
  std::uint64_t step = 2;
  while (rank.ended.empty()) {
    rank.on(RunChunks{rank_ref(0), step++, {}});
    ASSERT_TRUE(!rank.ended.empty() || rank.step());
  }
  EXPECT_EQ(rank.ended[0].ref, ref(2));
  EXPECT_TRUE(rank.runs(1));
  rank.step();
  const auto freed = sent<RankReport>(rank.effects).back().freed;
  EXPECT_EQ(std::count(freed.begin(), freed.end(), ref(2)), 1);
}

// All that decode wait for blocks on their way: no step, no message storm, and on they go.
TEST(PreemptionRank, WaitsForBlocksOnTheirWayAndGoesOn) {
  TightRank rank(5);
  rank.adopt(1, 10, 10, expecting(1)); // 3 blocks.
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{2}, 44, 1'000'000, 1, 40, 20, expecting(1)});
  rank.on(Pull{ref(2), rank_ref(0), HandoffId{2}, rank_ref(7), 4, "m"});
  rank.on(Release{ref(2), rank_ref(0), ErrorCode::cancelled}); // The engine still reads it.
  ASSERT_TRUE(rank.step());
  ASSERT_TRUE(rank.step()); // 12 positions fit; the next one needs a block.
  EXPECT_TRUE(rank.ended.empty());
  EXPECT_FALSE(rank.runs(1)) << "it sits out";
  rank.on(Imported{ref(2), HandoffId{2}, ErrorCode::ok, Digest{}, "", 4, 1, 40});
  EXPECT_TRUE(rank.runs(1));
  EXPECT_TRUE(rank.ended.empty());
}

// A Release that got lost must not hold room for ever: a prefill is under a lease of the chunker.
TEST(RankLeases, APrefillThatNobodyRenewsIsGivenUp) {
  RankOptions options;
  options.rank = rank_ref(0);
  options.role = Role::prefill;
  options.kv_blocks = 16;
  options.block_tokens = 4;
  RankStage rank(options, {}, builtins());
  Effects effects;
  Assign assign{ref(1), rank_ref(0), work(7, 4)};
  assign.lease_us = 1000;
  rank.on(assign, 0, effects);
  const Timer lease = timers(effects, TimerKind::lease).at(0);
  effects.clear();
  rank.on(Renew{ref(1), rank_ref(0), HandoffId{}, 1000}, 900, effects);
  rank.on(lease, 1000, effects);
  EXPECT_EQ(rank.sequences(), 1);
  EXPECT_EQ(timers(effects, TimerKind::lease).size(), 1U);
  effects.clear();
  rank.on(lease, 1900, effects);
  EXPECT_EQ(rank.sequences(), 0);
  EXPECT_EQ(rank.counts().leases_expired, 1);
  EXPECT_EQ(sent<Ended>(effects).at(0).code, ErrorCode::rank_lost);
}

// A report may get lost: what came free is said once more, without anybody asking.
TEST(RankReports, WhatCameFreeIsSaidTwice) {
  RankOptions options;
  options.rank = rank_ref(0);
  options.role = Role::decode;
  options.kv_blocks = 16;
  options.block_tokens = 4;
  RankStage rank(options, {}, builtins());
  Effects effects;
  rank.on(Reserve{ref(1), rank_ref(0), HandoffId{1}, 12, 1'000'000}, 0, effects);
  effects.clear();
  rank.on(Release{ref(1), rank_ref(0), ErrorCode::ok}, 10, effects);
  EXPECT_EQ(sent<RankReport>(effects).at(0).freed, (std::vector<RequestRef>{ref(1)}));
  const Timer again = timers(effects, TimerKind::pull_again).at(0);
  effects.clear();
  rank.on(again, 1'000'010, effects);
  EXPECT_EQ(sent<RankReport>(effects).at(0).freed, (std::vector<RequestRef>{ref(1)}));
  EXPECT_TRUE(timers(effects, TimerKind::pull_again).empty()) << "twice is enough";
  effects.clear();
  rank.on(again, 2'000'010, effects);
  EXPECT_TRUE(effects.list().empty());
  // What is here again is not said to be gone.
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{2}, 12, 1'000'000}, 0, effects);
  rank.on(Release{ref(2), rank_ref(0), ErrorCode::ok}, 10, effects);
  rank.on(Reserve{ref(2), rank_ref(0), HandoffId{3}, 12, 1'000'000}, 0, effects);
  effects.clear();
  rank.on(again, 2'000'020, effects);
  EXPECT_TRUE(sent<RankReport>(effects).at(0).freed.empty());
}

} // namespace
} // namespace troupe::sched::testing
