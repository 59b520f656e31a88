// A table of C functions as a policy: what is handed over, what comes back, what is not believed.

#include "schedulers/plugin/plugin_policy.hpp"
#include "schedulers/policy/questions.hpp"
#include "tests/schedulers/plugin/fake_plugin.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::ContextBuilder;
using testing::FakeBalancer;
using testing::request;

/// A balancer of the test behind the ABI, called directly.
struct Seated {
  FakeBalancer fake;
  std::unique_ptr<Policy> policy;
  ContextBuilder context;
  std::vector<RankView> ranks =
      ClusterBuilder().decode_rank(4).decode_rank(7).running(3).decode_rank(9).ranks();

  explicit Seated(FakeBalancer::Decide decide, bool has_state = false) {
    fake.decide = std::move(decide);
    testing::fake() = &fake;
    auto made = make_plugin_policy(testing::fake_policy(has_state), nullptr, R"({"a":1})", {},
                                   direct_runner);
    EXPECT_TRUE(made.ok());
    policy = std::move(made).value();
  }
  Decision<Placement> place() {
    return dynamic_cast<DecodeBalancer&>(*policy).place({request(1, 100), {}, {}}, ranks,
                                                        context.context());
  }
  const PluginCounts& counts() const { return dynamic_cast<LoadedPolicy&>(*policy).counts(); }
};

/// Answers well: rank 7.
std::int32_t seven(troupe_placement_answer& answer) {
  answer.rank = 7;
  answer.reason = TROUPE_REASON_LOWEST_SCORE;
  return TROUPE_DONE;
}

TEST(PluginPolicy, PassesTheHostsOwnViewsAndTakesTheAnswer) {
  const void* seen = nullptr;
  Seated seated([&](const auto& question, const auto& call, auto& answer) {
    seen = question.ranks.data;
    EXPECT_EQ(question.ranks.n, 3U);
    EXPECT_EQ(question.ranks.stride, sizeof(RankView));
    EXPECT_EQ(troupe_rank_at(&question.ranks, 1)->rank, 7U);
    EXPECT_EQ(troupe_rank_at(&question.ranks, 1)->running, 3);
    EXPECT_EQ(question.request->prompt, 100);
    EXPECT_EQ(call.now_us, 55);
    EXPECT_EQ(call.policy_epoch, 1U);
    EXPECT_EQ(call.cost_model->token_ps, CostModel{}.token_ps);
    answer.scores[0] = std::numeric_limits<std::int64_t>::max();
    answer.scores[1] = std::numeric_limits<std::int64_t>::min();
    answer.scores[2] = 0;
    answer.scored = 1;
    return seven(answer);
  });
  seated.context.now_us = 55;
  const auto decision = seated.place();
  ASSERT_TRUE(decision.value);
  EXPECT_EQ(decision.value->rank, RankId{7});
  EXPECT_EQ(decision.reason, Reason::lowest_score);
  EXPECT_EQ(decision.value->scores,
            (std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(),
                                       std::numeric_limits<std::int64_t>::min(), 0}));
  EXPECT_EQ(seen, seated.ranks.data()) << "no view is copied for a direct call";
  EXPECT_EQ(seated.policy->failure(), "");
  EXPECT_EQ(seated.fake.options, R"({"a":1})");
}

TEST(PluginPolicy, NoneFitsBringsAReasonAndATime) {
  Seated seated([](const auto&, const auto&, auto& answer) {
    answer.reason = TROUPE_REASON_NO_ROOM;
    answer.retry_at_us = 77;
    return TROUPE_NONE;
  });
  const auto decision = seated.place();
  EXPECT_FALSE(decision.value);
  EXPECT_EQ(decision.reason, Reason::no_room);
  EXPECT_EQ(decision.retry_at_us, 77);
  EXPECT_EQ(seated.counts().failed, 0);
}

