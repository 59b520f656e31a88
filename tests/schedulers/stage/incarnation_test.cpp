// Each message kind, at each stage, from an old life of a rank and from an old attempt of a
// request: nothing changes but the count of what was dropped.

#include "schedulers/stage/event.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

constexpr std::uint32_t kOld = 1;
constexpr std::uint32_t kNew = 2;

const RequestRef kCurrent = ref(1, kNew);
const RequestRef kPast = ref(1, kOld);

/// A stage and what it asked for last.
template <class Stage>
struct Bench {
  Stage stage;
  Effects effects;

  template <class E>
  Bench& on(const E& event) {
    effects.clear();
    stage.on(event, 0, effects);
    return *this;
  }
  /// Delivers `event`; the stage must drop it without a word.
  template <class E>
  void expect_dropped(const E& event, const char* what) {
    const std::int64_t before = stage.counts().stale_dropped;
    on(event);
    EXPECT_TRUE(effects.list().empty()) << what;
    EXPECT_EQ(stage.counts().stale_dropped, before + 1) << what;
  }
  template <class E>
  void expect_silence(const E& event, const char* what) {
    on(event);
    EXPECT_TRUE(effects.list().empty()) << what;
  }
};

Tokens tokens(std::uint32_t life, const RequestRef& request, std::int64_t index) {
  return {rank_ref(1, life), 9, {{request, index, 100}}};
}

RankReport report(std::uint32_t rank, std::uint32_t life) {
  RankReport made;
  made.rank = rank_ref(rank, life);
  made.seq = 1000;
  made.kv_blocks_free = made.kv_blocks_total = 16;
  made.slots_free = made.slots_total = 4;
  made.freed = {kCurrent};
  made.progress = {{kCurrent, 4, 4}};
  return made;
}

// Request 1 decodes on rank 1 in attempt 2; that rank is in its second life.
TEST(Incarnation, Driver) {
  Bench<DriverStage> driver{DriverStage({}, {}, builtins()), {}};
  driver.on(up(0, Role::prefill)).on(up(1, Role::decode, 16, 4, kOld));
  driver.on(Arrive{RequestId{1}, "", 0, work(4, 8)}).on(tokens(kOld, kPast, 0));
  driver.on(RankDown{rank_ref(1, kOld), ErrorCode::rank_lost, true});
  ASSERT_EQ(sent<Submit>(driver.effects).at(0).ref, kCurrent);
  driver.on(up(1, Role::decode, 16, 4, kNew)).on(tokens(kNew, kCurrent, 1));
  ASSERT_EQ(asked<Emit>(driver.effects).size(), 1U);

  driver.expect_dropped(tokens(kOld, kCurrent, 2), "Tokens of the old life");
  driver.expect_dropped(tokens(kNew, kPast, 2), "Tokens of the old attempt");
  driver.expect_dropped(Ended{kCurrent, ErrorCode::rank_lost, true, "", rank_ref(1, kOld)},
                        "Ended of the old life");
  driver.expect_dropped(Ended{kPast, ErrorCode::rank_lost, true, "", {}}, "Ended, old attempt");
  driver.expect_dropped(up(1, Role::decode, 16, 4, kOld), "RankUp of the old life");
  driver.expect_dropped(RankDown{rank_ref(1, kOld), ErrorCode::rank_lost, true},
                        "RankDown of the old life");
  driver.expect_silence(Load{0, 0, 0, 1, {{kPast, rank_ref(0), 3}}}, "Standing, old attempt");
  driver.on(tokens(kNew, kCurrent, 2));
  EXPECT_EQ(asked<Emit>(driver.effects).size(), 1U) << "and it goes on";
}

