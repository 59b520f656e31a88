// Scalar attention and index scores: one head, one row after the other.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

namespace {

/// Partial sums, so that the compiler may use vectors without changing the order.
template <class Sum>
Sum dot(const float* a, const float* b, std::int64_t n) {
  Sum part[8] = {};
  for (std::int64_t i = 0; i < n; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      part[lane] += static_cast<Sum>(a[i + lane]) * static_cast<Sum>(b[i + lane]);
    }
  }
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

const float* row_of(const AttentionArgs& a, std::int64_t j) {
  return j < a.window_rows ? a.window + j * a.dim : a.selected + (j - a.window_rows) * a.dim;
}

} // namespace

void attention(const AttentionArgs& a) {
  const std::int64_t rows = a.window_rows + a.selected_rows;
  for (std::int64_t h = 0; h < a.heads; ++h) {
    double* score = a.scratch;
    double* sums = a.scratch + rows;
    double top = a.sink[h];
    for (std::int64_t j = 0; j < rows; ++j) {
      score[j] = dot<double>(a.q + h * a.dim, row_of(a, j), a.dim) * double{a.scale};
      top = std::max(top, score[j]);
    }
    double sum = std::exp(a.sink[h] - top);
    std::fill_n(sums, a.dim, 0.0);
    for (std::int64_t j = 0; j < rows; ++j) {
      const double p = std::exp(score[j] - top);
      sum += p;
      const float* row = row_of(a, j);
      for (std::int64_t c = 0; c < a.dim; ++c)
        sums[c] += p * double{row[c]};
    }
    for (std::int64_t c = 0; c < a.dim; ++c) {
      a.out[h * a.dim + c] = static_cast<float>(sums[c] / sum);
    }
  }
}

void index_scores(const IndexScoreArgs& a) {
  for (std::int64_t j = 0; j < a.rows; ++j) {
    float score = 0.0F;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const auto hit = dot<float>(a.q + h * a.dim, a.keys + j * a.dim, a.dim);
      score += a.weight[h] * std::max(hit, 0.0F);
    }
    a.out[j] = score;
  }
}

} // namespace troupe::kernels::scalar
