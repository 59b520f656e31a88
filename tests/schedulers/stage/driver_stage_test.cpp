// Requests from arrival to their one ending: admission, attempts, token log, deadlines, watchdog.

#include "schedulers/stage/driver_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

namespace troupe::sched::testing {
namespace {

constexpr std::int64_t kSecond = 1'000'000;

class DriverBench {
public:
  explicit DriverBench(DriverOptions options = {}, const PolicySet& set = {})
      : stage_(options, set, builtins()) {
    on(up(0, Role::prefill)).on(up(1, Role::decode)).on(up(2, Role::both));
  }
  template <class E>
  DriverBench& on(const E& event) {
    effects.clear();
    stage_.on(event, now_us, effects);
    const DriverCounts& c = stage_.counts();
    EXPECT_EQ(c.accepted, c.live + c.finished + c.failed + c.cancelled);
    return *this;
  }
  DriverBench& arrive(std::uint64_t id, std::int64_t prompt = 4, std::int64_t new_tokens = 3) {
    return on(Arrive{RequestId{id}, "", 0, work(prompt, new_tokens)});
  }
  DriverBench& token(std::uint64_t id, std::int64_t index, std::uint32_t rank = 1,
                     EndReason end = EndReason::none, std::uint32_t attempt = 1) {
    TokenRow row{ref(id, attempt), index, static_cast<std::int32_t>(100 + index)};
    row.end = end;
    return on(Tokens{rank_ref(rank), 1, {row}});
  }
  DriverBench& watch() { return on(Timer{TimerKind::watch, 0}); }
  std::vector<std::int32_t> emitted() const {
    std::vector<std::int32_t> tokens;
    for (const Emit& emit : asked<Emit>(effects)) {
      for (const TokenRow& row : emit.rows)
        tokens.push_back(row.token);
    }
    return tokens;
  }
  std::optional<Finish> finish() const {
    const auto all = asked<Finish>(effects);
    EXPECT_LE(all.size(), 1U);
    return all.empty() ? std::nullopt : std::make_optional(all[0]);
  }
  const DriverCounts& counts() const { return stage_.counts(); }

  Effects effects;
  std::int64_t now_us = 0;

private:
  DriverStage stage_;
};

TEST(DriverStage, SubmitsEmitsInOrderAndFinishesOnce) {
  DriverBench driver;
  driver.arrive(1);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).ref, ref(1));
  EXPECT_EQ(asked<Record>(driver.effects).at(0).reason, Reason::no_target);
  driver.now_us = 10;
  EXPECT_EQ(driver.token(1, 0, 0).emitted(), (std::vector<std::int32_t>{100}));
  driver.now_us = 20;
  driver.token(1, 1);
  driver.now_us = 30;
  driver.token(1, 2, 1, EndReason::length);
  const auto finish = driver.finish();
  ASSERT_TRUE(finish.has_value());
  EXPECT_EQ(finish->code, ErrorCode::ok);
  EXPECT_EQ(finish->end, EndReason::length);
  EXPECT_EQ(finish->first_token_us, 10);
  EXPECT_EQ(finish->end_us, 30);
  EXPECT_EQ(finish->output_tokens, 3);
  EXPECT_TRUE(sent<Cancel>(driver.effects).empty());
  driver.token(1, 3);
  EXPECT_TRUE(driver.effects.list().empty());
  EXPECT_EQ(driver.counts().stale_dropped, 1);
}

TEST(DriverStage, ATokenThatOvertookIsHeldBackAndRepeatsAreDropped) {
  // The first token comes from the prefill rank, the second from the decode rank: they may cross.
  DriverBench driver;
  driver.arrive(1);
  EXPECT_TRUE(driver.token(1, 1, 1).emitted().empty());
  EXPECT_EQ(driver.token(1, 0, 0).emitted(), (std::vector<std::int32_t>{100, 101}));
  EXPECT_TRUE(driver.token(1, 0, 0).emitted().empty());
  EXPECT_EQ(driver.counts().stale_dropped, 1);
}

TEST(DriverStage, AGapThatStaysIsALossAndTheNextAttemptGoesOnFromTheLog) {
  DriverBench driver;
  driver.arrive(1).token(1, 0).token(1, 2);
  driver.now_us = 3 * kSecond;
  driver.watch();
  EXPECT_EQ(sent<Cancel>(driver.effects).size(), 2U) << "chunker and balancer";
  const auto again = sent<Submit>(driver.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].ref, ref(1, 2));
  EXPECT_EQ(again[0].arrival_us, 0) << "a retry keeps its place";
  EXPECT_EQ(again[0].work.answered, (std::vector<std::int32_t>{100}));
  driver.token(1, 1, 1, EndReason::none, 1);
  EXPECT_TRUE(driver.emitted().empty()) << "an old attempt changes nothing";
  EXPECT_EQ(driver.token(1, 1, 1, EndReason::none, 2).emitted(), (std::vector<std::int32_t>{101}));
}