// Request 1, attempt 2, is on prefill rank 0, which is in its second life.
TEST(Incarnation, Chunker) {
  Bench<PrefillStage> chunker{PrefillStage({}, {}, builtins()), {}};
  chunker.on(up(0, Role::prefill, 16, 4, kOld)).on(up(0, Role::prefill, 16, 4, kNew));
  chunker.on(Submit{kCurrent, "", 0, 0, 0, 0, work(8, 4)});
  ASSERT_EQ(sent<Assign>(chunker.effects).at(0).rank, rank_ref(0, kNew));

  chunker.expect_dropped(Assigned{kCurrent, rank_ref(0, kOld)}, "Assigned of the old life");
  chunker.expect_dropped(Refused{kCurrent, rank_ref(0, kOld), {}, ErrorCode::no_room},
                         "Refused of the old life");
  chunker.expect_dropped(Refused{kPast, rank_ref(0, kNew), {}, ErrorCode::no_room},
                         "Refused, old attempt");
  chunker.on(Assigned{kPast, rank_ref(0, kNew)});
  ASSERT_EQ(sent<Release>(chunker.effects).size(), 1U) << "its room must not stay taken";
  EXPECT_EQ(chunker.effects.list().size(), 1U);
  chunker.on(Assigned{kCurrent, rank_ref(0, kNew)});
  chunker.expect_dropped(report(0, kOld), "RankReport of the old life");
  chunker.expect_dropped(up(0, Role::prefill, 16, 4, kOld), "RankUp of the old life");
  chunker.expect_dropped(RankDown{rank_ref(0, kOld), ErrorCode::rank_lost, true},
                         "RankDown of the old life");
  chunker.expect_silence(Cancel{kPast, ErrorCode::cancelled}, "Cancel, old attempt");
  EXPECT_EQ(chunker.stage.requests(), 1);
}

// Request 1, attempt 2, moves from rank 0 to rank 2; both are in their second life.
TEST(Incarnation, Balancer) {
  Bench<DecodeStage> balancer{DecodeStage({}, {}, builtins()), {}};
  for (const std::uint32_t life : {kOld, kNew})
    balancer.on(up(0, Role::prefill, 16, 4, life)).on(up(2, Role::decode, 16, 4, life));
  balancer.on(Cancel{kPast, ErrorCode::rank_lost});
  PrefillDone done;
  done.ref = kCurrent;
  done.rank = rank_ref(0, kNew);
  done.positions = 8;
  done.positions_max = 16;
  done.answered = 1;
  done.new_tokens_max = 8;
  balancer.on(done);
  const Reserve reserve = sent<Reserve>(balancer.effects).at(0);
  ASSERT_EQ(reserve.rank, rank_ref(2, kNew));
  const RankRef old = rank_ref(2, kOld);

  balancer.expect_dropped(Reserved{kCurrent, old, reserve.handoff}, "Reserved of the old life");
  balancer.expect_dropped(Reserved{kPast, reserve.rank, reserve.handoff}, "Reserved, old attempt");
  balancer.expect_dropped(Refused{kCurrent, old, reserve.handoff, ErrorCode::no_room},
                          "Refused of the old life");
  balancer.expect_dropped(Refused{kPast, reserve.rank, reserve.handoff, ErrorCode::no_room},
                          "Refused, old attempt");
  balancer.on(Reserved{kCurrent, reserve.rank, reserve.handoff});
  balancer.expect_dropped(TransferDone{kCurrent, old, reserve.handoff, ErrorCode::ok, {}, ""},
                          "TransferDone of the old life");
  balancer.expect_dropped(TransferDone{kPast, reserve.rank, reserve.handoff, ErrorCode::ok, {}, ""},
                          "TransferDone, old attempt");
  balancer.on(TransferDone{kCurrent, reserve.rank, reserve.handoff, ErrorCode::ok, {}, ""});
  balancer.expect_dropped(Adopted{kCurrent, old, reserve.handoff}, "Adopted of the old life");
  balancer.expect_dropped(Adopted{kPast, reserve.rank, reserve.handoff}, "Adopted, old attempt");
  balancer.expect_dropped(Adopted{kCurrent, reserve.rank, HandoffId{77}}, "Adopted, other handoff");
  balancer.on(Adopted{kCurrent, reserve.rank, reserve.handoff});
  ASSERT_EQ(balancer.stage.counts().decoding, 1);
  balancer.expect_dropped(report(2, kOld), "RankReport of the old life");
  balancer.expect_dropped(up(2, Role::decode, 16, 4, kOld), "RankUp of the old life");
  balancer.expect_dropped(RankDown{old, ErrorCode::rank_lost, true}, "RankDown of the old life");
  balancer.expect_silence(Cancel{kPast, ErrorCode::cancelled}, "Cancel, old attempt");
  EXPECT_EQ(balancer.stage.counts().decoding, 1);

  done.ref = kPast;
  balancer.on(done);
  EXPECT_EQ(sent<Release>(balancer.effects).size(), 1U) << "PrefillDone, cancelled attempt";
  EXPECT_EQ(balancer.effects.list().size(), 1U);
  done.ref = ref(2);
  done.rank = rank_ref(0, kOld);
  balancer.on(done);
  EXPECT_EQ(sent<Ended>(balancer.effects).at(0).code, ErrorCode::rank_lost)
      << "PrefillDone of the old life: nobody holds it";
  EXPECT_EQ(balancer.effects.list().size(), 1U);
}

