// Placement and handoff of finished prefills by hand-written event sequences.

#include "schedulers/stage/decode_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

PrefillDone finished(std::uint64_t id, std::uint32_t rank, bool in_place = false) {
  PrefillDone done;
  done.ref = ref(id);
  done.rank = rank_ref(rank);
  done.positions = 8;
  done.positions_max = 16;
  done.answered = 1;
  done.new_tokens_max = 8;
  done.lease_us = 9'000'000;
  done.in_place = in_place;
  done.manifest = in_place ? "" : "manifest";
  return done;
}

/// Rank 0 prefills, ranks 2 and 3 decode.
class BalancerBench {
public:
  explicit BalancerBench(const PolicySet& set = {}, DecodeOptions options = {})
      : stage_(options, set, builtins()) {
    on(up(0, Role::prefill)).on(up(2, Role::decode)).on(up(3, Role::decode));
  }
  template <class E>
  BalancerBench& on(const E& event) {
    effects.clear();
    stage_.on(event, now_us, effects);
    return *this;
  }
  Reserve reserve() const {
    const auto all = sent<Reserve>(effects);
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Reserve{} : all[0];
  }
  /// Answers a Reserve up to Adopted.
  BalancerBench& adopt(const Reserve& r) {
    on(Reserved{r.ref, r.rank, r.handoff});
    EXPECT_EQ(sent<Pull>(effects).size(), 1U);
    on(TransferDone{r.ref, r.rank, r.handoff, ErrorCode::ok, Digest{1, 2}, ""});
    EXPECT_EQ(sent<Adopt>(effects).size(), 1U);
    return on(Adopted{r.ref, r.rank, r.handoff});
  }
  BalancerBench& report(std::uint32_t rank, std::int64_t blocks_free, std::int64_t slots_free,
                        std::vector<RequestRef> freed = {}) {
    RankReport made;
    made.rank = rank_ref(rank);
    made.role = Role::decode;
    made.seq = ++seq_;
    made.kv_blocks_free = blocks_free;
    made.kv_blocks_total = 16;
    made.slots_free = slots_free;
    made.slots_reserved = 4 - slots_free;
    made.slots_total = 4;
    made.freed = std::move(freed);
    return on(made);
  }
  const DecodeCounts& counts() const { return stage_.counts(); }

  Effects effects;
  std::int64_t now_us = 0;

private:
  DecodeStage stage_;
  std::uint64_t seq_ = 0;
};

TEST(DecodeStage, ReservesPullsAdoptsAndReleasesTheSource) {
  BalancerBench balancer;
  balancer.on(finished(1, 0));
  const Reserve reserve = balancer.reserve();
  EXPECT_EQ(raw(reserve.rank.rank), 2U);
  EXPECT_EQ(reserve.positions_max, 16);
  balancer.on(Reserved{ref(1), reserve.rank, reserve.handoff});
  const auto pulls = sent<Pull>(balancer.effects);
  ASSERT_EQ(pulls.size(), 1U);
  EXPECT_EQ(pulls[0].source, rank_ref(0));
  EXPECT_EQ(pulls[0].positions, 8);
  EXPECT_EQ(pulls[0].manifest, "manifest");
  balancer.on(TransferDone{ref(1), reserve.rank, reserve.handoff, ErrorCode::ok, Digest{3, 4}, ""});
  EXPECT_EQ(sent<Adopt>(balancer.effects).at(0).digest, (Digest{3, 4}));
  EXPECT_TRUE(sent<Release>(balancer.effects).empty()) << "the source keeps it until adopted";
  balancer.on(Adopted{ref(1), reserve.rank, reserve.handoff});
  const auto released = sent<Release>(balancer.effects);
  ASSERT_EQ(released.size(), 1U);
  EXPECT_EQ(released[0].rank, rank_ref(0));
  EXPECT_EQ(balancer.counts().decoding, 1);
  balancer.report(2, 16, 4, {ref(1)});
  EXPECT_EQ(balancer.counts().decoding, 0);
}

