// Queue, one routing decision each, and slices for ranks that pull.

#include "schedulers/policy/prefill_router.hpp"
#include "schedulers/stage/prefill_stage.hpp"
#include "tests/support/stage_probe.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace troupe::sched::testing {
namespace {

class ChunkerBench {
public:
  explicit ChunkerBench(const PolicySet& set = {}, const PolicyRegistry& registry = builtins(),
                        PrefillOptions options = {})
      : stage_(options, set, registry) {}

  template <class E>
  ChunkerBench& on(const E& event) {
    effects.clear();
    stage_.on(event, now_us, effects);
    return *this;
  }
  ChunkerBench& submit(std::uint64_t id, std::int64_t prompt, std::int64_t new_tokens = 4) {
    Submit event;
    event.ref = ref(id);
    event.arrival_us = static_cast<std::int64_t>(id);
    event.work = work(prompt, new_tokens);
    return on(event);
  }
  /// A pull of an otherwise idle rank with `blocks_free` blocks and `slots_free` slots.
  ChunkerBench& pull(std::uint32_t rank, std::uint64_t step, std::vector<Progress> progress = {},
                     std::int64_t blocks_free = 16, std::int64_t slots_free = 4,
                     std::int64_t running = 0) {
    RankReport report;
    report.rank = rank_ref(rank);
    report.seq = ++seq_;
    report.step_next = step;
    report.wants_chunks = true;
    report.kv_blocks_free = blocks_free;
    report.kv_blocks_total = 16;
    report.slots_free = slots_free;
    report.slots_total = 4;
    report.running = running;
    report.progress = std::move(progress);
    return on(report);
  }
  ChunkerBench& assigned(std::uint64_t id, std::uint32_t rank) {
    return on(Assigned{ref(id), rank_ref(rank)});
  }
  std::vector<std::uint32_t> targets() const {
    std::vector<std::uint32_t> ranks;
    for (const Assign& assign : sent<Assign>(effects))
      ranks.push_back(raw(assign.rank.rank));
    return ranks;
  }
  const PrefillStage& stage() const { return stage_; }

  Effects effects;
  std::int64_t now_us = 0;

private:
  PrefillStage stage_;
  std::uint64_t seq_ = 0;
};

TEST(PrefillStage, RoutesOnceAndAnswersPullsWhenThereIsWork) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both)).pull(0, 1);
  EXPECT_TRUE(sent<RunChunks>(chunker.effects).empty()) << "nothing to do: the pull is remembered";
  chunker.submit(1, 20);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
  chunker.assigned(1, 0);
  auto answers = sent<RunChunks>(chunker.effects);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].step, 1U);
  ASSERT_EQ(answers[0].slices.size(), 1U);
  EXPECT_EQ(answers[0].slices[0].count, 16) << "a step takes 16 tokens";
  EXPECT_FALSE(answers[0].slices[0].last);
  chunker.pull(0, 2, {{ref(1), 10, 20}}); // The step policy had shrunk it.
  answers = sent<RunChunks>(chunker.effects);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].slices[0].first, 10) << "planned from what was really done";
  EXPECT_EQ(answers[0].slices[0].count, 10);
  EXPECT_TRUE(answers[0].slices[0].last);
  EXPECT_EQ(sent<Load>(chunker.effects).at(0).moved.at(0).done, 10);
  chunker.pull(0, 3, {{ref(1), 20, 20}});
  EXPECT_TRUE(sent<RunChunks>(chunker.effects).empty());
}

TEST(PrefillStage, ARankThatDecodesIsLetGoOnAtOnce) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both)).pull(0, 1, {}, 16, 3, 1);
  const auto answers = sent<RunChunks>(chunker.effects);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].slices.empty());
}

TEST(PrefillStage, ARepeatedPullGetsTheSameAnswer) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both)).pull(0, 1).submit(1, 20).assigned(1, 0);
  const auto first = sent<RunChunks>(chunker.effects);
  chunker.pull(0, 1);
  const auto again = sent<RunChunks>(chunker.effects);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].step, first[0].step);
  EXPECT_EQ(again[0].slices[0].count, first[0].slices[0].count);
}

