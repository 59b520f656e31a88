// Lives of ranks by hand-written events: who is replaced, who is stuck, when a role is gone.

#include "schedulers/stage/supervisor_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

/// Two prefill ranks, 0 and 1, and decode rank 2; 1000 bytes each.
class SupervisorBench {
public:
  explicit SupervisorBench(std::int64_t restarts_max = 3)
      : stage_({{{RankId{0}, Role::prefill, "prefill-0", 1000},
                 {RankId{1}, Role::prefill, "prefill-1", 1000},
                 {RankId{2}, Role::decode, "decode-0", 1000}},
                restarts_max,
                kSecond,
                5 * kSecond}) {}

  template <class E>
  SupervisorBench& on(const E& event) {
    effects.clear();
    stage_.on(event, 0, effects);
    return *this;
  }
  SupervisorBench& ended(std::uint32_t rank, std::uint32_t life, const char* why = "it threw") {
    return on(RankEnded{rank_ref(rank, life), why});
  }
  SupervisorBench& started(std::uint32_t rank, std::uint32_t life) {
    return on(RankStarted{rank_ref(rank, life), ErrorCode::ok, ""});
  }
  SupervisorBench& beat(std::uint64_t begun, bool works, std::int64_t memory = 1 << 20,
                        std::uint32_t life = 1) {
    return on(Heartbeat{{{rank_ref(0, life), begun, works}}, memory});
  }
  std::vector<RankRef> starts() const {
    std::vector<RankRef> out;
    for (const StartRank& start : asked<StartRank>(effects))
      out.push_back(start.rank);
    return out;
  }
  const SupervisorCounts& counts() const { return stage_.counts(); }

  Effects effects;

private:
  SupervisorStage stage_;
};

// The actor answers while the lane of its engine hangs: events of the one are no life of the other.
TEST(SupervisorStage, ALaneThatHangsIsStuckHoweverLivelyItsActorIs) {
  SupervisorBench supervisor;
  const auto beat = [&](std::uint64_t actor, std::uint64_t lane) {
    supervisor.on(Heartbeat{{{rank_ref(0), actor, false, lane, true}}, 1 << 20});
    return supervisor.counts().abandoned;
  };
  for (std::uint64_t n = 1; n <= 20; ++n)
    ASSERT_EQ(beat(n, n), 0) << "every beat another step";
  for (std::uint64_t n = 21; n <= 24; ++n)
    ASSERT_EQ(beat(n, 20), 0);
  EXPECT_EQ(beat(25, 20), 1);
  EXPECT_EQ(supervisor.starts().size(), 1U);
}

TEST(SupervisorStage, ALostRankIsToldToAllThenStartedAgain) {
  SupervisorBench supervisor;
  supervisor.ended(0, 1);
  ASSERT_EQ(supervisor.effects.list().size(), 5U);
  const auto downs = sent<RankDown>(supervisor.effects);
  ASSERT_EQ(downs.size(), 4U) << "driver, chunker, balancer, policy manager";
  for (const RankDown& down : downs) {
    EXPECT_EQ(down.rank, rank_ref(0, 1));
    EXPECT_TRUE(down.comes_back);
  }
  EXPECT_TRUE(std::holds_alternative<StartRank>(supervisor.effects.list().back()))
      << "the stages hear of the end before the next life can speak";
  EXPECT_EQ(supervisor.starts(), (std::vector<RankRef>{rank_ref(0, 2)}));
  supervisor.started(0, 2);
  EXPECT_TRUE(supervisor.effects.list().empty());
}

TEST(SupervisorStage, WhatIsSaidOfAnOldLifeChangesNothing) {
  SupervisorBench supervisor;
  supervisor.ended(0, 1).started(0, 2);
  supervisor.ended(0, 1);
  EXPECT_TRUE(supervisor.effects.list().empty());
  supervisor.on(RankStarted{rank_ref(0, 1), ErrorCode::io_error, "late"});
  EXPECT_TRUE(supervisor.effects.list().empty());
  for (int i = 0; i < 10; ++i)
    supervisor.beat(7, true);
  EXPECT_TRUE(supervisor.effects.list().empty());
  EXPECT_EQ(supervisor.counts().stale_dropped, 2);
  EXPECT_EQ(supervisor.counts().lost, 1);
}