TEST(DriverStage, EndedIsFinalUnlessItIsOurFault) {
  DriverBench driver;
  driver.arrive(1).on(Ended{ref(1), ErrorCode::never_fits, false, "too long"});
  EXPECT_EQ(driver.finish()->code, ErrorCode::never_fits);
  EXPECT_EQ(driver.finish()->detail, "too long");
  driver.arrive(2);
  for (std::uint32_t attempt = 1; attempt <= 2; ++attempt) {
    driver.on(Ended{ref(2, attempt), ErrorCode::rank_lost, true, "gone"});
    EXPECT_FALSE(driver.finish().has_value());
    EXPECT_EQ(sent<Submit>(driver.effects).at(0).ref, ref(2, attempt + 1));
  }
  driver.on(Ended{ref(2, 3), ErrorCode::rank_lost, true, "gone"});
  ASSERT_TRUE(driver.finish().has_value());
  EXPECT_EQ(driver.finish()->code, ErrorCode::attempts_exhausted);
  EXPECT_EQ(driver.finish()->attempts, 3U);
  EXPECT_NE(driver.finish()->detail.find("rank_lost: gone"), std::string::npos);
  driver.on(Ended{ref(2, 3), ErrorCode::rank_lost, true, "gone"});
  EXPECT_TRUE(driver.effects.list().empty());
}

TEST(DriverStage, StopAndAbandonCancelDownstream) {
  DriverBench driver;
  driver.arrive(1).token(1, 0).on(StopSeen{RequestId{1}});
  EXPECT_EQ(driver.finish()->code, ErrorCode::ok);
  EXPECT_EQ(driver.finish()->end, EndReason::none);
  EXPECT_EQ(sent<Cancel>(driver.effects).size(), 2U);
  driver.arrive(2).on(Abandon{RequestId{2}, ErrorCode::cancelled});
  EXPECT_EQ(driver.finish()->code, ErrorCode::cancelled);
  EXPECT_EQ(sent<Cancel>(driver.effects).size(), 2U);
  driver.on(StopSeen{RequestId{2}}).on(Abandon{RequestId{2}, ErrorCode::cancelled});
  EXPECT_TRUE(driver.effects.list().empty());
  EXPECT_EQ(driver.counts().cancelled, 1);
}

TEST(DriverStage, ADeadlineEndsARequestAndAdmissionRefusesWhatWouldMissIt) {
  DriverOptions options;
  options.request_timeout_us = 5 * kSecond;
  DriverBench driver(options);
  driver.arrive(1);
  const Timer deadline = timers(driver.effects, TimerKind::deadline).at(0);
  driver.now_us = 5 * kSecond;
  driver.on(deadline);
  EXPECT_EQ(driver.finish()->code, ErrorCode::deadline);
  EXPECT_NE(driver.finish()->detail.find("prefill queue"), std::string::npos);
  Load load;
  load.ranks = 1;
  load.least_work_ps = 6'000'000'000'000; // 6 s
  driver.on(load).arrive(2);
  ASSERT_TRUE(driver.finish().has_value());
  EXPECT_EQ(driver.finish()->code, ErrorCode::rejected);
  EXPECT_TRUE(sent<Submit>(driver.effects).empty());
  EXPECT_EQ(driver.counts().rejected, 1);
}

TEST(DriverStage, BadRepeatedAndTooManyArrivalsAreRefused) {
  DriverOptions options;
  options.requests_max = 1;
  DriverBench driver(options);
  driver.arrive(1, 0);
  EXPECT_EQ(driver.finish()->code, ErrorCode::invalid_request);
  driver.arrive(2, 4, 0);
  EXPECT_EQ(driver.finish()->code, ErrorCode::invalid_request);
  driver.arrive(3).arrive(3);
  EXPECT_FALSE(driver.finish().has_value()) << "its one ending is still to come";
  driver.arrive(4);
  EXPECT_EQ(driver.finish()->code, ErrorCode::rejected);
  EXPECT_NE(driver.finish()->detail.find("requests_max"), std::string::npos);
}