TEST(DecodeStage, OwnReservationsAndRunningHandoffsCount) {
  BalancerBench balancer;
  std::vector<std::uint32_t> ranks;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    ranks.push_back(raw(balancer.on(finished(id, 0)).reserve().rank.rank));
  }
  EXPECT_EQ(ranks, (std::vector<std::uint32_t>{2, 3, 2, 3}));
}

TEST(DecodeStage, WithoutRoomItWaitsAndWaitingIsNoTry) {
  BalancerBench balancer;
  balancer.report(2, 3, 4).report(3, 16, 0).on(finished(1, 0));
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  EXPECT_EQ(balancer.counts().waiting, 1);
  EXPECT_EQ(asked<Record>(balancer.effects).back().reason, Reason::no_room);
  for (int i = 0; i < 10; ++i)
    balancer.report(2, 3, 4);
  EXPECT_TRUE(asked<Record>(balancer.effects).empty()) << "said once";
  balancer.report(2, 4, 4);
  EXPECT_EQ(raw(balancer.reserve().rank.rank), 2U);
  EXPECT_EQ(balancer.counts().retried, 0);
}

TEST(DecodeStage, ARefusedReservationWaitsForTheNextReport) {
  BalancerBench balancer;
  balancer.report(3, 0, 0).on(finished(1, 0));
  const Reserve reserve = balancer.reserve();
  balancer.on(Refused{ref(1), reserve.rank, reserve.handoff, ErrorCode::no_room});
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  EXPECT_EQ(timers(balancer.effects, TimerKind::retry).size(), 1U);
  const Timer retry = timers(balancer.effects, TimerKind::retry).at(0);
  balancer.report(2, 4, 1);
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty()) << "a pause, so that nothing spins";
  balancer.now_us = 10'000;
  balancer.on(retry);
  EXPECT_NE(balancer.reserve().handoff, reserve.handoff);
}

TEST(DecodeStage, AFailedTransferGoesToAnotherRankAndEndsAfterItsTries) {
  BalancerBench balancer;
  balancer.on(finished(1, 0));
  std::vector<std::uint32_t> ranks;
  for (int i = 0; i < 3; ++i) {
    const Reserve r = balancer.reserve();
    ranks.push_back(raw(r.rank.rank));
    balancer.on(Reserved{r.ref, r.rank, r.handoff});
    balancer.on(TransferDone{r.ref, r.rank, r.handoff, ErrorCode::bad_digest, {}, "damaged"});
    EXPECT_EQ(sent<Release>(balancer.effects).at(0).rank, r.rank);
  }
  EXPECT_EQ(ranks, (std::vector<std::uint32_t>{2, 3, 2}));
  const auto ended = sent<Ended>(balancer.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].code, ErrorCode::bad_digest);
  EXPECT_TRUE(ended[0].retryable);
  EXPECT_EQ(sent<Release>(balancer.effects).back().rank, rank_ref(0));
  EXPECT_EQ(balancer.counts().waiting + balancer.counts().handing_off, 0);
}

TEST(DecodeStage, ASilentTargetFailsAndItsLateAnswersChangeNothing) {
  BalancerBench balancer;
  balancer.on(finished(1, 0));
  const Timer timer = timers(balancer.effects, TimerKind::handoff).at(0);
  const Reserve first = balancer.reserve();
  balancer.now_us = 29'000'000;
  balancer.on(Reserved{first.ref, first.rank, first.handoff});
  balancer.now_us = 30'000'000;
  balancer.on(timer);
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty()) << "it answered a second ago";
  balancer.now_us = 59'000'000;
  balancer.on(timer);
  const Reserve second = balancer.reserve();
  EXPECT_EQ(raw(second.rank.rank), 3U);
  EXPECT_EQ(sent<Release>(balancer.effects).at(0).rank, first.rank);
  balancer.on(TransferDone{first.ref, first.rank, first.handoff, ErrorCode::ok, {}, ""});
  balancer.on(Adopted{first.ref, first.rank, first.handoff});
  EXPECT_EQ(balancer.counts().stale_dropped, 2);
  EXPECT_EQ(balancer.counts().handing_off, 1);
  balancer.adopt(second);
  EXPECT_EQ(balancer.counts().decoding, 1);
}