TEST(PrefillStage, ABurstSpreadsBecauseOwnAssignmentsCount) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::prefill)).on(up(1, Role::prefill)).on(up(2, Role::decode));
  std::vector<std::uint32_t> ranks;
  for (std::uint64_t id = 1; id <= 4; ++id) {
    chunker.submit(id, 8);
    for (const std::uint32_t rank : chunker.targets())
      ranks.push_back(rank);
  }
  EXPECT_EQ(ranks, (std::vector<std::uint32_t>{0, 1, 0, 1}));
}

TEST(PrefillStage, PromisesCountUntilAReportCoversThem) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::prefill, 4)).on(up(1, Role::decode));
  chunker.submit(1, 12).submit(2, 8);
  EXPECT_TRUE(chunker.targets().empty()) << "3 of 4 blocks are promised";
  chunker.assigned(1, 0);
  EXPECT_TRUE(chunker.targets().empty()) << "confirmed, but no report counts it yet";
  chunker.pull(0, 1, {}, 1, 3);
  EXPECT_TRUE(chunker.targets().empty());
  chunker.pull(0, 2, {}, 4, 4);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
}

// The head does not fit now. Behind it: one that fits rank 0 (kept for the head), and rank 1, which
// the head could never use.
TEST(PrefillStage, TheHeadKeepsItsRanksAndLeavesTheOthersOpen) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::prefill, 16)).on(up(1, Role::prefill, 2)).on(up(2, Role::decode, 64));
  chunker.submit(1, 40).assigned(1, 0); // 10 of 16 blocks of rank 0
  chunker.submit(2, 32);                // 8 blocks: waits for rank 0
  EXPECT_TRUE(chunker.targets().empty());
  chunker.submit(3, 8); // 2 blocks: fits rank 0, but that is kept; rank 1 is open
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{1}));
  chunker.submit(4, 8);
  EXPECT_TRUE(chunker.targets().empty());
  chunker.on(Cancel{ref(1), ErrorCode::cancelled});
  EXPECT_EQ(sent<Release>(chunker.effects).size(), 1U);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0, 0}))
      << "the head first, then the one behind it";
}

TEST(PrefillStage, WhatNeverFitsEndsAtOnceAndFollowersAreServed) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::prefill, 16)).on(up(1, Role::decode, 16));
  chunker.submit(1, 100);
  auto ended = sent<Ended>(chunker.effects);
  ASSERT_EQ(ended.size(), 1U);
  EXPECT_EQ(ended[0].code, ErrorCode::never_fits);
  EXPECT_FALSE(ended[0].retryable);
  EXPECT_NE(ended[0].detail.find("104 tokens"), std::string::npos) << ended[0].detail;
  chunker.submit(2, 40, 40); // The prompt fits, the answer would not.
  EXPECT_EQ(sent<Ended>(chunker.effects).at(0).code, ErrorCode::never_fits);
  chunker.submit(3, 60, 1); // One token: it ends on the prefill rank.
  EXPECT_EQ(chunker.targets().size(), 1U);
  chunker.submit(4, 8).on(Refused{ref(3), rank_ref(0), {}, ErrorCode::no_room});
  EXPECT_TRUE(sent<Ended>(chunker.effects).empty());
}

TEST(PrefillStage, WaitingRequestsThatFitOnlyADeadRankEnd) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both, 16)).on(up(1, Role::both, 64));
  chunker.submit(1, 200).assigned(1, 1).submit(2, 200);
  chunker.on(RankDown{rank_ref(1), ErrorCode::rank_lost});
  const auto ended = sent<Ended>(chunker.effects);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_TRUE(ended[0].retryable) << "request 1 was on it";
  EXPECT_EQ(ended[1].code, ErrorCode::never_fits);
  EXPECT_EQ(chunker.stage().requests(), 0);
}