TEST(DriverStage, TheWatchdogNamesWhatARequestWaitsFor) {
  DriverBench driver;
  const auto stuck = [&](std::int64_t second) {
    driver.now_us = second * kSecond;
    driver.watch();
    const auto found = asked<Stuck>(driver.effects);
    return found.empty() ? std::string() : found[0].waits_for;
  };
  driver.arrive(1);
  EXPECT_EQ(stuck(29), "");
  EXPECT_EQ(stuck(30), "the prefill queue: no prefill rank is up");
  EXPECT_EQ(stuck(31), "") << "said once a while";
  EXPECT_NE(stuck(60), "");
  Load load;
  load.ranks = 1;
  load.moved = {{ref(1), rank_ref(0), 2}};
  driver.on(load);
  EXPECT_EQ(stuck(89), "");
  EXPECT_EQ(stuck(90), "prefill on prefill-0: 2 of 4 tokens done");
  driver.token(1, 0, 0);
  EXPECT_EQ(stuck(120), "handoff from prefill-0, or room on a decode rank");
  driver.token(1, 1, 1);
  EXPECT_EQ(stuck(150), "decode on decode-1: 2 tokens so far");
}

TEST(DriverStage, ASilentRequestIsLostAfterNoProgressAndAQueuedOneOnlyWhenAllIsSilent) {
  DriverOptions options;
  options.no_progress_us = 100 * kSecond;
  options.attempts_max = 2;
  DriverBench driver(options);
  driver.arrive(1).arrive(2).token(1, 0, 1);
  driver.now_us = 90 * kSecond;
  driver.on(Load{}); // The pipeline lives: request 2 waits in its queue and is not lost.
  driver.now_us = 100 * kSecond;
  driver.watch();
  const auto again = sent<Submit>(driver.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].ref, ref(1, 2));
  driver.now_us = 200 * kSecond;
  driver.watch();
  const auto finished = asked<Finish>(driver.effects);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].request, RequestId{1});
  EXPECT_EQ(finished[0].code, ErrorCode::no_progress);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).ref, ref(2, 2)) << "nothing at all moved";
}

TEST(DriverStage, ALostDecodeRankIsALostAttempt) {
  DriverBench driver;
  driver.arrive(1).token(1, 0, 1).on(RankDown{rank_ref(1), ErrorCode::rank_lost});
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).ref, ref(1, 2));
  driver.arrive(2).token(2, 0, 0).on(RankDown{rank_ref(0), ErrorCode::rank_lost});
  EXPECT_TRUE(sent<Submit>(driver.effects).empty())
      << "it may have moved on: those who know will say";
}

TEST(DriverStage, WithNoRankLeftEveryRequestEndsAtOnceAndLaterOnesToo) {
  DriverBench driver;
  driver.arrive(1).token(1, 0).arrive(2);
  driver.on(NoRankLeft{Role::decode, "no decode rank is left: decode-0"});
  const auto ended = asked<Finish>(driver.effects);
  ASSERT_EQ(ended.size(), 2U);
  for (const Finish& finish : ended) {
    EXPECT_EQ(finish.code, ErrorCode::no_rank);
    EXPECT_EQ(finish.detail, "no decode rank is left: decode-0");
  }
  EXPECT_EQ(sent<Cancel>(driver.effects).size(), 4U) << "chunker and balancer let go of both";
  EXPECT_EQ(driver.counts().live, 0);
  driver.arrive(3);
  EXPECT_EQ(driver.finish()->code, ErrorCode::no_rank);
  EXPECT_TRUE(sent<Submit>(driver.effects).empty());
}

TEST(DriverStage, ManyRowsOfOneMessageBelongTogether) {
  DriverBench driver;
  driver.arrive(1).arrive(2);
  Tokens tokens{rank_ref(2), 1, {}};
  for (const std::uint64_t id : {2, 1}) {
    for (std::int64_t index = 0; index < 2; ++index) {
      tokens.rows.push_back({ref(id), index, static_cast<std::int32_t>(index)});
    }
  }
  tokens.rows.back().end = EndReason::eos;
  driver.on(tokens);
  EXPECT_EQ(asked<Emit>(driver.effects).size(), 2U) << "one Emit a request";
  EXPECT_EQ(driver.finish()->request, RequestId{1});
  EXPECT_EQ(driver.finish()->end, EndReason::eos);
}

DriverOptions overcommitting() {
  DriverOptions options;
  options.reservation = Reservation::expected;
  options.preemptions_max = 2;
  options.attempts_max = 2;
  return options;
}