// A decoding rank in its second life with a reservation of request 1, attempt 2.
TEST(Incarnation, Rank) {
  RankOptions options;
  options.rank = rank_ref(0, kNew);
  options.role = Role::both;
  options.kv_blocks = 16;
  options.block_tokens = 4;
  options.slots = 3;
  Bench<RankStage> rank{RankStage(options, {}, builtins()), {}};
  const RankRef here = options.rank;
  const RankRef old = rank_ref(0, kOld);
  rank.on(Reserve{kCurrent, here, HandoffId{5}, 8, 1'000'000});
  ASSERT_EQ(sent<Reserved>(rank.effects).size(), 1U);

  rank.on(Assign{ref(2), old, work(4, 4)});
  EXPECT_EQ(rank.effects.list().size(), 1U) << "Assign";
  EXPECT_EQ(asked<Forget>(rank.effects).at(0).ref, ref(2)) << "its work was kept for nothing";
  rank.expect_dropped(Assign{kCurrent, old, work(4, 4)}, "Assign of a request that is here");
  rank.expect_dropped(RunChunks{old, 1, {}}, "RunChunks");
  rank.expect_dropped(Reserve{ref(3), old, HandoffId{6}, 8, 1'000'000}, "Reserve");
  rank.expect_dropped(Renew{kCurrent, old, HandoffId{5}, 1'000'000}, "Renew");
  rank.expect_dropped(Pull{kCurrent, old, HandoffId{5}, rank_ref(1), 4, ""}, "Pull");
  rank.expect_dropped(Adopt{kCurrent, old, HandoffId{5}, {}}, "Adopt");
  rank.expect_dropped(Release{kCurrent, old, ErrorCode::ok}, "Release");
  rank.expect_dropped(Renew{kPast, here, HandoffId{5}, 1'000'000}, "Renew, old attempt");
  rank.expect_dropped(StepDone{7, ErrorCode::ok, 1, {}}, "StepDone of another step");
  rank.expect_dropped(Exported{kPast, ErrorCode::ok, "m"}, "Exported, old attempt");
  rank.expect_dropped(Imported{kPast, HandoffId{5}}, "Imported, old attempt");
  rank.expect_silence(Release{kPast, here, ErrorCode::ok}, "Release, old attempt");
  rank.on(Pull{kPast, here, HandoffId{5}, rank_ref(1), 4, ""});
  EXPECT_EQ(sent<TransferDone>(rank.effects).at(0).code, ErrorCode::stale);
  EXPECT_TRUE(asked<ImportSequence>(rank.effects).empty()) << "Pull, old attempt";
  rank.on(Adopt{kPast, here, HandoffId{5}, {}});
  EXPECT_EQ(sent<Refused>(rank.effects).at(0).reason, ErrorCode::stale) << "Adopt, old attempt";

  EXPECT_EQ(rank.stage.sequences(), 1);
  EXPECT_EQ(rank.stage.counts().kv_blocks_reserved, 2);
  EXPECT_TRUE(rank.stage.check().ok());
  rank.on(Pull{kCurrent, here, HandoffId{5}, rank_ref(1), 4, ""});
  EXPECT_EQ(asked<ImportSequence>(rank.effects).size(), 1U) << "and the reservation stands";
}

} // namespace
} // namespace troupe::sched::testing
