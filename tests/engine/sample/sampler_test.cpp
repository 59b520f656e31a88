// Sampler: edges of every filter by hand, frequencies by chi-square, and dependence on nothing
// else.

#include "engine/sample/sampler.hpp"
#include "schedulers/core/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <set>

namespace troupe::engine {
namespace {

TokenLogprob must_sample(const std::vector<float>& logits, const SamplingPlan& plan,
                         const std::vector<std::int32_t>& suppressed = {}) {
  std::vector<TokenLogprob> top;
  auto drawn = sample_token(logits, plan, suppressed, top);
  EXPECT_TRUE(drawn.ok());
  return *drawn;
}

/// How often each id is drawn over `draws` output positions.
std::vector<std::int64_t> frequencies(const std::vector<float>& logits, SamplingPlan plan,
                                      std::int64_t draws,
                                      const std::vector<std::int32_t>& suppressed = {}) {
  std::vector<std::int64_t> counts(logits.size());
  for (plan.output_position = 0; plan.output_position < draws; ++plan.output_position) {
    ++counts[static_cast<std::size_t>(must_sample(logits, plan, suppressed).token)];
  }
  return counts;
}

double chi_square(const std::vector<std::int64_t>& counts, const std::vector<double>& shares) {
  std::int64_t draws = 0;
  for (const std::int64_t n : counts)
    draws += n;
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (shares[i] == 0) {
      EXPECT_EQ(counts[i], 0) << "id " << i;
      continue;
    }
    const double expected = shares[i] * static_cast<double>(draws);
    const double gap = static_cast<double>(counts[i]) - expected;
    sum += gap * gap / expected;
  }
  return sum;
}

std::set<std::int32_t> drawn_ids(const std::vector<float>& logits, const SamplingPlan& plan,
                                 const std::vector<std::int32_t>& suppressed = {}) {
  std::set<std::int32_t> ids;
  const auto counts = frequencies(logits, plan, 2000, suppressed);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) ids.insert(static_cast<std::int32_t>(i));
  }
  return ids;
}

using Ids = std::set<std::int32_t>;

SamplingPlan seeded(std::uint64_t seed) {
  SamplingPlan plan;
  plan.seed = seed;
  return plan;
}

SamplingPlan greedy() {
  SamplingPlan plan;
  plan.temperature = 0;
  return plan;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOnTies) {
  EXPECT_EQ(must_sample({1, 3, 2}, greedy()).token, 1);
  EXPECT_EQ(must_sample({1, 3, 3, 3}, greedy()).token, 1);
  EXPECT_EQ(must_sample({-0.0F, 0.0F}, greedy()).token, 0);
  EXPECT_EQ(must_sample({-5}, greedy()).token, 0);
  EXPECT_EQ(must_sample({1, 3, 3, 2}, greedy(), {1}).token, 2);
  EXPECT_EQ(must_sample({1, 3, 3, 2}, greedy(), {2, 1, 1, 2}).token, 3);
}