// A rank that holds sequences and has not reported since it was asked is in a step.
TEST(DecodeStage, SilenceInAStepIsNoTry) {
  BalancerBench balancer;
  balancer.on(RankDown{rank_ref(3), ErrorCode::rank_lost, false});
  balancer.report(2, 12, 3).on(finished(1, 0));
  for (int i = 0; i < 10; ++i) { // attempts_max is 3.
    const Timer timer = timers(balancer.effects, TimerKind::handoff).at(0);
    const Reserve asked = balancer.reserve();
    balancer.now_us += 1'000'000;
    balancer.report(2, 12, 3); // It left before the Reserve arrived.
    balancer.now_us += 29'000'000;
    balancer.on(timer);
    ASSERT_TRUE(sent<Ended>(balancer.effects).empty()) << i;
    EXPECT_EQ(sent<Release>(balancer.effects).at(0).rank, asked.rank);
  }
  // Between two steps it reads its mail: from here on its silence counts.
  for (int i = 0; i < 3; ++i) {
    const Timer timer = timers(balancer.effects, TimerKind::handoff).at(0);
    balancer.now_us += 4'000'000;
    balancer.report(2, 12, 3);
    balancer.now_us += 26'000'000;
    balancer.on(timer);
  }
  ASSERT_EQ(sent<Ended>(balancer.effects).size(), 1U);
  EXPECT_EQ(sent<Ended>(balancer.effects)[0].code, ErrorCode::transfer_failed);
}

TEST(DecodeStage, InPlaceWaitsForTheEndOfTheStep) {
  BalancerBench balancer;
  balancer.on(up(5, Role::both)).report(5, 12, 3).on(finished(1, 5, true));
  const Adopt adopt = sent<Adopt>(balancer.effects).at(0);
  for (int i = 0; i < 10; ++i) {
    const Timer timer = timers(balancer.effects, TimerKind::handoff).at(0);
    balancer.now_us += 30'000'000;
    balancer.on(timer);
    EXPECT_TRUE(sent<Ended>(balancer.effects).empty());
    EXPECT_EQ(sent<Adopt>(balancer.effects).at(0).handoff, adopt.handoff) << "the same try";
  }
  balancer.on(Adopted{ref(1), rank_ref(5), adopt.handoff});
  EXPECT_EQ(balancer.counts().decoding, 1);
  EXPECT_EQ(balancer.counts().retried, 0);
}

TEST(DecodeStage, InPlaceChangesTheOwnerWithoutACopy) {
  BalancerBench balancer;
  balancer.on(up(5, Role::both)).on(finished(1, 5, true));
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  const auto adopts = sent<Adopt>(balancer.effects);
  ASSERT_EQ(adopts.size(), 1U);
  EXPECT_EQ(adopts[0].rank, rank_ref(5));
  EXPECT_EQ(asked<Record>(balancer.effects).at(0).reason, Reason::in_place);
  balancer.on(Adopted{ref(1), rank_ref(5), adopts[0].handoff});
  EXPECT_TRUE(sent<Release>(balancer.effects).empty());
  EXPECT_EQ(balancer.counts().in_place, 1);
  EXPECT_EQ(balancer.counts().transfers, 0);
}

TEST(DecodeStage, CancelReleasesWhoeverHoldsIt) {
  BalancerBench waiting;
  waiting.report(2, 0, 0).report(3, 0, 0).on(finished(1, 0));
  waiting.on(Cancel{ref(1), ErrorCode::cancelled});
  EXPECT_EQ(sent<Release>(waiting.effects).size(), 1U);
  BalancerBench moving;
  moving.on(finished(1, 0)).on(Cancel{ref(1), ErrorCode::cancelled});
  EXPECT_EQ(sent<Release>(moving.effects).size(), 2U) << "source and target";
  BalancerBench decoding;
  decoding.on(finished(1, 0));
  decoding.adopt(decoding.reserve()).on(Cancel{ref(1), ErrorCode::cancelled});
  ASSERT_EQ(sent<Release>(decoding.effects).size(), 1U);
  EXPECT_EQ(sent<Release>(decoding.effects)[0].rank, rank_ref(2));
  EXPECT_EQ(decoding.counts().decoding, 0);
}

