// Attention and index scores against their formulas in double, over an enumerated list of shapes.

#include "tests/kernels/support.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace {

using namespace troupe::kernels;
using troupe::Rng;

struct Shape {
  std::int64_t heads, dim, window_rows, selected_rows;
};

const Shape kShapes[] = {{1, 8, 1, 0},   {4, 64, 1, 0},  {4, 64, 64, 32}, {3, 32, 7, 9},
                         {8, 16, 33, 1}, {5, 64, 64, 0}, {2, 40, 3, 5},   {4, 128, 40, 100}};

TEST(Attention, MatchesDouble) {
  for (const Shape& s : kShapes) {
    Rng rng(static_cast<std::uint64_t>(s.heads * 100 + s.dim));
    const std::vector<float> q = troupe::test::activations(rng, s.heads * s.dim);
    const std::vector<float> rows =
        troupe::test::activations(rng, (s.window_rows + s.selected_rows) * s.dim);
    const std::vector<float> sink = troupe::test::activations(rng, s.heads);
    AttentionArgs a;
    a.q = q.data();
    a.window = rows.data();
    a.selected = rows.data() + s.window_rows * s.dim;
    a.sink = sink.data();
    a.window_rows = s.window_rows;
    a.selected_rows = s.selected_rows;
    a.heads = s.heads;
    a.dim = s.dim;
    a.scale = 1.0F / std::sqrt(static_cast<float>(s.dim));
    const std::int64_t count = s.window_rows + s.selected_rows;
    std::vector<double> want(static_cast<std::size_t>(s.heads * s.dim));
    for (std::int64_t h = 0; h < s.heads; ++h) {
      double sum = std::exp(double{sink[static_cast<std::size_t>(h)]});
      for (std::int64_t j = 0; j < count; ++j) {
        double score = 0;
        for (std::int64_t c = 0; c < s.dim; ++c) {
          score += double{q[static_cast<std::size_t>(h * s.dim + c)]} *
                   double{rows[static_cast<std::size_t>(j * s.dim + c)]};
        }
        const double e = std::exp(score * double{a.scale});
        sum += e;
        for (std::int64_t c = 0; c < s.dim; ++c) {
          want[static_cast<std::size_t>(h * s.dim + c)] +=
              e * double{rows[static_cast<std::size_t>(j * s.dim + c)]};
        }
      }
      for (std::int64_t c = 0; c < s.dim; ++c) {
        want[static_cast<std::size_t>(h * s.dim + c)] /= sum;
      }
    }
    for (const OpTable* ops : troupe::test::op_tables()) {
      std::vector<float> got(want.size());
      std::vector<double> scratch(static_cast<std::size_t>(s.heads * (s.dim + count)));
      a.out = got.data();
      a.scratch = scratch.data();
      ops->attention(a);
      EXPECT_LT(troupe::test::relative_error(got, want), 1e-6)
          << ops->path << " heads " << s.heads << " dim " << s.dim << " rows " << count;
    }
  }
}

TEST(IndexScores, MatchDoubleAndIgnoreCuts) {
  for (const std::int64_t heads : {1, 2, 3, 4, 6, 32}) {
    for (const std::int64_t rows : {1, 2, 7, 64}) {
      constexpr std::int64_t kDim = 64;
      Rng rng(static_cast<std::uint64_t>(heads * 100 + rows));
      const std::vector<float> q = troupe::test::activations(rng, heads * kDim);
      const std::vector<float> weight = troupe::test::activations(rng, heads);
      const std::vector<float> keys = troupe::test::activations(rng, rows * kDim);
      std::vector<double> want(static_cast<std::size_t>(rows));
      for (std::int64_t j = 0; j < rows; ++j) {
        for (std::int64_t h = 0; h < heads; ++h) {
          double hit = 0;
          for (std::int64_t c = 0; c < kDim; ++c) {
            hit += double{q[static_cast<std::size_t>(h * kDim + c)]} *
                   double{keys[static_cast<std::size_t>(j * kDim + c)]};
          }
          want[static_cast<std::size_t>(j)] +=
              double{weight[static_cast<std::size_t>(h)]} * std::max(hit, 0.0);
        }
      }
      for (const OpTable* ops : troupe::test::op_tables()) {
        std::vector<float> got(want.size()), alone(want.size());
        IndexScoreArgs a{q.data(), weight.data(), keys.data(), got.data(), rows, heads, kDim};
        ops->index_scores(a);
        EXPECT_LT(troupe::test::relative_error(got, want), 1e-6) << ops->path << " " << heads;
        for (std::int64_t j = 0; j < rows; ++j) {
          IndexScoreArgs one{q.data(), weight.data(), keys.data() + j * kDim, alone.data() + j, 1,
                             heads,    kDim};
          ops->index_scores(one);
        }
        EXPECT_EQ(alone, got) << ops->path << " " << heads;
      }
    }
  }
}

} // namespace
