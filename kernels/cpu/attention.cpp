// Scalar attention and index scores: one head, one row after the other.

#include "kernels/cpu/scalar_ops.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::kernels::scalar {

namespace {

/// Eight partial sums, so that the compiler may use vectors without changing the order.
float dot(const float* a, const float* b, std::int64_t n) {
  float part[8] = {};
  for (std::int64_t i = 0; i < n; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane)
      part[lane] += a[i + lane] * b[i + lane];
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
    float* score = a.scratch + h * rows;
    float top = a.sink[h];
    for (std::int64_t j = 0; j < rows; ++j) {
      score[j] = dot(a.q + h * a.dim, row_of(a, j), a.dim) * a.scale;
      top = std::max(top, score[j]);
    }
    float sum = 0.0F;
    for (std::int64_t j = 0; j < rows; ++j) {
      score[j] = std::exp(score[j] - top);
      sum += score[j];
    }
    const float inverse = 1.0F / (sum + std::exp(a.sink[h] - top));
    float* out = a.out + h * a.dim;
    std::fill_n(out, a.dim, 0.0F);
    for (std::int64_t j = 0; j < rows; ++j) {
      const float p = score[j] * inverse;
      const float* row = row_of(a, j);
      for (std::int64_t c = 0; c < a.dim; ++c)
        out[c] += p * row[c];
    }
  }
}

void index_scores(const IndexScoreArgs& a) {
  for (std::int64_t j = 0; j < a.rows; ++j) {
    float score = 0.0F;
    for (std::int64_t h = 0; h < a.heads; ++h) {
      const float hit = dot(a.q + h * a.dim, a.keys + j * a.dim, a.dim);
      score += a.weight[h] * std::max(hit, 0.0F);
    }
    a.out[j] = score;
  }
}

} // namespace troupe::kernels::scalar