TEST(DecodeStage, ACancelBeforeThePrefillIsDoneIsRemembered) {
  DecodeOptions options;
  options.cancelled_max = 2;
  BalancerBench balancer({}, options);
  balancer.on(Cancel{ref(1), ErrorCode::cancelled}).on(finished(1, 0));
  EXPECT_EQ(sent<Release>(balancer.effects).size(), 1U);
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  balancer.on(finished(1, 0));
  EXPECT_EQ(sent<Reserve>(balancer.effects).size(), 1U) << "once only";
  // Remembering is bounded: the oldest is forgotten.
  for (std::uint64_t id = 10; id < 13; ++id)
    balancer.on(Cancel{ref(id), ErrorCode::cancelled});
  EXPECT_EQ(sent<Reserve>(balancer.on(finished(10, 0)).effects).size(), 1U);
  EXPECT_TRUE(sent<Reserve>(balancer.on(finished(12, 0)).effects).empty());
}

TEST(DecodeStage, LeasesAreRenewedAtSourceAndTargetUntilAdopted) {
  BalancerBench balancer;
  balancer.on(finished(1, 0));
  const Timer renew = timers(balancer.effects, TimerKind::renew).at(0);
  const Reserve reserve = balancer.reserve();
  balancer.on(renew);
  EXPECT_EQ(sent<Renew>(balancer.effects).size(), 1U) << "nothing is reserved yet";
  balancer.on(Reserved{reserve.ref, reserve.rank, reserve.handoff}).on(renew);
  const auto both = sent<Renew>(balancer.effects);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[1].rank, reserve.rank);
  EXPECT_EQ(both[1].handoff, reserve.handoff);
  EXPECT_EQ(timers(balancer.effects, TimerKind::renew).size(), 1U);
  balancer.on(TransferDone{reserve.ref, reserve.rank, reserve.handoff, ErrorCode::ok, {}, ""});
  balancer.on(Adopted{reserve.ref, reserve.rank, reserve.handoff}).on(renew);
  EXPECT_TRUE(balancer.effects.list().empty());
}

TEST(DecodeStage, ADeadRankGivesBackWhatItHeldAndSendsTheRestElsewhere) {
  BalancerBench balancer;
  balancer.on(finished(1, 0));
  balancer.adopt(balancer.reserve()).on(finished(2, 0)); // 1 decodes on 2, 2 moves to 3
  balancer.on(finished(3, 0));                           // 3 moves to 2
  balancer.on(RankDown{rank_ref(2), ErrorCode::rank_lost});
  const auto ended = sent<Ended>(balancer.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].ref, ref(1));
  EXPECT_TRUE(ended[0].retryable);
  EXPECT_EQ(balancer.reserve().ref, ref(3));
  EXPECT_EQ(raw(balancer.reserve().rank.rank), 3U);
  balancer.on(RankDown{rank_ref(0), ErrorCode::rank_lost});
  EXPECT_EQ(sent<Ended>(balancer.effects).size(), 2U) << "the source of both is gone";
  EXPECT_EQ(sent<Release>(balancer.effects).size(), 2U) << "their targets must not keep room";
  balancer.on(finished(4, 0));
  EXPECT_EQ(sent<Ended>(balancer.effects).at(0).code, ErrorCode::rank_lost)
      << "a last word of the dead rank";
}

