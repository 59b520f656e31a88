// Packing by tokens and by time: policies.md sections 1.3 to 1.5.

#include "schedulers/policies/prefill_chunker/balance_group.hpp"
#include "schedulers/policies/prefill_chunker/fixed.hpp"
#include "schedulers/policies/prefill_chunker/time_budget.hpp"
#include "schedulers/policy/validate.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <numeric>
#include <vector>

namespace troupe::sched {
namespace {

using testing::ContextBuilder;
using testing::request;
using testing::sm100_ep4;

std::vector<std::int64_t> tokens_of(const Decision<Slices>& decision) {
  std::vector<std::int64_t> tokens;
  for (const Share& share : decision.value->shares)
    tokens.push_back(share.tokens);
  return tokens;
}

/// n new tokens after c.
RequestView chunk(std::uint64_t id, std::int64_t n, std::int64_t c) {
  return request(id, n + c, c);
}

TEST(PrefillChunkerTimeBudget, PacksTheWorkedExample) {
  //            wanted     taken
  //   (n=2000, c= 48000)   2000
  //   (n= 500, c=120000)    500
  //   (n=9000, c=     0)   4461   cut where 100 ms end
  //   (n=3000, c= 30000)      0
  ContextBuilder builder{sm100_ep4()};
  const std::array<RequestView, 4> requests = {chunk(1, 2000, 48'000), chunk(2, 500, 120'000),
                                               chunk(3, 9000, 0), chunk(4, 3000, 30'000)};
  TimeBudgetChunker chunker({.budget_us = 100'000, .align_tokens = 1});
  const PackQuery query{{}, 1'000'000};
  const auto decision = chunker.pack(query, requests, builder.context());
  EXPECT_EQ(tokens_of(decision), (std::vector<std::int64_t>{2000, 500, 4461}));
  EXPECT_EQ(decision.reason, Reason::budget_reached);
  EXPECT_TRUE(validate(decision, query, requests).ok());
  std::int64_t left = 100'000'000'000 - builder.model.step_ps;
  for (const Share& share : decision.value->shares) {
    left -= builder.model.marginal_ps(share.tokens, requests[share.candidate].done);
  }
  EXPECT_NEAR(static_cast<double>(left) / 1e9, 0.0085, 0.0001);
}

TEST(PrefillChunkerTimeBudget, ShrinksWithContext) {
  ContextBuilder builder{sm100_ep4()};
  TimeBudgetChunker chunker({.budget_us = 100'000, .align_tokens = 1});
  std::int64_t before = 1'000'000;
  for (const std::int64_t context : {0, 131'072, 1'000'000}) {
    const std::array<RequestView, 1> requests = {chunk(1, 50'000, context)};
    const auto tokens = tokens_of(chunker.pack({{}, 1'000'000}, requests, builder.context()));
    EXPECT_LT(tokens[0], before);
    before = tokens[0];
  }
  EXPECT_EQ(before, 2810);
}

TEST(PrefillChunkerTimeBudget, AlignsAllButTheLastChunkOfAPrompt) {
  ContextBuilder builder{sm100_ep4()};
  TimeBudgetChunker chunker({.budget_us = 100'000, .align_tokens = 128});
  const std::array<RequestView, 1> whole = {chunk(1, 100, 0)};
  EXPECT_EQ(tokens_of(chunker.pack({{}, 10'000}, whole, builder.context()))[0], 100);
  const std::array<RequestView, 1> longer = {chunk(1, 9000, 0)};
  EXPECT_EQ(tokens_of(chunker.pack({{}, 10'000}, longer, builder.context()))[0], 7168);
  // The step's own limit counts too.
  EXPECT_EQ(tokens_of(chunker.pack({{}, 300}, longer, builder.context()))[0], 256);
}

TEST(PrefillChunkerTimeBudget, ABudgetBelowOneTokenStillMovesOn) {
  ContextBuilder builder{sm100_ep4()};
  TimeBudgetChunker chunker({.budget_us = 25'000, .align_tokens = 1});
  const std::array<RequestView, 2> requests = {chunk(1, 9000, 0), chunk(2, 10, 0)};
  const auto decision = chunker.pack({{}, 512}, requests, builder.context());
  EXPECT_EQ(tokens_of(decision), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(decision.reason, Reason::budget_too_small);
}

//   order   (c)  3000 tokens, came last       nine tenths of the step go to the others ...
//           (b)  5000
//           (a)  9000, came first              ... and a tenth of the step to the oldest
TEST(PrefillChunkerTimeBudget, KeepsAShareForTheOldest) {
  ContextBuilder builder{sm100_ep4()};
  std::array<RequestView, 3> requests = {chunk(3, 3000, 0), chunk(2, 5000, 0), chunk(1, 9000, 0)};
  const PackQuery query{{}, 1'000'000};
  TimeBudgetChunker none({.budget_us = 100'000, .align_tokens = 1});
  EXPECT_EQ(tokens_of(none.pack(query, requests, builder.context())),
            (std::vector<std::int64_t>{3000, 4204}));
  TimeBudgetChunker tenth({.budget_us = 100'000, .align_tokens = 1, .oldest_permille = 100});
  const auto decision = tenth.pack(query, requests, builder.context());
  EXPECT_TRUE(validate(decision, query, requests).ok());
  ASSERT_EQ(decision.value->shares.size(), 3U);
  EXPECT_EQ(decision.value->shares[2].candidate, 2U);
  const std::int64_t oldest_ps = builder.model.marginal_ps(decision.value->shares[2].tokens, 0);
  EXPECT_GE(oldest_ps, (100'000'000'000 - builder.model.step_ps) / 10 - builder.model.token_ps * 2);
  EXPECT_LT(decision.value->shares[1].tokens, 4204);
  std::int64_t all_ps = builder.model.step_ps;
  for (const Share& share : decision.value->shares)
    all_ps += builder.model.marginal_ps(share.tokens, 0);
  EXPECT_LE(all_ps, 100'000'000'000);
  // In order of arrival nothing is kept back.
  std::swap(requests[0], requests[2]);
  EXPECT_EQ(tokens_of(tenth.pack(query, requests, builder.context())),
            (std::vector<std::int64_t>{7184}));
}

TEST(PrefillChunkerFixed, TakesWholePromptsInOrderAndCutsTheLast) {
  //   budget 10:  A A A A | B B B B B | C . . .
  ContextBuilder builder;
  const std::array<RequestView, 3> requests = {chunk(1, 4, 0), chunk(2, 5, 3), chunk(3, 4, 0)};
  FixedChunker chunker({.budget_tokens = 10});
  const auto decision = chunker.pack({{}, 64}, requests, builder.context());
  EXPECT_EQ(tokens_of(decision), (std::vector<std::int64_t>{4, 5, 1}));
  EXPECT_EQ(decision.reason, Reason::budget_reached);
  // Without a budget the step's limit is the budget.
  FixedChunker open({});
  EXPECT_EQ(tokens_of(open.pack({{}, 6}, requests, builder.context())),
            (std::vector<std::int64_t>{4, 2}));
  const auto all = open.pack({{}, 64}, requests, builder.context());
  EXPECT_EQ(all.reason, Reason::within_budget);
}

/// Times of the steps of one prompt, in ms.
std::vector<double> steps_of(PrefillChunker& chunker, std::int64_t prompt) {
  ContextBuilder builder{sm100_ep4()};
  std::vector<double> steps_ms;
  for (std::int64_t done = 0; done < prompt;) {
    const std::array<RequestView, 1> one = {chunk(1, prompt - done, done)};
    const auto decision = chunker.pack({{}, 1'000'000}, one, builder.context());
    const std::int64_t tokens = decision.value->shares[0].tokens;
    steps_ms.push_back(static_cast<double>(builder.model.chunk_ps(tokens, done)) / 1e9);
    done += tokens;
  }
  return steps_ms;
}

// Bar of section 10: steps within 1 % of 100 ms but for the last, and at most 8 % more in all than
// fixed chunks of 8,192, whose steps grow by 15 %.
TEST(PrefillChunkers, TimeBudgetsKeepStepsEvenForSevenPercentMore) {
  TimeBudgetChunker timed({.budget_us = 100'000, .align_tokens = 1});
  FixedChunker fixed({.budget_tokens = 8192});
  const auto even = steps_of(timed, 131'072);
  const auto growing = steps_of(fixed, 131'072);
  ASSERT_EQ(even.size(), 21U);
  for (std::size_t i = 0; i + 1 < even.size(); ++i)
    EXPECT_NEAR(even[i], 100, 1) << i;
  const double even_ms = std::accumulate(even.begin(), even.end(), 0.0);
  const double growing_ms = std::accumulate(growing.begin(), growing.end(), 0.0);
  EXPECT_NEAR(even_ms / growing_ms, 1.07, 0.005);
  EXPECT_LE(even_ms, 1.08 * growing_ms);
  EXPECT_NEAR(growing.back() / growing.front(), 1.15, 0.005);
}

TEST(PrefillChunkers, StepBudgets) {
  const CostModel m = sm100_ep4();
  EXPECT_EQ(TimeBudgetChunker({.budget_us = 100'000, .align_tokens = 1}).step_budget_ps(m, 512),
            100'000'000'000);
  EXPECT_EQ(FixedChunker({.budget_tokens = 8192}).step_budget_ps(m, 10'000), m.chunk_ps(8192, 0));
  EXPECT_EQ(FixedChunker({}).step_budget_ps(m, 512), m.chunk_ps(512, 0));
}

TEST(PrefillChunkers, RandomAsksAreAnsweredValidlyAndProgress) {
  std::printf("seed 3\n");
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    ContextBuilder builder;
    builder.model = {static_cast<std::int64_t>(rng.below(1U << 20)),
                     static_cast<std::int64_t>(rng.below(1U << rng.below(30))),
                     static_cast<std::int64_t>(rng.below(1U << rng.below(12))),
                     0,
                     1,
                     1};
    std::vector<RequestView> requests;
    const auto count = 1 + rng.below(6);
    for (std::uint64_t r = 0; r < count; ++r) {
      requests.push_back(chunk(r, 1 + static_cast<std::int64_t>(rng.below(5000)),
                               static_cast<std::int64_t>(rng.below(100'000))));
    }
    const PackQuery query{{}, 1 + static_cast<std::int64_t>(rng.below(4096))};
    TimeBudgetChunker timed({.budget_us = 1 + static_cast<std::int64_t>(rng.below(1'000'000)),
                             .align_tokens = 1 + static_cast<std::int64_t>(rng.below(300))});
    FixedChunker fixed({.budget_tokens = static_cast<std::int64_t>(rng.below(5000))});
    for (PrefillChunker* chunker :
         {static_cast<PrefillChunker*>(&timed), static_cast<PrefillChunker*>(&fixed)}) {
      const auto decision = chunker->pack(query, requests, builder.context());
      ASSERT_TRUE(validate(decision, query, requests).ok());
      ASSERT_FALSE(decision.value->shares.empty());
    }
  }
}

constexpr GroupCost kGroup{26'300'000'000, 6'700'000, 3'500'000, 0, 1000};

TEST(BalanceGroup, StepTimesOfTheWorkedExample) {
  const std::array<GroupLoad, 4> uneven = {{{7000, 0}, {7000, 0}, {7000, 0}, {1000, 0}}};
  const std::array<GroupLoad, 4> even = {{{5500, 0}, {5500, 0}, {5500, 0}, {5500, 0}}};
  EXPECT_NEAR(static_cast<double>(group_step_ps(kGroup, uneven)) / 1e9, 92.45, 0.005);
  EXPECT_NEAR(static_cast<double>(group_step_ps(kGroup, even)) / 1e9, 82.40, 0.005);
  EXPECT_NEAR(1 - static_cast<double>(group_step_ps(kGroup, even)) /
                      static_cast<double>(group_step_ps(kGroup, uneven)),
              0.109, 0.0005);
}

TEST(BalanceGroup, WaterFillingRecoversTheStep) {
  const std::array<GroupChunk, 4> chunks = {{{7000, 0}, {7000, 0}, {7000, 0}, {1000, 0}}};
  const auto pieces = balance_group(kGroup, chunks, 4);
  const auto loads = group_loads(chunks, pieces, 4);
  EXPECT_LE(static_cast<double>(group_step_ps(kGroup, loads)) / 1e9, 82.5);
  for (const GroupLoad& load : loads)
    EXPECT_EQ(load.tokens, 5500);
}

TEST(BalanceGroup, EveryTokenExactlyOnceAndOneSplitARank) {
  std::printf("seed 21\n");
  Rng rng(21);
  double worst = 0;
  for (int i = 0; i < 500; ++i) {
    GroupCost cost = kGroup;
    cost.pair_ps = 16;
    std::vector<GroupChunk> chunks;
    const auto ranks = static_cast<std::uint32_t>(1 + rng.below(8));
    const auto count = 1 + rng.below(20);
    for (std::uint64_t c = 0; c < count; ++c) {
      chunks.push_back({1 + static_cast<std::int64_t>(rng.below(8192)),
                        static_cast<std::int64_t>(rng.below(200'000))});
    }
    const auto pieces = balance_group(cost, chunks, ranks);
    std::vector<std::int64_t> covered(chunks.size(), 0);
    std::vector<GroupPiece> ordered = pieces;
    std::sort(ordered.begin(), ordered.end(), [](const GroupPiece& a, const GroupPiece& b) {
      return std::tie(a.chunk, a.first) < std::tie(b.chunk, b.first);
    });
    for (const GroupPiece& piece : ordered) {
      ASSERT_EQ(piece.first, covered[piece.chunk]);
      ASSERT_GE(piece.tokens, 1);
      covered[piece.chunk] += piece.tokens;
    }
    for (std::size_t c = 0; c < chunks.size(); ++c)
      ASSERT_EQ(covered[c], chunks[c].tokens);
    std::vector<int> cuts(chunks.size(), -1);
    for (const GroupPiece& piece : pieces)
      ++cuts[piece.chunk];
    const auto split = std::count_if(cuts.begin(), cuts.end(), [](int n) { return n > 0; });
    ASSERT_LE(split, static_cast<std::ptrdiff_t>(ranks)) << "one chunk of a rank at most";
    const auto loads = group_loads(chunks, pieces, ranks);
    std::int64_t highest = 0;
    std::int64_t sum = 0;
    for (const GroupLoad& load : loads) {
      const std::int64_t ps = cost.token_local_ps * load.tokens + cost.pair_ps * load.pairs;
      highest = std::max(highest, ps);
      sum += ps;
    }
    if (count >= 2 * ranks) {
      worst = std::max(worst, static_cast<double>(highest) * ranks / static_cast<double>(sum));
    }
  }
  std::printf("highest over mean, worst of the mixes with two chunks a rank: %.4f\n", worst);
  EXPECT_LE(worst, 1.02) << "within 2 % of the bound on random mixes";
}

} // namespace
} // namespace troupe::sched