// Case S6: a preempted request keeps its arrival and its tokens, and has lost no attempt.
TEST(DriverStage, S6APreemptedRequestGoesOnFromItsTokenLogWithItsArrival) {
  DriverBench driver(overcommitting());
  driver.now_us = 5;
  driver.arrive(1).token(1, 0).token(1, 1);
  driver.now_us = 900;
  driver.on(Ended{ref(1), ErrorCode::preempted, true, "room"});
  const auto again = sent<Submit>(driver.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].ref, ref(1, 2));
  EXPECT_EQ(again[0].arrival_us, 5);
  EXPECT_EQ(again[0].work.answered, (std::vector<std::int32_t>{100, 101}));
  EXPECT_EQ(again[0].claim.preemptions, 1);
  EXPECT_EQ(again[0].claim.reservation, Reservation::expected);
  EXPECT_EQ(sent<Cancel>(driver.effects).size(), 2U) << "the old attempt is over everywhere";
  EXPECT_EQ(driver.counts().retried, 0);
  EXPECT_EQ(driver.counts().preempted, 1);
  driver.token(1, 2, 1, EndReason::none, 2);
  EXPECT_EQ(driver.emitted(), (std::vector<std::int32_t>{102}));
  EXPECT_EQ(driver.finish()->attempts, 1U);
}

TEST(DriverStage, PreemptionsHaveTheirOwnBoundAndThenTheRequestIsShielded) {
  DriverBench driver(overcommitting());
  driver.arrive(1);
  for (std::uint32_t attempt = 1; attempt <= 4; ++attempt) {
    driver.on(Ended{ref(1, attempt), ErrorCode::preempted, true, "room"});
    const auto again = sent<Submit>(driver.effects);
    ASSERT_EQ(again.size(), 1U) << "never an ending";
    EXPECT_EQ(again[0].claim.reservation,
              attempt >= 2 ? Reservation::shielded : Reservation::expected);
  }
  // Losses count for themselves: the first of two.
  driver.on(Ended{ref(1, 5), ErrorCode::rank_lost, true, "gone"});
  EXPECT_EQ(sent<Submit>(driver.effects).size(), 1U);
  driver.on(Ended{ref(1, 6), ErrorCode::rank_lost, true, "gone"});
  EXPECT_EQ(driver.finish()->code, ErrorCode::attempts_exhausted);
  EXPECT_EQ(driver.finish()->attempts, 2U);
}

TEST(DriverStage, ExpectsWhatFinishedAnswersOfTheClassTook) {
  DriverOptions options = overcommitting();
  options.expected_permille = 750;
  DriverBench driver(options);
  for (std::uint64_t id = 1; id <= 8; ++id) {
    driver.arrive(id, 4, 30);
    EXPECT_EQ(sent<Submit>(driver.effects).at(0).claim.expected_p90, 0) << "too few to tell";
    const auto last = static_cast<std::int64_t>(id) - 1;
    for (std::int64_t i = 0; i <= last; ++i)
      driver.token(id, i, 1, i == last ? EndReason::eos : EndReason::none);
  }
  const auto told = sent<AnswersExpected>(driver.effects);
  ASSERT_EQ(told.size(), 1U) << "those that wait hear of it";
  EXPECT_EQ(told[0].length_class, 4U);
  EXPECT_EQ(told[0].expected_p90, 6);
  driver.arrive(9, 4, 30);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).claim.expected_p50, 4);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).claim.expected_p90, 6);
  driver.arrive(10, 4, 500);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).claim.expected_p90, 0) << "another class";
}

TEST(DriverStage, WithTheWorstCaseNothingIsOvercommitted) {
  DriverBench driver;
  driver.arrive(1);
  EXPECT_EQ(sent<Submit>(driver.effects).at(0).claim.reservation, Reservation::worst);
}

TEST(DriverStage, TokensThatOvertakeAMissingOneAreBounded) {
  DriverBench driver;
  driver.arrive(1, 4, 10'000);
  Tokens tokens{rank_ref(1), 1, {}};
  for (std::int64_t index = 1; index <= 4096; ++index)
    tokens.rows.push_back({ref(1), index, 7});
  driver.on(tokens);
  EXPECT_TRUE(sent<Submit>(driver.effects).empty()) << "the missing one may still come";
  driver.token(1, 4097);
  ASSERT_EQ(sent<Submit>(driver.effects).size(), 1U) << "too many: the attempt is lost";
  EXPECT_TRUE(sent<Submit>(driver.effects)[0].work.answered.empty());
}

} // namespace
} // namespace troupe::sched::testing