TEST(PluginPolicy, FailedCallsSayWhatTheyDidAndTheNextOneIsJudgedAnew) {
  std::function<std::int32_t(troupe_placement_answer&)> act;
  Seated seated([&](const auto&, const auto&, auto& answer) { return act(answer); });
  const auto after = [&](auto what) {
    act = what;
    const auto decision = seated.place();
    EXPECT_FALSE(decision.value);
    EXPECT_EQ(decision.reason, Reason::unset) << "invalid for every kind";
    return seated.policy->failure();
  };
  EXPECT_EQ(after([](auto&) { return -3; }), "decide returned -3");
  EXPECT_EQ(after([](auto& answer) {
              std::string("no table").copy(answer.message, answer.message_size);
              answer.message[8] = '\0';
              return TROUPE_FAILED;
            }),
            "decide returned -1: no table");
  EXPECT_EQ(after([](auto&) { return 2; }), "decide returned 2, which means nothing");
  EXPECT_EQ(after([](auto&) { return TROUPE_DONE; }), "the answer has no reason");
  EXPECT_EQ(after([](auto& answer) {
              answer.reason = 99;
              return TROUPE_DONE;
            }),
            "the answer has reason 99, expected one of 1 to 25 (TROUPE_REASON_...)");
  EXPECT_EQ(after([](auto& answer) {
              answer.reason = TROUPE_REASON_REPLACED_INVALID;
              return TROUPE_NONE;
            }),
            "the answer has reason 26, expected one of 1 to 25 (TROUPE_REASON_...)");
  EXPECT_EQ(after([](auto&) -> std::int32_t { throw std::runtime_error("out"); }),
            "decide let an exception out");
  EXPECT_EQ(seated.counts().failed, 7);
  act = seven;
  EXPECT_TRUE(seated.place().value);
  EXPECT_EQ(seated.policy->failure(), "");
  EXPECT_EQ(seated.counts().calls, 8);
}

TEST(PluginPolicy, DrawsContinueTheStreamOfTheHost) {
  std::vector<std::uint64_t> drawn;
  Seated seated([&](const auto&, const auto& call, auto& answer) {
    drawn.push_back(call.rng_next(call.rng));
    drawn.push_back(troupe_below(&call, 1000));
    return seven(answer);
  });
  ASSERT_TRUE(seated.place().value);
  Rng same(1);
  EXPECT_EQ(drawn, (std::vector<std::uint64_t>{same.bits(), same.below(1000)}));
  EXPECT_EQ(seated.context.rng.bits(), same.bits()) << "two draws were taken";
}

TEST(PluginPolicy, InstancesAreGivenBack) {
  FakeBalancer fake;
  {
    Seated seated([](const auto&, const auto&, auto& answer) { return seven(answer); });
    EXPECT_EQ(seated.fake.counts.created, 1);
    seated.policy.reset();
    EXPECT_EQ(seated.fake.counts.destroyed, 1);
  }
  fake.create_error = "alpha and beta exclude each other";
  testing::fake() = &fake;
  const auto refused = make_plugin_policy(testing::fake_policy(), nullptr, "{}", {}, direct_runner);
  EXPECT_EQ(refused.error().message, "decode_balancer \"fake\": create failed: alpha and beta "
                                     "exclude each other");
  EXPECT_EQ(fake.counts.destroyed, 0);
  const auto no_lane =
      make_plugin_policy(testing::fake_policy(), nullptr, "{}", {}, [](auto) { return nullptr; });
  EXPECT_NE(no_lane.error().message.find("no thread"), std::string::npos);
}

TEST(PluginPolicy, TheLibraryOutlivesItsInstances) {
  Seated seated([](const auto&, const auto&, auto& answer) { return seven(answer); });
  int destroyed_before_unload = -1;
  std::shared_ptr<const void> library(
      &seated, [&](const void*) { destroyed_before_unload = seated.fake.counts.destroyed; });
  auto made =
      make_plugin_policy(testing::fake_policy(), std::move(library), "{}", {}, direct_runner);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(destroyed_before_unload, -1);
  made->reset();
  EXPECT_EQ(destroyed_before_unload, 1);
}

TEST(PluginPolicy, StateOfAnySizeGoesOver) {
  Seated seated([](const auto&, const auto&, auto& answer) { return seven(answer); }, true);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{15}, std::size_t{16},
                                 std::size_t{5000}, TROUPE_STATE_MAX}) {
    seated.fake.state = std::string(size, 'x');
    seated.place(); // What was exported before is void.
    EXPECT_EQ(seated.policy->export_state(), seated.fake.state) << size;
    EXPECT_EQ(seated.policy->failure(), "");
  }
  seated.policy->import_state("abc");
  EXPECT_EQ(seated.fake.state, "abc");
  seated.policy->import_state("!");
  EXPECT_EQ(seated.fake.state, "abc") << "refused text leaves it as it is";
  seated.policy->import_state("");
  EXPECT_EQ(seated.fake.state, "abc") << "no state is nothing to take over";
}

