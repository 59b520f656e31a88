// The host trusts no policy: each rule of each interface is broken once.

#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe::sched {
namespace {

using testing::ClusterBuilder;
using testing::request;

TEST(Validate, ADecisionNeedsAReason) {
  EXPECT_FALSE(validate(Decision<Admission>{Admission::admit, Reason::unset}).ok());
  EXPECT_TRUE(validate(Decision<Admission>{Admission::admit, Reason::admitted}).ok());
  EXPECT_FALSE(validate(Decision<Admission>{std::nullopt, Reason::admitted}).ok());
  EXPECT_FALSE(validate(Decision<Admission>{static_cast<Admission>(9), Reason::admitted}).ok());
}

TEST(Validate, AnOrderIsAPermutation) {
  const std::array<RequestView, 3> waiting = {request(1, 1), request(2, 1), request(3, 1)};
  const auto check = [&](std::vector<std::uint32_t> positions) {
    return validate(Decision<Order>{Order{std::move(positions)}, Reason::in_order}, waiting).ok();
  };
  EXPECT_TRUE(check({2, 0, 1}));
  EXPECT_FALSE(check({2, 0}));
  EXPECT_FALSE(check({2, 0, 0}));
  EXPECT_FALSE(check({2, 0, 3}));
  EXPECT_FALSE(validate(Decision<Order>{std::nullopt, Reason::in_order}, waiting).ok());
}

TEST(Validate, APlacementIsInTheViewAndHasRoom) {
  ClusterBuilder cluster;
  cluster.decode_rank(1).decode_rank(2).kv_blocks_free(0).decode_rank(3).draining();
  const PlacementQuery query{request(1, 100), {}};
  const auto check = [&](std::uint32_t rank, std::vector<std::int64_t> scores = {}) {
    const Decision<Placement> decision{Placement{RankId{rank}, std::move(scores)},
                                       Reason::lowest_score};
    return validate(decision, query, cluster.ranks()).ok();
  };
  EXPECT_TRUE(check(1));
  EXPECT_TRUE(check(1, {1, 2, 3}));
  EXPECT_FALSE(check(1, {1, 2}));
  EXPECT_FALSE(check(2));
  EXPECT_FALSE(check(3));
  EXPECT_FALSE(check(4));
  EXPECT_TRUE(
      validate(Decision<Placement>{std::nullopt, Reason::no_room}, query, cluster.ranks()).ok());
}

TEST(Validate, SlicesStayWithinPromptAndStep) {
  const std::array<RequestView, 2> requests = {request(1, 10, 4), request(2, 5)};
  const PackQuery query{{}, 9};
  const auto check = [&](std::vector<Share> shares) {
    return validate(Decision<Slices>{Slices{std::move(shares)}, Reason::within_budget}, query,
                    requests)
        .ok();
  };
  EXPECT_TRUE(check({{0, 6}, {1, 3}}));
  EXPECT_FALSE(check({{0, 7}})) << "beyond the prompt";
  EXPECT_FALSE(check({{0, 6}, {1, 4}})) << "beyond the step";
  EXPECT_FALSE(check({{0, 0}}));
  EXPECT_FALSE(check({{0, -1}}));
  EXPECT_FALSE(check({{0, 2}, {0, 2}}));
  EXPECT_FALSE(check({{2, 1}}));
  EXPECT_FALSE(check({}));
  EXPECT_FALSE(check({{0, std::numeric_limits<std::int64_t>::max()}}));
}

TEST(Validate, AHandoffNeverWaitsForNothing) {
  const Decision<HandoffPlan> later{std::nullopt, Reason::budget_reached};
  EXPECT_FALSE(validate(later, HandoffQuery{}).ok());
  HandoffQuery busy;
  busy.transfers = 1;
  EXPECT_TRUE(validate(later, busy).ok());
}

TEST(Validate, AStepShrinksOrDefersButNeverEnlarges) {
  const std::array<OfferedSlice, 1> slices = {{{{}, 0, 4}}};
  const std::array<DecodeView, 2> decodes = {};
  const StepQuery query{slices, decodes, 5};
  const auto check = [&](StepDecision decision) {
    return validate(Decision<StepDecision>{std::move(decision), Reason::within_budget}, query).ok();
  };
  EXPECT_TRUE(check({{0, 1}, {{0, 3}}}));
  EXPECT_TRUE(check({{}, {{0, 4}}}));
  EXPECT_FALSE(check({{0, 1}, {{0, 4}}})) << "beyond the step";
  EXPECT_FALSE(check({{}, {{0, 5}}})) << "enlarged";
  EXPECT_FALSE(check({{0, 0}, {}}));
  EXPECT_FALSE(check({{2}, {}}));
  EXPECT_FALSE(check({{}, {{1, 1}}}));
  EXPECT_FALSE(check({{}, {}})) << "empty though there is work";
  EXPECT_FALSE(validate(Decision<StepDecision>{std::nullopt, Reason::in_order}, query).ok());
}

} // namespace
} // namespace troupe::sched