TEST(SupervisorStage, TheRestartsOfEachRankAreCounted) {
  SupervisorBench supervisor(2);
  supervisor.ended(0, 1).started(0, 2).ended(0, 2).started(0, 3);
  supervisor.ended(0, 3, "it threw a third time");
  EXPECT_TRUE(supervisor.starts().empty());
  ASSERT_EQ(sent<RankDown>(supervisor.effects).size(), 4U);
  EXPECT_FALSE(sent<RankDown>(supervisor.effects)[0].comes_back);
  EXPECT_TRUE(sent<NoRankLeft>(supervisor.effects).empty()) << "prefill-1 is left";
  EXPECT_EQ(supervisor.ended(1, 1).starts(), (std::vector<RankRef>{rank_ref(1, 2)}))
      << "restarts are a rank's own";
  EXPECT_EQ(supervisor.counts().gone, 1);
}

TEST(SupervisorStage, ARoleWithoutRankIsToldOnceWithTheReasons) {
  SupervisorBench supervisor(0);
  supervisor.ended(0, 1, "disk on fire");
  EXPECT_TRUE(sent<NoRankLeft>(supervisor.effects).empty());
  supervisor.ended(1, 1, "out of paper");
  const auto told = sent<NoRankLeft>(supervisor.effects);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].role, Role::prefill);
  for (const char* words : {"no prefill rank is left", "prefill-0", "disk on fire", "out of paper"})
    EXPECT_NE(told[0].detail.find(words), std::string::npos) << told[0].detail;
  supervisor.ended(2, 1);
  const auto again = sent<NoRankLeft>(supervisor.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].role, Role::decode);
}

TEST(SupervisorStage, AFailedStartWaitsForTheHeartbeatAndUsesARestart) {
  SupervisorBench supervisor(2);
  supervisor.ended(0, 1).on(RankStarted{rank_ref(0, 2), ErrorCode::no_room, "no memory"});
  EXPECT_TRUE(supervisor.starts().empty());
  EXPECT_TRUE(sent<RankDown>(supervisor.effects).at(0).comes_back);
  EXPECT_EQ(supervisor.beat(0, false).starts(), (std::vector<RankRef>{rank_ref(0, 3)}));
  EXPECT_TRUE(supervisor.beat(0, false).starts().empty()) << "one try at a time";
  supervisor.on(RankStarted{rank_ref(0, 3), ErrorCode::no_room, "no memory"});
  EXPECT_FALSE(sent<RankDown>(supervisor.effects).at(0).comes_back);
}

// begun   1 1 1 1 2 2 2 2 2 2     works throughout; five silent seconds are too many
// silent  0 1 2 3 0 1 2 3 4 5
TEST(SupervisorStage, OnlyOneLongPieceOfWorkIsStuck) {
  SupervisorBench supervisor;
  for (const std::uint64_t begun : {1, 1, 1, 1, 2, 2, 2, 2, 2}) {
    supervisor.beat(begun, true);
    ASSERT_TRUE(supervisor.effects.list().empty());
  }
  supervisor.beat(2, true);
  EXPECT_EQ(asked<AbandonRank>(supervisor.effects).at(0).rank, rank_ref(0, 1));
  EXPECT_EQ(supervisor.starts(), (std::vector<RankRef>{rank_ref(0, 2)}));
  EXPECT_EQ(sent<RankDown>(supervisor.effects).size(), 4U);
}

TEST(SupervisorStage, AnIdleRankIsNeverStuck) {
  SupervisorBench supervisor;
  for (int i = 0; i < 100; ++i)
    supervisor.beat(3, false);
  EXPECT_EQ(supervisor.counts().lost, 0);
}

TEST(SupervisorStage, WithoutMemoryForASecondLifeAStuckRankIsGone) {
  SupervisorBench supervisor;
  for (int i = 0; i < 6; ++i)
    supervisor.beat(1, true, 999);
  EXPECT_EQ(asked<AbandonRank>(supervisor.effects).size(), 1U);
  EXPECT_TRUE(supervisor.starts().empty());
  EXPECT_FALSE(sent<RankDown>(supervisor.effects).at(0).comes_back);
  EXPECT_NE(asked<AbandonRank>(supervisor.effects)[0].detail.find("999 bytes"), std::string::npos);
}

} // namespace
} // namespace troupe::sched::testing