TEST(PrefillStage, WhatFitsOnlyARankThatComesBackWaitsForIt) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both, 16)).on(up(1, Role::both, 64));
  chunker.submit(1, 200).assigned(1, 1).submit(2, 200);
  chunker.on(RankDown{rank_ref(1), ErrorCode::rank_lost, true});
  ASSERT_EQ(sent<Ended>(chunker.effects).size(), 1U) << "request 1 was on it";
  chunker.submit(3, 200);
  EXPECT_TRUE(sent<Ended>(chunker.effects).empty());
  chunker.on(up(1, Role::both, 64, 4, 2));
  ASSERT_EQ(sent<Assign>(chunker.effects).size(), 1U);
  EXPECT_EQ(sent<Assign>(chunker.effects)[0].rank, rank_ref(1, 2));
  chunker.on(RankDown{rank_ref(1, 2), ErrorCode::rank_lost, true});
  chunker.on(RankDown{rank_ref(1, 3), ErrorCode::rank_lost, false}); // It could not start again.
  const auto ended = sent<Ended>(chunker.effects);
  ASSERT_EQ(ended.size(), 2U);
  EXPECT_EQ(ended[0].code, ErrorCode::never_fits);
  EXPECT_EQ(chunker.stage().requests(), 0);
}

TEST(PrefillStage, ARefusalTriesTheNextRankThenWaitsInPlace) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both)).on(up(1, Role::both)).submit(1, 8);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
  chunker.on(Refused{ref(1), rank_ref(0), {}, ErrorCode::no_room});
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{1}));
  chunker.on(Refused{ref(1), rank_ref(1), {}, ErrorCode::no_room});
  EXPECT_TRUE(chunker.targets().empty());
  EXPECT_EQ(chunker.stage().counts().waiting, 1);
  chunker.now_us = 20'000;
  chunker.on(Timer{TimerKind::retry, 0});
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
}

TEST(PrefillStage, AnAssignWithoutAnswerIsRepeatedThenTheRankCountsAsLost) {
  PrefillOptions options;
  options.attempts_max = 2;
  ChunkerBench chunker({}, builtins(), options);
  chunker.on(up(0, Role::both)).submit(1, 8);
  Timer again{};
  for (const Timer& timer : timers(chunker.effects, TimerKind::retry))
    again = timer;
  chunker.on(again);
  EXPECT_EQ(chunker.targets().size(), 1U);
  chunker.on(again);
  EXPECT_TRUE(sent<Ended>(chunker.effects).at(0).retryable);
  EXPECT_EQ(sent<Release>(chunker.effects).size(), 1U);
  chunker.assigned(1, 0);
  EXPECT_EQ(sent<Release>(chunker.effects).size(), 1U) << "a late yes must not keep the room";
  EXPECT_EQ(chunker.stage().counts().stale_dropped, 1);
}

TEST(PrefillStage, TheQueueIsBounded) {
  PrefillOptions options;
  options.queue_max = 2;
  ChunkerBench chunker({}, builtins(), options);
  chunker.submit(1, 8).submit(2, 8).submit(3, 8);
  EXPECT_EQ(sent<Ended>(chunker.effects).at(0).code, ErrorCode::rejected);
  EXPECT_EQ(chunker.stage().counts().waiting, 2);
}

TEST(PrefillStage, BadAndRepeatedSubmitsAreRefused) {
  ChunkerBench chunker;
  chunker.submit(1, 0);
  EXPECT_EQ(sent<Ended>(chunker.effects).at(0).code, ErrorCode::invalid_request);
  chunker.submit(2, 8).submit(2, 8);
  EXPECT_TRUE(chunker.effects.list().empty());
  EXPECT_EQ(chunker.stage().counts().stale_dropped, 1);
}

TEST(PrefillStage, ShortestFirstWhenAsked) {
  PolicySet set;
  set.kinds["queue"].policy = "sjf";
  ChunkerBench chunker(set);
  chunker.submit(1, 30).submit(2, 8).submit(3, 16);
  chunker.on(up(0, Role::both, 64));
  std::vector<std::uint64_t> order;
  for (const Assign& assign : sent<Assign>(chunker.effects)) {
    order.push_back(raw(assign.ref.request));
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{2, 3, 1}));
}

/// Answers with a rank that is not there.
class WildRouter final : public PrefillRouter {
public:
  Decision<Placement> route(const PlacementQuery&, std::span<const RankView>,
                            const PolicyContext&) noexcept override {
    return {Placement{RankId{77}, {}}, Reason::lowest_score};
  }
};