// Shares of {ln 8, ln 4, ln 2, ln 1, ln 1} are 8/16, 4/16, 2/16, 1/16, 1/16.
const std::vector<float> kPowers = {std::log(8.0F), std::log(4.0F), std::log(2.0F), 0, 0};

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  // 99.9 % points of chi-square: 18.5 with 4 degrees of freedom, 13.8 with 2, 10.8 with 1.
  const auto counts = frequencies(kPowers, seeded(1), 40'000);
  EXPECT_LT(chi_square(counts, {0.5, 0.25, 0.125, 0.0625, 0.0625}), 18.5);
  SamplingPlan hot = seeded(2);
  hot.temperature = 2;
  const double z = std::sqrt(8.0) + 2 + std::sqrt(2.0) + 1 + 1;
  EXPECT_LT(chi_square(frequencies(kPowers, hot, 40'000),
                       {std::sqrt(8.0) / z, 2 / z, std::sqrt(2.0) / z, 1 / z, 1 / z}),
            18.5);
  SamplingPlan two = seeded(3);
  two.top_k = 2;
  EXPECT_LT(chi_square(frequencies(kPowers, two, 40'000), {2.0 / 3, 1.0 / 3, 0, 0, 0}), 10.8);
  SamplingPlan nucleus = seeded(4);
  nucleus.top_p = 0.8F;
  EXPECT_LT(chi_square(frequencies(kPowers, nucleus, 40'000), {8.0 / 14, 4.0 / 14, 2.0 / 14, 0, 0}),
            13.8);
  EXPECT_LT(chi_square(frequencies(kPowers, seeded(5), 40'000, {0}), {0, 0.5, 0.25, 0.125, 0.125}),
            16.3);
}

TEST(Sampler, TopKEdges) {
  SamplingPlan plan = seeded(7);
  const std::vector<float> tied = {1, 2, 2, 2, 0};
  plan.top_k = 1;
  EXPECT_EQ(drawn_ids(tied, plan), (Ids{1}));
  plan.top_k = 2;
  EXPECT_EQ(drawn_ids(tied, plan), (Ids{1, 2})) << "lower ids first at a tied cut";
  plan.top_k = 4;
  EXPECT_EQ(drawn_ids(tied, plan), (Ids{0, 1, 2, 3}));
  for (const std::int32_t k : {0, 5, 6, std::numeric_limits<std::int32_t>::max()}) {
    plan.top_k = k;
    EXPECT_EQ(drawn_ids(tied, plan).size(), 5U) << k;
  }
  plan.top_k = 2;
  EXPECT_EQ(drawn_ids(tied, plan, {1}), (Ids{2, 3})) << "suppression comes first";
}

TEST(Sampler, TopPEdges) {
  SamplingPlan plan = seeded(8);
  const std::vector<float> even = {0, 0, 0, 0};
  plan.top_p = 1e-30F;
  EXPECT_EQ(drawn_ids(kPowers, plan), (Ids{0})) << "never empty";
  plan.top_p = 0.5F;
  EXPECT_EQ(drawn_ids(even, plan), (Ids{0, 1})) << "reached exactly, lower ids first";
  plan.top_p = 0.501F;
  EXPECT_EQ(drawn_ids(even, plan), (Ids{0, 1, 2}));
  plan.top_p = 0.99999994F;
  EXPECT_EQ(drawn_ids(even, plan), (Ids{0, 1, 2, 3}));
  plan.top_p = 0.6F;
  EXPECT_EQ(drawn_ids(kPowers, plan), (Ids{0, 1}));
  // top-k cuts first: of 8/12 and 4/12 the first reaches 0.6 alone.
  plan.top_k = 2;
  EXPECT_EQ(drawn_ids(kPowers, plan), (Ids{0}));
  // Temperature comes before both: 1/2 makes 64, 16, 4, 1, 1 of 86.
  plan.top_k = 0;
  plan.top_p = 0.75F;
  plan.temperature = 0.5F;
  EXPECT_EQ(drawn_ids(kPowers, plan), (Ids{0, 1}));
  plan.top_p = 0.74F;
  EXPECT_EQ(drawn_ids(kPowers, plan), (Ids{0}));
}

TEST(Sampler, ExtremeTemperatures) {
  SamplingPlan plan = seeded(9);
  plan.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(drawn_ids({1, 1.0001F, -3e38F}, plan), (Ids{1}));
  plan.temperature = std::numeric_limits<float>::max();
  EXPECT_EQ(drawn_ids({3e38F, -3e38F, 0}, plan).size(), 3U);
}

TEST(Sampler, LogprobsAreOfTheRawLogits) {
  SamplingPlan plan = seeded(10);
  plan.temperature = 0.3F;
  plan.top_k = 1;
  plan.top_logprobs = 0;
  const TokenLogprob drawn = must_sample(kPowers, plan, {0, 1});
  EXPECT_EQ(drawn.token, 2);
  EXPECT_NEAR(std::bit_cast<float>(drawn.logprob_bits), std::log(2.0 / 16), 1e-6);
  plan.top_logprobs = -1;
  EXPECT_EQ(must_sample(kPowers, plan).logprob_bits, 0U);
}

TEST(Sampler, TopListIsBestFirstWithTheLowerIdOnTies) {
  SamplingPlan plan = greedy();
  const std::vector<float> logits = {0, 2, 1, 2, 1, 2};
  for (std::int32_t n = 0; n <= 8; ++n) {
    plan.top_logprobs = n;
    std::vector<TokenLogprob> top = {{77, 77}};
    ASSERT_TRUE(sample_token(logits, plan, std::vector<std::int32_t>{1}, top).ok());
    const std::vector<std::int32_t> order = {1, 3, 5, 2, 4, 0};
    ASSERT_EQ(top.size(), 1U + std::min<std::size_t>(static_cast<std::size_t>(n), 6));
    EXPECT_EQ(top[0].token, 77) << "appended";
    for (std::size_t i = 1; i < top.size(); ++i) {
      EXPECT_EQ(top[i].token, order[i - 1]);
      EXPECT_LE(std::bit_cast<float>(top[i].logprob_bits), 0);
    }
  }
}

TEST(Sampler, RefusesWhatCannotBeDrawnFrom) {
  std::vector<TokenLogprob> top;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<float> logits = {0, bad, 1};
    for (const SamplingPlan& plan : {greedy(), seeded(1)}) {
      auto drawn = sample_token(logits, plan, {}, top);
      ASSERT_FALSE(drawn.ok());
      EXPECT_EQ(drawn.error().code, ErrorCode::engine_failed);
      EXPECT_NE(drawn.error().message.find("logit 1 is"), std::string::npos);
    }
  }
  const std::vector<std::int32_t> all = {0, 1};
  auto drawn = sample_token(std::vector<float>{1, 2}, greedy(), all, top);
  ASSERT_FALSE(drawn.ok());
  EXPECT_EQ(drawn.error().code, ErrorCode::invalid_request);
}

// Against a plain restatement: sort all, cut, walk by id. Sizes around the lanes, many ties.
TEST(Sampler, EqualsAPlainRestatementOnRandomRows) {
  constexpr std::uint64_t kSeed = 20260730;
  std::printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
  Rng rng(kSeed);
  for (int round = 0; round < 600; ++round) {
    std::vector<float> logits(1 + rng.below(70));
    for (float& logit : logits)
      logit = static_cast<float>(rng.below(12)) * 0.75F - 4;
    SamplingPlan plan = seeded(rng.bits());
    plan.temperature = static_cast<float>(rng.below(4)) * 0.5F;
    plan.top_k = static_cast<std::int32_t>(rng.below(12));
    plan.top_p = static_cast<float>(1 + rng.below(20)) / 20.0F;
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
    if (plan.temperature == 0) {
      EXPECT_EQ(must_sample(logits, plan).token, static_cast<std::int32_t>(order[0]));
      continue;
    }
    if (plan.top_k > 0) order.resize(std::min(order.size(), static_cast<std::size_t>(plan.top_k)));
    const auto weight = [&](std::size_t id) {
      const double gap = static_cast<double>(logits[id]) - static_cast<double>(logits[order[0]]);
      return std::exp(gap / static_cast<double>(plan.temperature));
    };
    std::vector<std::size_t> by_id = order;
    std::sort(by_id.begin(), by_id.end());
    double total = 0;
    for (const std::size_t id : by_id)
      total += weight(id);
    double sum = 0;
    std::size_t kept = 0;
    while (kept < order.size() && sum < static_cast<double>(plan.top_p) * total) {
      sum += weight(order[kept++]);
    }
    order.resize(plan.top_p < 1 ? kept : order.size());
    std::sort(order.begin(), order.end());
    total = 0;
    for (const std::size_t id : order)
      total += weight(id);
    const double share =
        static_cast<double>(draw(plan.seed, 0, Purpose::sampling) >> 11) * 0x1.0p-53;
    sum = 0;
    std::size_t at = 0;
    while (at + 1 < order.size() && (sum += weight(order[at])) <= share * total)
      ++at;
    EXPECT_EQ(must_sample(logits, plan).token, static_cast<std::int32_t>(order[at]))
        << "round " << round;
  }
}

TEST(Sampler, DrawsDependOnSeedAndPositionOnly) {
  std::vector<float> logits(1000);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(mix64(i) >> 40) * 0x1p-22F;
  }
  SamplingPlan plan = seeded(11);
  plan.top_p = 0.9F;
  plan.top_k = 300;
  std::vector<std::int32_t> forward(100);
  for (plan.output_position = 0; plan.output_position < 100; ++plan.output_position) {
    forward[static_cast<std::size_t>(plan.output_position)] = must_sample(logits, plan).token;
  }
  EXPECT_GT(std::set<std::int32_t>(forward.begin(), forward.end()).size(), 60U);
  std::int64_t other_seed_equal = 0;
  for (plan.output_position = 99; plan.output_position >= 0; --plan.output_position) {
    const auto at = static_cast<std::size_t>(plan.output_position);
    plan.top_logprobs = static_cast<std::int32_t>(at % 4) - 1;
    EXPECT_EQ(must_sample(logits, plan).token, forward[at]);
    SamplingPlan other = plan;
    other.seed = 12;
    other_seed_equal += must_sample(logits, other).token == forward[at];
  }
  EXPECT_LT(other_seed_equal, 20);
}

TEST(Sampler, AFilterThatCutsNothingDrawsTheSame) {
  SamplingPlan plain = seeded(13);
  SamplingPlan filtered = plain;
  filtered.top_k = 5;
  filtered.top_p = 0.99999994F;
  for (std::int64_t i = 0; i < 200; ++i) {
    plain.output_position = filtered.output_position = i;
    EXPECT_EQ(must_sample(kPowers, plain).token, must_sample(kPowers, filtered).token);
  }
}

} // namespace
} // namespace troupe::engine
