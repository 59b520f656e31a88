// Draft lengths: the vectors of policies.md sections 5.2 to 5.4.

#include "schedulers/policies/draft_length/all.hpp"
#include "schedulers/policies/draft_length/by_load.hpp"
#include "tests/support/draws.hpp"
#include "tests/support/effort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <numeric>

namespace troupe::sched {
namespace {

using Probabilities = std::vector<double>;
using Lengths = std::vector<std::int64_t>;

/// Rows with survivals from conditional acceptances, all on one rank.
class Rows {
public:
  void add(const Probabilities& conditional, std::uint32_t rank = 0) {
    auto& survivals = survivals_.emplace_back();
    double product = 1;
    for (const double c : conditional) {
      product *= c;
      survivals.push_back(static_cast<std::int64_t>(std::llround(product * kCertain)));
    }
    DraftRow row;
    row.ref.request = RequestId{rows_.size()};
    row.rank = rank;
    row.survivals = survivals;
    rows_.push_back(row);
  }
  void know_before(std::size_t row, const Probabilities& survivals) {
    auto& old = survivals_.emplace_back();
    for (const double a : survivals)
      old.push_back(static_cast<std::int64_t>(std::llround(a * kCertain)));
    rows_[row].old_survivals = old;
  }
  const std::vector<DraftRow>& rows() const { return rows_; }

private:
  std::deque<std::vector<std::int64_t>> survivals_;
  std::vector<DraftRow> rows_;
};

/// t = base·(1 + B / half) in picoseconds, as a line.
std::vector<CostPoint> line(std::int64_t base_ps, std::int64_t half) {
  return {{0, base_ps}, {half, 2 * base_ps}};
}

DraftLengths choose(DraftLengthPolicy& policy, const Rows& rows,
                    const std::vector<CostPoint>& points,
                    std::vector<std::int64_t> rank_tokens = {}) {
  if (rank_tokens.empty()) rank_tokens = {static_cast<std::int64_t>(rows.rows().size())};
  DraftQuery query{rows.rows(), rank_tokens, {points}};
  const auto decision = policy.choose(query, {});
  EXPECT_TRUE(validate(decision, query).ok());
  return *decision.value;
}

double tokens_a_second(const DraftLengths& lengths) {
  return static_cast<double>(lengths.expected) / kCertain /
         (static_cast<double>(lengths.step_ps) / 1e12);
}

const std::vector<CostPoint> kV41 = line(10'260'000'000, 700);

/// The three rows of section 5.3, `times` each.
Rows three_kinds(int times) {
  Rows rows;
  for (int i = 0; i < times; ++i)
    rows.add({.95, .9, .9, .85, .8});
  for (int i = 0; i < times; ++i)
    rows.add({.6, .5, .5, .4, .4});
  for (int i = 0; i < times; ++i)
    rows.add({.3, .3, .3, .3, .3});
  return rows;
}

TEST(DraftLengthByLoad, BudgetRows) {
  struct Case {
    int times;
    Lengths kinds;
    double rate;
    double tolerance;
  };
  for (const Case& one : {Case{1, {5, 5, 3}, 791.16, 0.005}, Case{20, {5, 2, 1}, 11'794, 0.5},
                          Case{32, {5, 2, 1}, 16'502.6, 0.05}, Case{64, {5, 1, 0}, 25'158, 0.5},
                          Case{100, {5, 1, 0}, 31'349, 0.5}}) {
    ByLoadDrafts policy({});
    const Rows rows = three_kinds(one.times);
    const DraftLengths made = choose(policy, rows, kV41);
    for (int i = 0; i < 3 * one.times; ++i) {
      ASSERT_EQ(made.lengths[static_cast<std::size_t>(i)],
                one.kinds[static_cast<std::size_t>(i / one.times)])
          << one.times << " " << i;
    }
    EXPECT_NEAR(tokens_a_second(made), one.rate, one.tolerance);
  }
  ByLoadDrafts policy({});
  const DraftLengths steep = choose(policy, three_kinds(1), line(1'000'000'000, 4));
  EXPECT_EQ(steep.lengths, (Lengths{4, 1, 0}));
  EXPECT_NEAR(tokens_a_second(steep), 2'276.19, 0.005);
}

// SPS(1, 2, 3) = 1.0, 0.5, 0.45: step times 1, 2, 2.222 s.
TEST(DraftLengthByLoad, CounterExampleOfCausalAndRetrospective) {
  const std::vector<CostPoint> points = {
      {1, 1'000'000'000'000}, {2, 2'000'000'000'000}, {3, 2'222'222'222'222}};
  ByLoadDrafts causal({.search = DraftSearch::causal});
  ByLoadDrafts retrospective({});
  Rows likely;
  likely.add({0.8, 0.9});
  EXPECT_EQ(choose(causal, likely, points).lengths, (Lengths{0}));
  const DraftLengths all = choose(retrospective, likely, points);
  EXPECT_EQ(all.lengths, (Lengths{2}));
  EXPECT_NEAR(tokens_a_second(all), 1.134, 0.0005);
  Rows unlikely;
  unlikely.add({0.8, 0.0});
  EXPECT_EQ(choose(retrospective, unlikely, points).lengths, (Lengths{0}));
}

// Target (0.7, 0.3), draft (0.5, 0.5): a draft A is accepted always, a draft B in 0.6 of all cases.
// Who verifies only what looks likely now gets A too often.
TEST(DraftLengthByLoad, OldConfidencesKeepTheDistribution) {
  std::printf("seed 41\n");
  const std::vector<CostPoint> points = {{1, 1'000'000}, {2, 1'700'000}};
  const auto share_of_a = [&](bool old) {
    testing::Draws draws(41, 5);
    ByLoadDrafts policy({});
    std::int64_t a = 0;
    constexpr int kTrials = test::times(1'000'000);
    const std::vector<std::int64_t> certain = {kCertain};
    const std::vector<std::int64_t> likely = {static_cast<std::int64_t>(0.6 * kCertain)};
    const std::vector<std::int64_t> before = {static_cast<std::int64_t>(0.8 * kCertain)};
    const std::vector<std::int64_t> tokens = {1};
    for (int i = 0; i < kTrials; ++i) {
      const bool draft_a = draws.uniform() < 0.5;
      DraftRow row;
      row.survivals = draft_a ? certain : likely;
      if (old) row.old_survivals = before;
      const auto made = policy.choose({{&row, 1}, tokens, {points}}, {});
      bool out_a = false;
      if (made.value->lengths[0] == 0) {
        out_a = draws.uniform() < 0.7;
      } else if (draft_a) {
        out_a = true;
      } else {
        out_a = draws.uniform() >= 0.6; // A rejected B is drawn again from what is left: A.
      }
      a += out_a ? 1 : 0;
    }
    return static_cast<double>(a) / kTrials;
  };
  EXPECT_NEAR(share_of_a(false), 0.85, 0.002);
  EXPECT_NEAR(share_of_a(true), 0.70, 0.002);
}

/// `sequences` rows with equal drafts, `drafts` in all, so that `out` tokens come out of them, and
/// one more draft of the given survival behind them.
Rows rows_before_one(int sequences, int drafts, double out, double last) {
  Rows rows;
  const double survival = (out - sequences) / drafts;
  for (int i = 0; i < sequences; ++i) {
    const int own = drafts / sequences + (i < drafts % sequences ? 1 : 0);
    Probabilities conditional = {survival};
    conditional.resize(static_cast<std::size_t>(own), 1.0);
    if (i == 0) conditional.push_back(last / survival);
    rows.add(conditional);
  }
  return rows;
}

// A draft is verified iff its survival exceeds out / (B0 + B): 0.066, 0.198 and 0.278 at 16, 60 and
// 96 sequences.
TEST(DraftLengthByLoad, BarsOfThreeLoads) {
  struct Load {
    int sequences, drafts;
    double out, bar;
  };
  for (const Load& load :
       {Load{16, 59, 51.2, 0.066}, Load{60, 210, 192, 0.198}, Load{96, 307, 307, 0.278}}) {
    for (const bool above : {false, true}) {
      const double last = load.bar + (above ? 0.001 : -0.001);
      ByLoadDrafts policy({});
      const Rows rows = rows_before_one(load.sequences, load.drafts, load.out, last);
      const Lengths lengths = choose(policy, rows, kV41).lengths;
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), 0LL), load.drafts + (above ? 1 : 0))
          << load.sequences << " sequences, " << last;
    }
  }
}

TEST(DraftLengthByLoad, TheBarRisesWithLoad) {
  for (const int times : {1, 5, 20, 32, 64}) {
    ByLoadDrafts policy({});
    const Rows rows = three_kinds(times);
    const DraftLengths made = choose(policy, rows, kV41);
    const auto n = static_cast<std::int64_t>(rows.rows().size());
    const double batch =
        static_cast<double>(std::accumulate(made.lengths.begin(), made.lengths.end(), n));
    const double bar = static_cast<double>(made.expected) / kCertain / (700 + batch);
    for (std::size_t i = 0; i < rows.rows().size(); ++i) {
      const auto survivals = rows.rows()[i].survivals;
      const auto length = static_cast<std::size_t>(made.lengths[i]);
      if (length > 0) {
        EXPECT_GE(static_cast<double>(survivals[length - 1]) / kCertain, bar - 0.002);
      }
      if (length < survivals.size()) {
        EXPECT_LE(static_cast<double>(survivals[length]) / kCertain, bar + 0.002);
      }
    }
  }
}

/// The measured curve of section 5.2, with the cliff behind the largest graph.
std::vector<CostPoint> measured() {
  std::vector<CostPoint> points;
  const std::vector<std::pair<std::int64_t, double>> ms = {
      {4, 5.2},    {16, 5.6},   {32, 6.3},   {64, 8.2},   {96, 9.0},    {128, 9.5},
      {256, 11.5}, {512, 16.2}, {640, 17.7}, {768, 17.8}, {1024, 20.6}, {1025, 104}};
  for (const auto& [tokens, time] : ms)
    points.push_back({tokens, static_cast<std::int64_t>(std::llround(time * 1e9))});
  return points;
}

TEST(DraftLengthByLoad, StopsBeforeTheCliffOfTheLargestGraph) {
  Rows rows;
  for (int i = 0; i < 256; ++i)
    rows.add({.99, .98, .98, .97, .97});
  ByLoadDrafts policy({});
  const std::vector<std::int64_t> tokens = {256};
  const auto points = measured();
  DraftQuery query{rows.rows(), tokens, {points}};
  query.costs.captured_max = 1024;
  const auto made = policy.choose(query, {});
  EXPECT_EQ(std::accumulate(made.value->lengths.begin(), made.value->lengths.end(), 256LL), 1024);
  // The released engine's reading has nothing beyond the last graph.
  query.costs.curve = CostCurve::graphs;
  query.costs.points = {points.data(), points.size() - 1};
  const auto released = policy.choose(query, {});
  EXPECT_EQ(std::accumulate(released.value->lengths.begin(), released.value->lengths.end(), 256LL),
            1024);
  // Slope 12.4 us a token between 128 and 1024, which makes B0 about 640.
  const StepCosts costs{points};
  const double slope_us = static_cast<double>(costs.at(1024) - costs.at(128)) / 1e6 / (1024 - 128);
  EXPECT_NEAR(slope_us, 12.4, 0.05);
  EXPECT_NEAR(static_cast<double>(costs.at(128)) / 1e6 / slope_us - 128, 640, 2);
}

// Drafting takes 3.1 ms at 128 sequences, 5.4 at 256: time that is spent anyway, so more drafts are
// worth it, up to the cliff.
TEST(DraftLengthByLoad, DraftingTimeLowersTheBarButNotTheCliff) {
  const auto verified = [](int sequences, double draft_ms, const Probabilities& conditional) {
    Rows rows;
    for (int i = 0; i < sequences; ++i)
      rows.add(conditional);
    ByLoadDrafts policy({});
    const std::vector<std::int64_t> tokens = {sequences};
    const auto points = measured();
    DraftQuery query{rows.rows(), tokens, {points}};
    query.costs.captured_max = 1024;
    query.costs.extra_ps = static_cast<std::int64_t>(std::llround(draft_ms * 1e9));
    const Lengths lengths = policy.choose(query, {}).value->lengths;
    return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  };
  const Probabilities unsure = {.6, .6, .6, .6, .6};
  EXPECT_EQ(verified(128, 0, unsure), 128) << "204.8 / 11.5 ms";
  EXPECT_EQ(verified(128, 3.1, unsure), 5 * 128) << "305.1 / 20.9 ms against 204.8 / 14.6 ms";
  EXPECT_EQ(verified(256, 5.4, {.99, .98, .98, .97, .97}), 1024 - 256);
}

TEST(StepCosts, StaircaseLinesAndTheReleasedReading) {
  const std::vector<CostPoint> points = {{4, 100}, {8, 90}, {16, 200}, {32, 400}};
  StepCosts costs{points};
  costs.captured_max = 16;
  EXPECT_EQ(costs.at(1), 100);
  EXPECT_EQ(costs.at(4), 100);
  EXPECT_EQ(costs.at(5), 100) << "no size is cheaper than a smaller one";
  EXPECT_EQ(costs.at(9), 200);
  EXPECT_EQ(costs.at(24), 300) << "a straight line beyond the recorded sizes";
  EXPECT_EQ(costs.at(64), 800);
  costs.token_ps = 2;
  costs.extra_ps = 7;
  EXPECT_EQ(costs.at(9), 200 + 2 * 16 + 7);
  costs.curve = CostCurve::graphs;
  EXPECT_EQ(costs.at(5), 90 + 2 * 8 + 7) << "as measured, not repaired";
  EXPECT_EQ(costs.at(32), 400 + 2 * 32 + 7);
  EXPECT_EQ(costs.at(33), StepCosts::kNever);
}

// Section 5.4: what is published, and which mean verified length fits it at B0 = 700 and at 800.
struct Published {
  int sequences;
  double gain, time_ratio, verified_700, verified_800;
};

constexpr Published kPublished[] = {{16, -0.015, 1.0127, 4.38, 4.30},
                                    {60, 0.054, 1.0836, 3.64, 3.51},
                                    {72, 0.067, 1.0970, 3.61, 3.49},
                                    {96, 0.110, 1.1412, 3.36, 3.23}};

/// The mean number of verified drafts at which the gain over five each is the published one.
double implied_length(const StepCosts& costs, const Published& p) {
  const double wanted_ps = static_cast<double>(costs.at(6 * p.sequences)) / p.time_ratio;
  std::int64_t tokens = p.sequences;
  while (static_cast<double>(costs.at(tokens + 1)) < wanted_ps)
    ++tokens;
  const auto below = static_cast<double>(costs.at(tokens));
  const double part = (wanted_ps - below) / (static_cast<double>(costs.at(tokens + 1)) - below);
  return (static_cast<double>(tokens) + part) / p.sequences - 1;
}

TEST(StepCosts, AlgebraOfThePublishedTable) {
  const auto line_800 = line(10'260'000'000, 800);
  const StepCosts costs{kV41};
  const StepCosts flatter{line_800};
  double before = 5;
  for (const Published& p : kPublished) {
    // gain = 3.20 / 3.29 · t(6R) / t(R(1 + v)) - 1
    EXPECT_NEAR((1 + p.gain) * 3.29 / 3.20, p.time_ratio, 0.0001) << p.sequences;
    const double verified = implied_length(costs, p);
    EXPECT_NEAR(verified, p.verified_700, 0.006) << p.sequences;
    EXPECT_NEAR(implied_length(flatter, p), p.verified_800, 0.006) << p.sequences;
    EXPECT_LT(verified, before) << "falls with load";
    EXPECT_GE(verified, 3.2);
    EXPECT_LE(verified, 4.4);
    before = verified;
  }
  // Fixed 5 at 256 sequences: 100.4 tokens/s for a user, 25,699 in all (section 9.3, C3).
  const double step_s = static_cast<double>(costs.at(6 * 256)) / 1e12;
  EXPECT_NEAR(3.29 / step_s, 100.4, 0.1);
  EXPECT_NEAR(3.29 * 256 / step_s, 25'699, 20);
}

// S13 and the drop that others saw when the number of sequences crossed a threshold: tokens per
// time never fall when a sequence is added, and never below verifying all or none.
TEST(DraftLengthByLoad, NeverWorseThanAllOrNoneAndNoDropWithLoad) {
  double before = 0;
  for (int times = 1; times <= 40; ++times) {
    ByLoadDrafts policy({});
    AllDrafts all;
    const Rows rows = three_kinds(times);
    const double ours = tokens_a_second(choose(policy, rows, kV41));
    EXPECT_GE(ours * (1 + 1e-9), tokens_a_second(choose(all, rows, kV41)));
    Rows bare;
    for (int i = 0; i < 3 * times; ++i)
      bare.add({});
    EXPECT_GE(ours * (1 + 1e-9), tokens_a_second(choose(all, bare, kV41)));
    EXPECT_GT(ours, before);
    before = ours;
  }
}

// D8: rank 0 holds 60 sequences, rank 1 holds 6. All wait for rank 0, so rank 1 verifies all of its
// drafts below rank 0's size at no cost.
TEST(DraftLengthByLoad, OneDecisionForTheRanksThatWaitForEachOther) {
  Rows rows;
  for (int i = 0; i < 60; ++i)
    rows.add({.6, .5, .5, .4, .4}, 0);
  for (int i = 0; i < 6; ++i)
    rows.add({.6, .5, .5, .4, .4}, 1);
  ByLoadDrafts policy({});
  const DraftLengths made = choose(policy, rows, kV41, {60, 6});
  for (std::size_t i = 60; i < 66; ++i)
    EXPECT_EQ(made.lengths[i], 5);
  const std::int64_t fullest =
      std::accumulate(made.lengths.begin(), made.lengths.begin() + 60, 60LL);
  EXPECT_LT(fullest, 360);
  EXPECT_EQ(made.step_ps, StepCosts{kV41}.at(fullest));
}

TEST(DraftLengthByLoad, LearnsFromMeasuredStepsWithinItsClamp) {
  ByLoadDrafts policy({.learn_permille = 1000});
  Rows rows;
  for (int i = 0; i < 8; ++i)
    rows.add({1, 1, 1, 1, 1});
  const DraftLengths first = choose(policy, rows, kV41);
  const std::int64_t tokens = 8 + 40;
  policy.observe({tokens, first.step_ps, first.step_ps * 11 / 10});
  const DraftLengths second = choose(policy, rows, kV41);
  EXPECT_EQ(second.lengths, first.lengths);
  EXPECT_NEAR(static_cast<double>(second.step_ps), 1.1 * static_cast<double>(first.step_ps),
              1e-5 * static_cast<double>(first.step_ps));
  // A measurement that agrees with what was expected changes nothing.
  policy.observe({tokens, second.step_ps, second.step_ps});
  EXPECT_EQ(choose(policy, rows, kV41).step_ps, second.step_ps);
  policy.observe({tokens, second.step_ps, 10 * second.step_ps});
  EXPECT_NEAR(static_cast<double>(choose(policy, rows, kV41).step_ps),
              1.15 * static_cast<double>(first.step_ps), 1e-4 * static_cast<double>(first.step_ps));
  ByLoadDrafts next({});
  next.import_state(policy.export_state());
  EXPECT_EQ(choose(next, rows, kV41).step_ps, choose(policy, rows, kV41).step_ps);
  next.import_state("nonsense");
  EXPECT_EQ(choose(next, rows, kV41).step_ps, choose(policy, rows, kV41).step_ps);
}

/// Rows of random survivals, with old ones at times; many equal, some out of range.
std::vector<DraftRow> random_rows(Rng& rng, std::deque<std::vector<std::int64_t>>& kept) {
  const std::uint64_t spread = std::uint64_t{1} << rng.below(31);
  const bool odd = rng.below(8) == 0;
  const auto survivals = [&](std::uint64_t count) {
    auto& out = kept.emplace_back();
    for (std::uint64_t j = 0; j < count; ++j)
      out.push_back(kCertain - static_cast<std::int64_t>(rng.below(spread)));
    std::sort(out.rbegin(), out.rend());
    if (odd && !out.empty()) out.front() += 5;
    return std::span<const std::int64_t>(out);
  };
  std::vector<DraftRow> rows(rng.below(90));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].ref.request = RequestId{i};
    rows[i].survivals = survivals(rng.below(7));
    if (rng.below(2) == 0) rows[i].old_survivals = survivals(rng.below(7));
  }
  return rows;
}

// One rank is chosen for without sorting all drafts, several are not: with a second rank that has
// no rows both must come to the same.
TEST(DraftLengthByLoad, OneRankAloneIsAsOneRankBesideAnEmptyOne) {
  std::printf("seed 83\n");
  Rng rng(83);
  const auto points = measured();
  std::int64_t partly = 0;
  for (int round = 0; round < 3000; ++round) {
    std::deque<std::vector<std::int64_t>> kept;
    const std::vector<DraftRow> rows = random_rows(rng, kept);
    const auto own = static_cast<std::int64_t>(rows.size());
    const std::vector<std::int64_t> one = {own + static_cast<std::int64_t>(rng.below(3))};
    const std::vector<std::int64_t> two = {one[0], 0};
    DraftQuery query{rows, one, {points}};
    query.costs.captured_max = static_cast<std::int64_t>(rng.below(1200));
    query.costs.curve = rng.below(2) == 0 ? CostCurve::staircase : CostCurve::graphs;
    query.costs.token_ps = static_cast<std::int64_t>(rng.below(20'000'000));
    ByLoadDrafts policy(
        {.search = rng.below(2) == 0 ? DraftSearch::throughput : DraftSearch::causal});
    for (std::int64_t size = 1; size < 512; size *= 2)
      policy.observe({size, 1000, 900 + static_cast<std::int64_t>(rng.below(200))});
    const auto alone = policy.choose(query, {});
    query.rank_tokens = two;
    const auto beside = policy.choose(query, {});
    ASSERT_EQ(alone.value->lengths, beside.value->lengths) << round;
    ASSERT_EQ(alone.value->expected, beside.value->expected) << round;
    ASSERT_EQ(alone.value->step_ps, beside.value->step_ps) << round;
    ASSERT_EQ(alone.reason, beside.reason) << round;
    const auto taken =
        std::accumulate(alone.value->lengths.begin(), alone.value->lengths.end(), std::int64_t{0});
    partly += alone.reason == Reason::budget_reached && taken > 0 ? 1 : 0;
  }
  EXPECT_GT(partly, 300) << "most questions are about where to stop";
}

TEST(StepCosts, AWalkReadsWhatALookUpReads) {
  std::printf("seed 89\n");
  Rng rng(89);
  for (int round = 0; round < 500; ++round) {
    std::vector<CostPoint> points;
    for (std::int64_t tokens = 0; points.size() < 1 + rng.below(9);) {
      tokens += 1 + static_cast<std::int64_t>(rng.below(40));
      points.push_back({tokens, static_cast<std::int64_t>(rng.below(1 << 20))});
    }
    StepCosts costs{points};
    costs.captured_max = static_cast<std::int64_t>(rng.below(300));
    costs.curve = rng.below(2) == 0 ? CostCurve::staircase : CostCurve::graphs;
    costs.token_ps = static_cast<std::int64_t>(rng.below(9));
    Residuals residuals;
    for (std::int64_t& off : residuals.off)
      off = static_cast<std::int64_t>(rng.below(300'001)) - 150'000;
    StepCostWalk walk(costs);
    CorrectedWalk corrected(costs, residuals);
    for (std::int64_t tokens = 0; tokens < 400; tokens += static_cast<std::int64_t>(rng.below(5))) {
      ASSERT_EQ(walk.at(tokens), costs.at(tokens)) << round << " " << tokens;
      ASSERT_EQ(corrected.at(tokens), residuals.corrected(costs, tokens)) << round << " " << tokens;
    }
  }
}

TEST(DraftLengths, EdgesOfTheQuestion) {
  for (const bool by_load : {false, true}) {
    AllDrafts all;
    ByLoadDrafts chosen({});
    DraftLengthPolicy& policy = by_load ? static_cast<DraftLengthPolicy&>(chosen) : all;
    const DraftQuery nobody{};
    const auto none = policy.choose(nobody, {});
    EXPECT_TRUE(none.value->lengths.empty());
    EXPECT_EQ(none.reason, Reason::nothing_to_do);
    EXPECT_TRUE(validate(none, nobody).ok());
    // Without a table there is nothing to trim by.
    const Rows rows = three_kinds(1);
    EXPECT_EQ(choose(policy, rows, {}).lengths, (Lengths{5, 5, 5}));
  }
  // Equal survivals: the lower row first.
  Rows equal;
  equal.add({0.5});
  equal.add({0.5});
  ByLoadDrafts policy({});
  const std::vector<CostPoint> points = {{2, 100}, {3, 110}, {4, 1000}};
  EXPECT_EQ(choose(policy, equal, points).lengths, (Lengths{1, 0}));
}

} // namespace
} // namespace troupe::sched