TEST(PrefillStage, AnInvalidDecisionIsCountedAndReplacedByTheDefault) {
  PolicyRegistry registry;
  register_builtin_policies(registry);
  registry.add("prefill_router", "wild", [](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<WildRouter>());
  });
  PolicySet set;
  set.kinds["prefill_router"].policy = "wild";
  ChunkerBench chunker(set, registry);
  chunker.on(up(0, Role::both)).submit(1, 8);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(chunker.stage().counts().invalid_decisions, 1);
  const auto records = asked<Record>(chunker.effects);
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].reason, Reason::replaced_invalid);
  EXPECT_EQ(records[0].policy, "least_work");
  EXPECT_EQ(records[0].candidates.size(), 1U);
  EXPECT_TRUE(records[0].candidates[0].feasible);
}

// staggered: request 1 runs (40 tokens, 16 ms of work), 2 waits until the rank is nearly free.
TEST(PrefillStage, ARequestThatIsHeldBackIsAskedAboutAgainInTime) {
  PolicySet set;
  set.kinds["prefill_router"].policy = "staggered";
  ChunkerBench chunker(set);
  chunker.on(up(0, Role::both)).submit(1, 40).assigned(1, 0);
  chunker.submit(2, 8);
  EXPECT_TRUE(chunker.targets().empty());
  const auto records = asked<Record>(chunker.effects);
  ASSERT_FALSE(records.empty());
  EXPECT_EQ(records[0].reason, Reason::held_back);
  const auto retries = timers(chunker.effects, TimerKind::retry);
  ASSERT_EQ(retries.size(), 1U);
  const std::int64_t due_us = asked<SetTimer>(chunker.effects)[0].due_us;
  EXPECT_GT(due_us, 0);
  EXPECT_LE(due_us, 200'002) << "held no longer than hold_us_max after its arrival";
  chunker.now_us = 200'002;
  chunker.on(retries[0]);
  EXPECT_EQ(chunker.targets(), (std::vector<std::uint32_t>{0}));
}

/// Keeps what it was asked with and takes the first rank with room.
class ListeningRouter final : public PrefillRouter {
public:
  explicit ListeningRouter(std::vector<RankView>& seen, std::vector<std::uint64_t>& sessions)
      : seen_(seen), sessions_(sessions) {}
  Decision<Placement> route(const PlacementQuery& query, std::span<const RankView> ranks,
                            const PolicyContext&) noexcept override {
    seen_.assign(ranks.begin(), ranks.end());
    sessions_.push_back(query.request.session_hash);
    return {Placement{ranks[0].rank.rank, {}}, Reason::lowest_score};
  }

private:
  std::vector<RankView>& seen_;
  std::vector<std::uint64_t>& sessions_;
};

TEST(PrefillStage, RoutersSeeTokensOfTheQueueAndTheSession) {
  std::vector<RankView> seen;
  std::vector<std::uint64_t> sessions;
  PolicyRegistry registry;
  register_builtin_policies(registry);
  registry.add("prefill_router", "listening", [&](OptionTable) -> Result<std::unique_ptr<Policy>> {
    return std::unique_ptr<Policy>(std::make_unique<ListeningRouter>(seen, sessions));
  });
  PolicySet set;
  set.kinds["prefill_router"].policy = "listening";
  ChunkerBench chunker(set, registry);
  chunker.on(up(0, Role::both));
  const auto submit = [&](std::uint64_t id, const char* tenant) {
    Submit event;
    event.ref = ref(id);
    event.tenant = tenant;
    event.work = work(10, 4);
    chunker.on(event);
  };
  submit(1, "alice");
  submit(2, "bob");
  submit(3, "alice");
  EXPECT_EQ(seen[0].queued, 2);
  EXPECT_EQ(seen[0].queued_tokens, 20);
  EXPECT_EQ(seen[0].uncached_tokens, 20);
  submit(4, "");
  ASSERT_EQ(sessions.size(), 4U);
  EXPECT_EQ(sessions[0], sessions[2]) << "a tenant is one session";
  EXPECT_NE(sessions[0], sessions[1]);
  EXPECT_NE(sessions[3], 0U) << "a request without a name is a session of its own";
}

/// Requests in the order in which they were given to ranks.
class FairBench : public ChunkerBench {
public:
  explicit FairBench(const char* policy, std::int64_t bound_us = 0)
      : ChunkerBench(set_of(policy, bound_us)) {}
  void submit_for(const char* tenant, std::uint64_t id, std::int64_t prompt) {
    Submit event;
    event.ref = ref(id);
    event.arrival_us = now_us;
    event.tenant = tenant;
    event.work = work(prompt, 4);
    on(event);
    serve();
  }
  void join() {
    on(up(0, Role::both, 16, 1));
    serve();
  }
  /// The rank has room for one more.
  void room() {
    pull(0, ++step_, {}, 16, 1);
    serve();
  }
  std::vector<std::uint64_t> served;

private:
  static PolicySet set_of(const char* policy, std::int64_t bound_us) {
    PolicySet set;
    set.kinds["queue"].policy = policy;
    if (bound_us > 0) set.kinds["queue"].options.set("wait_bound.max_us", {bound_us, ""});
    return set;
  }
  void serve() {
    for (const Assign& assign : sent<Assign>(effects)) {
      served.push_back(raw(assign.ref.request));
      on(Assigned{assign.ref, rank_ref(0)});
    }
  }
  std::uint64_t step_ = 0;
};

// Case S17: client A sends 1,000 requests, then client B one. B is next, not behind all of A.
TEST(PrefillStage, S17OneRequestOfAnotherTenantIsNextWhateverTheBacklog) {
  for (const char* policy : {"weighted_fair", "fcfs"}) {
    FairBench chunker(policy);
    for (std::uint64_t id = 1; id <= 1000; ++id)
      chunker.submit_for("a", id, 10);
    chunker.join();
    for (int i = 0; i < 5; ++i)
      chunker.room();
    const std::size_t before = chunker.served.size();
    chunker.submit_for("b", 5000, 10);
    for (int i = 0; i < 3; ++i)
      chunker.room();
    const auto at = std::find(chunker.served.begin(), chunker.served.end(), 5000U);
    if (std::string(policy) == "fcfs") {
      EXPECT_EQ(at, chunker.served.end()) << "the test sees the difference";
      continue;
    }
    ASSERT_NE(at, chunker.served.end());
    EXPECT_LE(at - chunker.served.begin(), static_cast<std::ptrdiff_t>(before) + 1);
  }
}

// Case S7: a steady stream of cheap requests and one expensive one. Shortest-first alone starves
// it; with the bound it is served as soon as it waited that long.
TEST(PrefillStage, S7AColdRequestInASteadyStreamWaitsNoLongerThanTheBound) {
  constexpr std::int64_t kBoundUs = 50'000;
  for (const std::int64_t bound_us : {std::int64_t{0}, kBoundUs}) {
    FairBench chunker("sjf", bound_us);
    chunker.join();
    chunker.pull(0, 0, {}, 0, 0);
    chunker.submit_for("", 1, 40);
    std::int64_t served_us = -1;
    for (std::uint64_t i = 0; i < 200 && served_us < 0; ++i) {
      chunker.now_us += 1000;
      chunker.submit_for("", 10 + 2 * i, 2); // Two come for each that is served.
      chunker.submit_for("", 11 + 2 * i, 2);
      chunker.room();
      if (std::count(chunker.served.begin(), chunker.served.end(), 1U) != 0) {
        served_us = chunker.now_us;
      }
    }
    if (bound_us == 0) {
      EXPECT_EQ(served_us, -1) << "the test sees the difference";
    } else {
      EXPECT_GE(served_us, kBoundUs);
      EXPECT_LE(served_us, kBoundUs + 2000);
    }
  }
}

// Case S1 with placement by expectation: the worst case may exceed every rank, the prompt may not.
TEST(PrefillStage, S1APromptAboveTheWholePoolIsRefusedAtOnceAndFollowersAreServed) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both, 16, 4));
  const auto submit = [&](std::uint64_t id, std::int64_t prompt, std::int64_t new_tokens) {
    Submit event;
    event.ref = ref(id);
    event.work = work(prompt, new_tokens);
    event.claim = {Reservation::expected, 4, 4, 0};
    chunker.on(event);
  };
  submit(1, 65, 4); // 64 positions are there.
  EXPECT_EQ(sent<Ended>(chunker.effects).at(0).code, ErrorCode::never_fits);
  submit(2, 8, 1000);
  EXPECT_TRUE(sent<Ended>(chunker.effects).empty()) << "it is expected to stay far below that";
  EXPECT_EQ(sent<Assign>(chunker.effects).size(), 1U);
  EXPECT_EQ(sent<Assign>(chunker.effects).at(0).claim.expected_p90, 4);
  submit(3, 8, 4);
  EXPECT_EQ(sent<Assign>(chunker.effects).size(), 1U);
}