TEST(PluginPolicy, StateBeyondItsLimitsIsAFailure) {
  Seated seated([](const auto&, const auto&, auto& answer) { return seven(answer); }, true);
  seated.fake.extra_size = 3 * TROUPE_STATE_MAX;
  EXPECT_EQ(seated.policy->export_state(), "");
  EXPECT_NE(seated.policy->failure().find("export_state"), std::string::npos);
  seated.fake.extra_size = 0;
  ASSERT_TRUE(seated.place().value);
  seated.fake.state = "fits";
  ASSERT_TRUE(seated.place().value);
  EXPECT_EQ(seated.policy->export_state(), "fits");
}

// The helpers of the header are the rules that the host checks answers with.
TEST(PolicyAbi, RoomIsWhatTheHostCallsRoom) {
  std::printf("seed 1\n");
  Rng rng(1);
  std::int64_t with_room = 0;
  for (int round = 0; round < 20'000; ++round) {
    RequestView view = request(1, static_cast<std::int64_t>(rng.below(400)));
    view.answered = static_cast<std::int64_t>(rng.below(3) * rng.below(200));
    view.new_tokens_max = static_cast<std::int64_t>(rng.below(500));
    view.claim.reservation = static_cast<Reservation>(rng.below(3));
    view.claim.expected_p90 = static_cast<std::int64_t>(rng.below(2) * rng.below(300));
    RankView rank;
    rank.role = static_cast<Role>(rng.below(3));
    rank.draining = rng.below(8) == 0;
    rank.held = rng.below(8) == 0;
    rank.block_tokens = 1 + static_cast<std::int64_t>(rng.below(64));
    rank.context_max = static_cast<std::int64_t>(rng.below(2) * rng.below(900));
    rank.kv_blocks_total = static_cast<std::int64_t>(rng.below(60));
    rank.kv_blocks_free =
        static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rank.kv_blocks_total) + 1));
    rank.slots_free = static_cast<std::int64_t>(rng.below(4));
    rank.slots_total = 3;
    const PlacementQuery query{view, {}, {}};
    const auto* c_request = reinterpret_cast<const troupe_request_view*>(&view);
    const auto* c_rank = reinterpret_cast<const troupe_rank_view*>(&rank);
    ASSERT_EQ(troupe_blocks_needed(c_request, c_rank), blocks_needed(query, rank)) << round;
    ASSERT_EQ(troupe_could_fit(c_request, c_rank) != 0, could_fit(query, rank)) << round;
    ASSERT_EQ(troupe_has_room(c_request, c_rank) != 0, has_room(query, rank)) << round;
    ASSERT_EQ(troupe_remaining(c_request), view.remaining());
    with_room += has_room(query, rank) ? 1 : 0;
  }
  EXPECT_GT(with_room, 1000);
}

TEST(PolicyAbi, ScoresFromFloatingPointAreRoundedAndClamped) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(troupe_score(0.49), 0);
  EXPECT_EQ(troupe_score(0.5), 1);
  EXPECT_EQ(troupe_score(-0.5), -1);
  EXPECT_EQ(troupe_score(-1.4), -1);
  EXPECT_EQ(troupe_score(4503599627370497.0), 4503599627370497);
  EXPECT_EQ(troupe_score(1e300), kMax);
  EXPECT_EQ(troupe_score(-1e300), kMin);
  EXPECT_EQ(troupe_score(9223372036854775807.0), kMax);
  EXPECT_EQ(troupe_score(-9223372036854775808.0), kMin);
  EXPECT_EQ(troupe_score(std::numeric_limits<double>::quiet_NaN()), kMax);
  EXPECT_EQ(troupe_score(std::numeric_limits<double>::infinity()), kMax);
}

TEST(PolicyAbi, ArraysAreReadByTheirStride) {
  // As a later host would hand them over: every view is longer than this header knows.
  struct Longer {
    RankView view;
    std::int64_t later[2];
  };
  std::vector<Longer> ranks(3);
  for (std::uint32_t i = 0; i < 3; ++i)
    ranks[i].view.rank.rank = RankId{i + 10};
  const troupe_array array{ranks.data(), ranks.size(), sizeof(Longer)};
  EXPECT_EQ(troupe_rank_at(&array, 2)->rank, 12U);
  EXPECT_TRUE(TROUPE_HAS(array.stride, troupe_rank_view, as_of_us));
  EXPECT_FALSE(TROUPE_HAS(sizeof(troupe_rank_view) - 8, troupe_rank_view, as_of_us));
}

} // namespace
} // namespace troupe::sched
