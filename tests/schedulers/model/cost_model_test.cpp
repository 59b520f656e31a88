// The numbers of policies.md sections 1.1 to 1.3 and 3.4, and exactness at the ends of the range.

#include "schedulers/core/rng.hpp"
#include "schedulers/model/cost_model.hpp"
#include "schedulers/model/integer_math.hpp"
#include "tests/support/cluster_builder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace troupe::sched {
namespace {

using testing::h100_tp8;
using testing::sm100_ep4;
using testing::sm100_ep4_lin;

constexpr std::int64_t kMs = 1'000'000'000; // In picoseconds.
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

double ms(std::int64_t ps) { return static_cast<double>(ps) / kMs; }

TEST(CostModel, ChunkTimesOfTheProfile) {
  const CostModel m = sm100_ep4();
  EXPECT_NEAR(ms(m.chunk_ps(8192, 0)), 110.395, 0.01);
  EXPECT_NEAR(ms(m.chunk_ps(4096, 131'072)), 76.803, 0.01);
  EXPECT_NEAR(ms(m.chunk_ps(8192, 122'880)), 126.501, 0.01);
  EXPECT_NEAR(ms(m.chunk_ps(2000, 48'000)), 48.268, 0.01);
  EXPECT_NEAR(ms(m.chunk_ps(16'384, 1'000'000)), 457.708, 0.01);
  EXPECT_NEAR(ms(m.chunk_ps(1, 0)), 26.310, 0.01);
  EXPECT_EQ(m.chunk_ps(1, 0), 26'300'000'000 + 10'200'000 + 16);
}

TEST(CostModel, BothPublishedPointsOfTheProfiles) {
  EXPECT_NEAR(ms(sm100_ep4().chunk_ps(4096, 0)), 68.21, 0.01);
  EXPECT_NEAR(ms(sm100_ep4().chunk_ps(65'536, 0)), 729.13, 0.01);
  // Tokens a second, against the published 60,000 and 90,000.
  EXPECT_NEAR(4096 / (ms(sm100_ep4().chunk_ps(4096, 0)) / 1e3), 60'047, 1);
  EXPECT_NEAR(65'536 / (ms(sm100_ep4().chunk_ps(65'536, 0)) / 1e3), 89'883, 1);
  EXPECT_NEAR(4096 / (ms(sm100_ep4_lin().chunk_ps(4096, 0)) / 1e3), 60'000, 60);
  EXPECT_NEAR(65'536 / (ms(sm100_ep4_lin().chunk_ps(65'536, 0)) / 1e3), 90'000, 90);
}

TEST(CostModel, LargestChunkForABudget) {
  struct Case {
    std::int64_t budget_ms, context, tokens;
  };
  constexpr std::array<Case, 7> kCases{{{100, 0, 7184},
                                        {100, 131'072, 5970},
                                        {100, 1'000'000, 2810},
                                        {200, 0, 16'807},
                                        {400, 131'072, 29'810},
                                        {68, 0, 4075},
                                        {25, 0, 0}}};
  const CostModel m = sm100_ep4();
  for (const Case& c : kCases) {
    const std::int64_t budget = c.budget_ms * kMs - m.step_ps;
    const std::int64_t n = m.largest_chunk(budget, c.context);
    EXPECT_EQ(n, c.tokens) << c.budget_ms << " ms at " << c.context;
    if (budget >= 0) {
      EXPECT_LE(m.marginal_ps(n, c.context), budget);
      EXPECT_GT(m.marginal_ps(n + 1, c.context), budget);
    }
  }
}

/// Cuts a prompt by time; returns (chunks, sum of step times in ms) and the chunk lengths.
std::vector<std::int64_t> cut(const CostModel& m, std::int64_t prompt, std::int64_t budget_ps,
                              double& total_ms) {
  std::vector<std::int64_t> chunks;
  total_ms = 0;
  for (std::int64_t done = 0; done < prompt;) {
    const std::int64_t n = std::min(prompt - done, m.largest_chunk(budget_ps - m.step_ps, done));
    total_ms += ms(m.chunk_ps(n, done));
    chunks.push_back(n);
    done += n;
  }
  return chunks;
}

TEST(CostModel, WholePromptsCutByTime) {
  double total_ms = 0;
  const auto chunks = cut(sm100_ep4(), 131'072, 100 * kMs, total_ms);
  ASSERT_EQ(chunks.size(), 21U);
  EXPECT_EQ(chunks[0], 7184);
  EXPECT_EQ(chunks[19], 6017);
  EXPECT_EQ(chunks[20], 40);
  EXPECT_NEAR(total_ms, 2026.7, 0.05);
  const auto million = cut(sm100_ep4(), 1'000'000, 100 * kMs, total_ms);
  EXPECT_EQ(million.size(), 247U);
  EXPECT_NEAR(total_ms, 24'700, 5);
}

TEST(CostModel, FixedChunksGrowWithContext) {
  const CostModel m = sm100_ep4();
  std::vector<double> steps_ms;
  for (std::int64_t done = 0; done < 131'072; done += 8192)
    steps_ms.push_back(ms(m.chunk_ps(8192, done)));
  EXPECT_EQ(steps_ms.size(), 16U);
  EXPECT_NEAR(std::accumulate(steps_ms.begin(), steps_ms.end(), 0.0), 1895.2, 0.05);
  EXPECT_NEAR(steps_ms.front(), 110.4, 0.05);
  EXPECT_NEAR(steps_ms.back(), 126.5, 0.05);
}

TEST(CostModel, DecodeStepsOfTheWorkedExample) {
  const CostModel m = sm100_ep4();
  const auto step_ms = [&](std::int64_t n, std::int64_t k) {
    return 10.26 + ms(m.decode_load_ps(n, k));
  };
  EXPECT_NEAR(step_ms(60, 2'400'000), 14.501, 0.0005);
  EXPECT_NEAR(step_ms(58, 6'000'000), 14.661, 0.0005);
  EXPECT_NEAR(step_ms(61, 1'000'000), 14.453, 0.0005);
}

/// Single-request times to first token: tokens to milliseconds.
constexpr std::array<std::array<double, 2>, 7> kMeasured{{{4096, 245},
                                                          {8192, 452},
                                                          {16'384, 894},
                                                          {32'768, 1769},
                                                          {65'536, 3618},
                                                          {131'072, 7740},
                                                          {260'000, 17'796}}};

/// Sums over chunks of 8,192: chunks, tokens, pairs, constant; times in ms.
std::array<double, 4> features(double tokens) {
  std::array<double, 4> f{0, tokens, 0, 1};
  for (double done = 0; done < tokens; done += 8192) {
    const double n = std::min(8192.0, tokens - done);
    f[0] += 1;
    f[2] += n * done + n * (n + 1) / 2;
  }
  return f;
}

/// Solves the 4 x 4 system by elimination with pivoting.
std::array<double, 4> solve(std::array<std::array<double, 5>, 4> a) {
  for (std::size_t col = 0; col < 4; ++col) {
    std::size_t pivot = col;
    for (std::size_t row = col; row < 4; ++row) {
      if (std::abs(a[row][col]) > std::abs(a[pivot][col])) pivot = row;
    }
    std::swap(a[col], a[pivot]);
    for (std::size_t row = 0; row < 4; ++row) {
      if (row == col) continue;
      const double factor = a[row][col] / a[col][col];
      for (std::size_t k = col; k < 5; ++k)
        a[row][k] -= factor * a[col][k];
    }
  }
  return {a[0][4] / a[0][0], a[1][4] / a[1][1], a[2][4] / a[2][2], a[3][4] / a[3][3]};
}

/// Least squares on 4 k to 128 k: of relative errors, or of absolute ones.
std::array<double, 4> fitted(bool relative) {
  std::array<std::array<double, 5>, 4> normal{};
  for (std::size_t i = 0; i + 1 < kMeasured.size(); ++i) {
    const auto f = features(kMeasured[i][0]);
    const double y = kMeasured[i][1];
    const double weight = relative ? 1 / (y * y) : 1;
    for (std::size_t r = 0; r < 4; ++r) {
      for (std::size_t c = 0; c < 4; ++c)
        normal[r][c] += weight * f[r] * f[c];
      normal[r][4] += weight * f[r] * y;
    }
  }
  return solve(normal);
}

double predicted(const std::array<double, 4>& fit, double tokens) {
  const auto f = features(tokens);
  return fit[0] * f[0] + fit[1] * f[1] + fit[2] * f[2] + fit[3] * f[3];
}

// Relative least squares on 4 k to 128 k predicts the unseen 260 k within 5 %.
TEST(CostModel, FitOfMeasuredTimesPredictsTheUnseenPoint) {
  const auto fit = fitted(true);
  EXPECT_NEAR(fit[0], 10.2, 0.1);       // t0, ms a chunk
  EXPECT_NEAR(fit[1] * 1e3, 50.2, 0.1); // a, us a token
  EXPECT_NEAR(fit[2] * 1e3, 1.10e-4, 0.01e-4);
  EXPECT_NEAR(fit[3], 28.2, 0.2);
  for (std::size_t i = 0; i + 1 < kMeasured.size(); ++i) {
    EXPECT_NEAR(predicted(fit, kMeasured[i][0]) / kMeasured[i][1], 1, 0.0095);
  }
  EXPECT_NEAR(predicted(fit, 260'000), 17'133, 5);
  EXPECT_NEAR(predicted(fit, 260'000) / 17'796, 1, 0.05);
  // The profile in integers is this fit, rounded.
  double profile_ms = 28.2;
  for (std::int64_t done = 0; done < 260'000; done += 8192) {
    profile_ms += ms(h100_tp8().chunk_ps(std::min<std::int64_t>(8192, 260'000 - done), done));
  }
  EXPECT_NEAR(profile_ms / 17'796, 1 - 0.0377, 0.0005);
}

// Absolute errors let the long prompts decide: a chunk would cost less than nothing.
TEST(CostModel, FitOfAbsoluteErrorsHasANegativeStep) {
  const auto fit = fitted(false);
  EXPECT_NEAR(fit[0], -9.2, 0.1);
  EXPECT_NEAR(predicted(fit, 260'000) / 17'796, 1 - 0.022, 0.001);
}

TEST(CostModel, SaturatesInsteadOfOverflowing) {
  const CostModel m = sm100_ep4();
  EXPECT_EQ(m.marginal_ps(kMax, kMax), kMax);
  EXPECT_EQ(m.chunk_ps(kMax, 0), kMax);
  EXPECT_EQ(m.decode_load_ps(kMax, kMax), kMax);
  EXPECT_EQ(m.marginal_ps(0, kMax), 0);
  EXPECT_EQ(m.marginal_ps(-5, 3), 0);
  const CostModel huge{kMax, kMax, kMax, 0, kMax, kMax};
  EXPECT_EQ(huge.chunk_ps(1, 0), kMax);
  EXPECT_EQ(huge.marginal_ps(kMax, kMax), kMax);
  EXPECT_EQ(huge.largest_chunk(kMax - 1, 0), 0);
}

// Blocks by a shift or by a division; loads and ratios in 64 bits where they fit, else in 128.
TEST(CostModel, TheShortWaysOfIntegersEqualTheLongOnes) {
  std::printf("seed 13\n");
  Rng rng(13);
  const auto number = [&] {
    const std::int64_t size = static_cast<std::int64_t>(rng.bits() >> (1 + rng.below(62)));
    return rng.below(4) == 0 ? -size : size;
  };
  const auto part = [](std::int64_t factor, std::int64_t count) -> Int128 {
    return factor <= 0 || count <= 0 ? 0 : static_cast<Int128>(factor) * count;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t positions = number();
    const std::int64_t size = 1 + static_cast<std::int64_t>(rng.below(300));
    ASSERT_EQ(blocks_for(positions, size), positions <= 0 ? 0 : (positions - 1) / size + 1);
    CostModel m;
    m.sequence_ps = std::abs(number());
    m.context_token_ps = std::abs(number());
    const std::int64_t n = number(), k = number();
    ASSERT_EQ(m.decode_load_ps(n, k),
              saturate(part(m.sequence_ps, n) + part(m.context_token_ps, k)));
    const std::int64_t a = number(), b = number(), c = number();
    if (c != 0) {
      ASSERT_EQ(scale(a, b, c), saturate(static_cast<Int128>(a) * b / c));
    }
  }
}

TEST(CostModel, LargestChunkIsExactWhereDoublesAreNot) {
  const CostModel free_model{1, 0, 0, 0, 0, 0};
  EXPECT_EQ(free_model.largest_chunk(0, 0), kMax);
  EXPECT_EQ(free_model.largest_chunk(-1, 0), 0);
  // n = budget exactly, far beyond 2^53.
  const CostModel linear{0, 1, 0, 0, 0, 0};
  EXPECT_EQ(linear.largest_chunk(kMax - 7, 0), kMax - 7);
  const CostModel pairs{0, 0, 1, 0, 0, 0};
  std::printf("seed 11\n");
  Rng rng(11);
  for (int i = 0; i < 2000; ++i) {
    const CostModel m{0,
                      static_cast<std::int64_t>(rng.below(std::uint64_t{1} << rng.below(40))),
                      static_cast<std::int64_t>(rng.below(std::uint64_t{1} << rng.below(20))),
                      0,
                      0,
                      0};
    if (m.token_ps == 0 && m.pair_ps == 0) continue;
    const auto budget = static_cast<std::int64_t>(rng.bits() >> (1 + rng.below(62)));
    const auto c = static_cast<std::int64_t>(rng.below(std::uint64_t{1} << rng.below(40)));
    const std::int64_t n = m.largest_chunk(budget, c);
    ASSERT_LE(m.marginal_ps(n, c), budget);
    if (n < kMax) {
      ASSERT_GT(m.marginal_ps(n + 1, c), budget);
    }
  }
  EXPECT_EQ(pairs.largest_chunk(10, 0), 4); // 1 + 2 + 3 + 4
}

} // namespace
} // namespace troupe::sched