TEST(DecodeStage, WhatFitsOnlyARankThatComesBackWaitsForIt) {
  BalancerBench balancer;
  balancer.on(up(4, Role::decode, 64));
  PrefillDone done = finished(1, 0);
  done.positions_max = 100;
  done.new_tokens_max = 92;
  balancer.on(RankDown{rank_ref(4), ErrorCode::rank_lost, true}).on(done);
  EXPECT_TRUE(sent<Ended>(balancer.effects).empty());
  EXPECT_EQ(balancer.counts().waiting, 1);
  balancer.on(finished(2, 0));
  EXPECT_EQ(balancer.reserve().ref, ref(2)) << "the others are served";
  balancer.on(up(4, Role::decode, 64, 4, 2));
  EXPECT_EQ(balancer.reserve().rank, rank_ref(4, 2));
  balancer.on(RankDown{rank_ref(4, 2), ErrorCode::rank_lost, false});
  EXPECT_EQ(sent<Ended>(balancer.effects).at(0).code, ErrorCode::never_fits);
}

TEST(DecodeStage, WhatNoDecodeRankCouldEverHoldEnds) {
  BalancerBench balancer;
  PrefillDone done = finished(1, 0);
  done.positions_max = 100;
  done.new_tokens_max = 92;
  balancer.on(done);
  const auto ended = sent<Ended>(balancer.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].code, ErrorCode::never_fits);
  EXPECT_FALSE(ended[0].retryable);
  EXPECT_EQ(sent<Release>(balancer.effects).size(), 1U);
}

TEST(DecodeStage, PacedTransfersTakeTurns) {
  PolicySet set;
  set.kinds["handoff"].policy = "paced";
  BalancerBench balancer(set);
  balancer.on(finished(1, 0));
  const Reserve first = balancer.reserve();
  balancer.on(finished(2, 0));
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  EXPECT_EQ(balancer.counts().waiting, 1);
  balancer.adopt(first);
  EXPECT_EQ(balancer.reserve().ref, ref(2));
}

TEST(DecodeStage, TheQueueIsBoundedAndRepeatsChangeNothing) {
  DecodeOptions options;
  options.waiting_max = 1;
  BalancerBench balancer({}, options);
  balancer.report(2, 0, 0).report(3, 0, 0).on(finished(1, 0)).on(finished(1, 0));
  EXPECT_EQ(balancer.counts().stale_dropped, 1);
  balancer.on(finished(2, 0));
  EXPECT_TRUE(sent<Ended>(balancer.effects).at(0).retryable);
  EXPECT_EQ(sent<Release>(balancer.effects).size(), 1U);
}

// Case S6 at the second queue: who arrived first is placed first, whenever its prefill was done.
TEST(DecodeStage, S6WaitingPrefillsGoByTheArrivalOfTheRequest) {
  BalancerBench balancer;
  balancer.report(2, 0, 0).report(3, 0, 0);
  for (const std::uint64_t id : {1, 2, 3}) {
    PrefillDone done = finished(id, 0);
    done.arrival_us = 100 - static_cast<std::int64_t>(id);
    balancer.on(done);
    EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  }
  balancer.report(2, 16, 4);
  std::vector<std::uint64_t> order;
  for (const Reserve& reserve : sent<Reserve>(balancer.effects))
    order.push_back(raw(reserve.ref.request));
  EXPECT_EQ(order, (std::vector<std::uint64_t>{3, 2, 1}));
}

TEST(DecodeStage, ReservesTheExpectationWithTheClaim) {
  BalancerBench balancer;
  balancer.report(2, 3, 4).report(3, 0, 4); // 3 blocks: not the worst case of 16 positions.
  PrefillDone done = finished(1, 0);
  balancer.on(done);
  EXPECT_TRUE(sent<Reserve>(balancer.effects).empty());
  done.ref = ref(2);
  done.arrival_us = -1; // Before the other one.
  done.claim = {Reservation::expected, 2, 3, 1};
  balancer.on(done);
  const Reserve reserve = balancer.reserve();
  EXPECT_EQ(reserve.claim, done.claim);
  EXPECT_EQ(reserve.answered, 1);
  EXPECT_EQ(reserve.new_tokens_max, 8);
}

} // namespace
} // namespace troupe::sched::testing
