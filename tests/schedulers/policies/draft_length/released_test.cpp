// Draft lengths of the released engine: policies.md section 5.2, last paragraph of the algorithm.

#include "schedulers/model/graph_curve.hpp"
#include "schedulers/policies/draft_length/released.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace troupe::sched {
namespace {

using Lengths = std::vector<std::int64_t>;
using Values = std::vector<std::int64_t>;

constexpr std::int64_t kHalf = kCertain / 2;

/// One rank with the given survivals of its rows.
struct Question {
  std::vector<Values> survivals, old;
  std::vector<CostPoint> points;
  std::vector<std::uint32_t> ranks = {};

  Lengths ask(ReleasedDrafts& policy, std::int64_t* step_ps = nullptr) const {
    std::vector<DraftRow> rows;
    std::vector<std::int64_t> tokens(1, 0);
    for (std::size_t i = 0; i < survivals.size(); ++i) {
      DraftRow row;
      row.rank = ranks.empty() ? 0 : ranks[i];
      row.survivals = survivals[i];
      if (i < old.size()) row.old_survivals = old[i];
      if (row.rank >= tokens.size()) tokens.resize(row.rank + 1, 0);
      ++tokens[row.rank];
      rows.push_back(row);
    }
    const DraftQuery query{rows, tokens, {points}};
    const auto decision = policy.choose(query, {});
    EXPECT_TRUE(validate(decision, query).ok());
    if (step_ps != nullptr) *step_ps = decision.value->step_ps;
    return decision.value->lengths;
  }
};

TEST(GraphCurve, SizesAndReplays) {
  EXPECT_EQ(graph_sizes(40), (Values{1, 2, 4, 8, 16, 24, 32, 40}));
  EXPECT_EQ(graph_sizes(39), (Values{1, 2, 4, 8, 16, 24, 32}));
  EXPECT_EQ(graph_sizes(0), Values{});
  EXPECT_EQ(trimmed_mean({90, 10, 20, 30, 1000}), (90 + 20 + 30) / 3);
  EXPECT_EQ(trimmed_mean({4, 8}), 6);
  EXPECT_EQ(trimmed_mean({}), 0);
  EXPECT_EQ(median({5, 1, 9}), 5);
  EXPECT_EQ(median({5, 1, 9, 7}), 6);
}

TEST(ReleasedDrafts, ConfidencesThatAreMissingOrBehindAStopToken) {
  EXPECT_EQ(released_survivals(Values{kHalf, kHalf, kHalf}, -1),
            (Values{kHalf, kHalf / 2, kHalf / 4}));
  EXPECT_EQ(released_survivals(Values{kHalf, -1, kHalf}, -1), (Values{kHalf, kHalf, kHalf / 2}));
  EXPECT_EQ(released_survivals(Values{-1, -1}, -1), (Values{kCertain, kCertain}));
  EXPECT_EQ(released_survivals(Values{kHalf, kHalf, -1}, 1), (Values{kHalf, kHalf / 2, 0}));
  EXPECT_EQ(released_survivals(Values{}, -1), Values{});
}

// One sequence with three drafts of survival 0.9 each, graphs 1, 2, 4: the size 3 runs on graph 4.
//
//   drafts      0     1     2     3
//   out         1   1.9   2.8   3.7
//   graph       1     2     4     4
//   time      100   110   200   200
//   out/time .0100 .0173 .0140 .0185
TEST(ReleasedDrafts, TimeIsThatOfTheNextGraph) {
  ReleasedDrafts policy;
  const std::int64_t nine = kCertain / 10 * 9;
  Question one{{{nine, nine, nine}}, {{nine, nine, nine}}, {{1, 100}, {2, 110}, {4, 200}}};
  std::int64_t step_ps = 0;
  EXPECT_EQ(one.ask(policy, &step_ps), Lengths{3});
  EXPECT_EQ(step_ps, 200);
  one.points[2].ps = 230; // 3.7 / 230 = .0161
  EXPECT_EQ(one.ask(policy, &step_ps), Lengths{1});
  EXPECT_EQ(step_ps, 110);
  // Not repaired: a larger graph that was measured faster is faster.
  one.points[2].ps = 100;
  EXPECT_EQ(one.ask(policy), Lengths{3});
  // Nothing beyond the largest graph.
  one.points.pop_back();
  EXPECT_EQ(one.ask(policy), Lengths{1});
}

// Equal gains: the first of them, with the fewest drafts.
TEST(ReleasedDrafts, TheFirstMaximumWins) {
  ReleasedDrafts policy;
  const Question even{
      {{kCertain, kCertain}}, {{kCertain, kCertain}}, {{1, 100}, {2, 200}, {4, 300}}};
  EXPECT_EQ(even.ask(policy), Lengths{0});
}

// The size comes from two steps ago, the drafts from now; equal ones go by row, then position.
TEST(ReleasedDrafts, SizeFromBeforeChoiceFromNow) {
  ReleasedDrafts policy;
  const std::int64_t low = kCertain / 100;
  // Before: row 0 was likely, row 1 was not: two drafts pay. Now it is the other way round.
  const Question turned{{{low, low}, {kHalf, kHalf}},
                        {{kCertain, kCertain}, {low, low}},
                        {{2, 100}, {4, 140}, {8, 400}}};
  EXPECT_EQ(turned.ask(policy), (Lengths{0, 2}));
  const Question equal{{{kHalf}, {kHalf}}, {{kCertain}, {low}}, {{2, 100}, {3, 110}, {4, 400}}};
  EXPECT_EQ(equal.ask(policy), (Lengths{1, 0}));
  // Nothing known before: drafts count as certain.
  const Question fresh{{{low, low}}, {}, {{1, 100}, {2, 110}, {4, 120}}};
  EXPECT_EQ(fresh.ask(policy), Lengths{2});
}

// D8: rank 1 trims its own drafts although it waits for rank 0 anyway.
TEST(ReleasedDrafts, EachRankDecidesAlone) {
  ReleasedDrafts policy;
  Question two;
  for (int i = 0; i < 40; ++i) {
    two.survivals.push_back({kCertain, kCertain});
    two.ranks.push_back(0);
  }
  two.survivals.push_back({kCertain / 4});
  two.ranks.push_back(1);
  two.old = two.survivals;
  for (const std::int64_t size : graph_sizes(128))
    two.points.push_back({size, 1000 + 400 * size});
  const Lengths lengths = two.ask(policy);
  EXPECT_EQ(lengths[0], 2);
  EXPECT_EQ(lengths[40], 0);
}

DraftOutcome step_of(std::int64_t size, std::int64_t curve_ps, std::int64_t verify_ps,
                     std::int64_t rows, std::int64_t extra_ps) {
  return {size, 0, verify_ps + extra_ps, rows, extra_ps, size, curve_ps};
}

TEST(GraphResiduals, MediansOverSizesThatWereSeenOften) {
  GraphResiduals learnt;
  EXPECT_EQ(learnt.token_ps(), 0);
  for (int i = 0; i < 9; ++i)
    learnt.learn(8, 1000, 1000 + 8 * 50);
  EXPECT_EQ(learnt.token_ps(), 0) << "nine samples are too few";
  learnt.learn(8, 1000, 90'000);
  EXPECT_EQ(learnt.token_ps(), 50) << "one bad sample of ten does not count";
  for (int i = 0; i < 10; ++i)
    learnt.learn(16, 1000, 1000 + 16 * 70);
  EXPECT_EQ(learnt.token_ps(), 60) << "median of both sizes, however often each was seen";
  for (std::size_t i = 0; i < GraphResiduals::kSteps; ++i)
    learnt.learn(24, 1000, 1000 - 24 * 30);
  EXPECT_EQ(learnt.token_ps(), 0) << "older steps are forgotten; never below 0";
}

TEST(GraphResiduals, SamplingAndDraftingBySequences) {
  GraphResiduals learnt;
  for (int i = 0; i < 4; ++i)
    learnt.learn_extra(2, 10);
  EXPECT_EQ(learnt.extra_ps(2), 0) << "four are too few";
  learnt.learn_extra(7, 30);
  EXPECT_EQ(learnt.extra_ps(2), 10) << "of any";
  EXPECT_EQ(learnt.extra_ps(9), 10);
  for (int i = 0; i < 5; ++i)
    learnt.learn_extra(7, 30);
  EXPECT_EQ(learnt.extra_ps(7), 30);
  EXPECT_EQ(learnt.extra_ps(9), 30) << "the last nine of any: three of 10, six of 30";
  for (int i = 0; i < 5; ++i)
    learnt.learn_extra(7, 90);
  EXPECT_EQ(learnt.extra_ps(7), 90) << "the last nine";
}

TEST(ReleasedDrafts, LearnsAndCarriesItsStateOver) {
  ReleasedDrafts policy;
  Question one{{{kHalf}}, {{kHalf}}, {{1, 100}, {2, 120}}};
  std::int64_t step_ps = 0;
  EXPECT_EQ(one.ask(policy, &step_ps), Lengths{1}); // 1.5 / 120 against 1 / 100.
  EXPECT_EQ(step_ps, 120);
  for (int i = 0; i < 10; ++i)
    policy.observe(step_of(2, 120, 120 + 2 * 100, 1, 5));
  // 1 / (100 + 100 + 5) = .00488, 1.5 / (120 + 200 + 5) = .00462
  EXPECT_EQ(one.ask(policy, &step_ps), Lengths{0});
  EXPECT_EQ(step_ps, 205);
  ReleasedDrafts next;
  next.import_state(policy.export_state());
  EXPECT_EQ(next.export_state(), policy.export_state());
  EXPECT_EQ(one.ask(next, &step_ps), Lengths{0});
  EXPECT_EQ(step_ps, 205);
  for (const char* bad : {"", "x", "1 ", "1 8 ", "0 0 0", "0 0 0 0 ", "-1 0 0 ", "0 99 0 "}) {
    next.import_state(bad);
    EXPECT_EQ(next.export_state(), policy.export_state()) << bad;
  }
}

} // namespace
} // namespace troupe::sched