TEST(PrefillStage, WaitingRequestsArePlacedByWhatIsExpectedByThen) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both, 16, 4));
  const auto submit = [&](std::uint64_t id, std::int64_t new_tokens) {
    Submit event;
    event.ref = ref(id);
    event.work = work(8, new_tokens);
    event.claim.reservation = Reservation::expected; // Nothing is expected yet: a whole rank.
    chunker.on(event);
  };
  submit(1, 100);
  EXPECT_EQ(chunker.targets().size(), 1U);
  submit(2, 100);
  submit(3, 300);
  EXPECT_TRUE(chunker.targets().empty());
  chunker.assigned(1, 0).pull(0, 1, {}, 6, 3); // What it took was less.
  EXPECT_TRUE(chunker.targets().empty());
  chunker.on(AnswersExpected{8, 5, 9}); // Of 256 to 511: request 3 waits behind request 2.
  EXPECT_TRUE(chunker.targets().empty());
  chunker.on(AnswersExpected{6, 5, 9});
  const auto assigns = sent<Assign>(chunker.effects);
  ASSERT_EQ(assigns.size(), 1U);
  EXPECT_EQ(assigns[0].ref, ref(2));
  EXPECT_EQ(assigns[0].claim.expected_p90, 9);
}

TEST(PrefillStage, AShieldedRequestWaitsForAWholeRankWhereItsWorstCaseIsLarger) {
  ChunkerBench chunker;
  chunker.on(up(0, Role::both, 16, 4));
  chunker.submit(1, 8).assigned(1, 0);
  Submit event;
  event.ref = ref(2);
  event.work = work(8, 1000);
  event.claim = {Reservation::shielded, 4, 4, 8};
  chunker.on(event);
  EXPECT_TRUE(sent<Assign>(chunker.effects).empty());
  chunker.submit(3, 8);
  EXPECT_TRUE(sent<Assign>(chunker.effects).empty()) << "nobody takes the room it waits for";
  chunker.on(Cancel{ref(1), ErrorCode::ok});
  EXPECT_EQ(sent<Assign>(chunker.effects).at(0).ref, ref(2));
}

TEST(PrefillStage, RenewsThePrefillsThatAreUnderWay) {
  PrefillOptions options;
  options.lease_us = 9000;
  ChunkerBench chunker({}, builtins(), options);
  chunker.on(up(0, Role::both)).submit(1, 8);
  EXPECT_EQ(sent<Assign>(chunker.effects).at(0).lease_us, 9000);
  chunker.assigned(1, 0);
  const Timer renew = timers(chunker.effects, TimerKind::renew).at(0);
  chunker.now_us = 3000;
  chunker.on(renew);
  ASSERT_EQ(sent<Renew>(chunker.effects).size(), 1U);
  EXPECT_EQ(sent<Renew>(chunker.effects)[0].lease_us, 9000);
  EXPECT_EQ(timers(chunker.effects, TimerKind::renew).size(), 1U);
  chunker.on(Cancel{ref(1), ErrorCode::cancelled}).on(renew);
  EXPECT_TRUE(chunker.effects.list().empty()) << "nothing left to renew";
}

} // namespace
} // namespace troupe::sched::testing
