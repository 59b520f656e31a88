// AVX2 attention and index scores: lanes are channels, four heads share each loaded row.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"

#include <cmath>

namespace troupe::kernels::avx2 {

namespace {

inline const float* row_of(const AttentionArgs& a, std::int64_t j) {
  return j < a.window_rows ? a.window + j * a.dim : a.selected + (j - a.window_rows) * a.dim;
}

/// Dot products of `row` with four vectors at a stride.
inline __m128 dot4(const float* q, std::int64_t stride, const float* row, std::int64_t dim) {
  __m256 sum[4];
  for (auto& s : sum)
    s = _mm256_setzero_ps();
  for (std::int64_t c = 0; c < dim; c += 8) {
    const __m256 value = _mm256_loadu_ps(row + c);
    for (int h = 0; h < 4; ++h) {
      sum[h] = _mm256_fmadd_ps(_mm256_loadu_ps(q + h * stride + c), value, sum[h]);
    }
  }
  return sum8x4(sum[0], sum[1], sum[2], sum[3]);
}

inline float dot1(const float* q, const float* row, std::int64_t dim) {
  __m256 sum = _mm256_setzero_ps();
  for (std::int64_t c = 0; c < dim; c += 8) {
    sum = _mm256_fmadd_ps(_mm256_loadu_ps(q + c), _mm256_loadu_ps(row + c), sum);
  }
  const __m256 none = _mm256_setzero_ps();
  return _mm_cvtss_f32(sum8x4(sum, none, none, none));
}

void scores(const AttentionArgs& a, std::int64_t rows) {
  for (std::int64_t j = 0; j < rows; ++j) {
    const float* row = row_of(a, j);
    std::int64_t h = 0;
    for (; h + 4 <= a.heads; h += 4) {
      alignas(16) float four[4];
      _mm_store_ps(four,
                   _mm_mul_ps(dot4(a.q + h * a.dim, a.dim, row, a.dim), _mm_set1_ps(a.scale)));
      for (int i = 0; i < 4; ++i)
        a.scratch[(h + i) * rows + j] = four[i];
    }
    for (; h < a.heads; ++h) {
      a.scratch[h * rows + j] = dot1(a.q + h * a.dim, row, a.dim) * a.scale;
    }
  }
}

/// Softmax of one head's scores with the sink in the denominator, in place.
void softmax(float* score, std::int64_t rows, float sink) {
  const __m256 lowest = _mm256_set1_ps(-INFINITY);
  __m256 top8 = _mm256_set1_ps(sink);
  std::int64_t j = 0;
  for (; j + 8 <= rows; j += 8)
    top8 = _mm256_max_ps(_mm256_loadu_ps(score + j), top8);
  const __m256i tail = first_lanes(static_cast<int>(rows - j));
  if (j < rows) {
    const __m256 last =
        _mm256_blendv_ps(lowest, _mm256_maskload_ps(score + j, tail), _mm256_castsi256_ps(tail));
    top8 = _mm256_max_ps(last, top8);
  }
  const float top = max8(top8);
  const __m256 shift = _mm256_set1_ps(top);
  __m256 sum = _mm256_setzero_ps();
  for (j = 0; j + 8 <= rows; j += 8) {
    const __m256 e = exp8(_mm256_sub_ps(_mm256_loadu_ps(score + j), shift));
    _mm256_storeu_ps(score + j, e);
    sum = _mm256_add_ps(sum, e);
  }
  if (j < rows) {
    const __m256 e = exp8(_mm256_sub_ps(_mm256_maskload_ps(score + j, tail), shift));
    _mm256_maskstore_ps(score + j, tail, e);
    sum = _mm256_add_ps(sum, _mm256_and_ps(e, _mm256_castsi256_ps(tail)));
  }
  const float drained = _mm256_cvtss_f32(exp8(_mm256_set1_ps(sink - top)));
  const __m256 inverse = _mm256_set1_ps(1.0F / (sum8(sum) + drained));
  for (j = 0; j + 8 <= rows; j += 8) {
    _mm256_storeu_ps(score + j, _mm256_mul_ps(_mm256_loadu_ps(score + j), inverse));
  }
  if (j < rows) {
    _mm256_maskstore_ps(score + j, tail,
                        _mm256_mul_ps(_mm256_maskload_ps(score + j, tail), inverse));
  }
}

/// Adds the weighted rows of `count` rows to the sums of H heads and 8 * C channels.
template <int H, int C>
inline void add_rows(const float* p, std::int64_t p_stride, const float* rows, std::int64_t count,
                     std::int64_t dim, __m256 (&sum)[H][C]) {
  for (std::int64_t j = 0; j < count; ++j) {
    __m256 value[C];
    for (int c = 0; c < C; ++c)
      value[c] = _mm256_loadu_ps(rows + j * dim + 8 * c);
    for (int h = 0; h < H; ++h) {
      const __m256 weight = _mm256_broadcast_ss(p + h * p_stride + j);
      for (int c = 0; c < C; ++c)
        sum[h][c] = _mm256_fmadd_ps(weight, value[c], sum[h][c]);
    }
  }
}

template <int H, int C>
void values(const AttentionArgs& a, std::int64_t rows, std::int64_t h, std::int64_t at) {
  __m256 sum[H][C];
  for (auto& head : sum) {
    for (auto& s : head)
      s = _mm256_setzero_ps();
  }
  const float* p = a.scratch + h * rows;
  add_rows<H, C>(p, rows, a.window + at, a.window_rows, a.dim, sum);
  add_rows<H, C>(p + a.window_rows, rows, a.selected + at, a.selected_rows, a.dim, sum);
  for (int i = 0; i < H; ++i) {
    for (int c = 0; c < C; ++c) {
      _mm256_storeu_ps(a.out + (h + i) * a.dim + at + 8 * c, sum[i][c]);
    }
  }
}

template <int H>
void head_values(const AttentionArgs& a, std::int64_t rows, std::int64_t h) {
  std::int64_t at = 0;
  for (; at + 16 <= a.dim; at += 16)
    values<H, 2>(a, rows, h, at);
  for (; at < a.dim; at += 8)
    values<H, 1>(a, rows, h, at);
}

/// Σ_h weight[h] relu(hit[h]) over two heads, in head order.
inline float weigh2(const float* weight, const float* hit) {
  const float first = weight[0] * (hit[0] > 0.0F ? hit[0] : 0.0F);
  return first + weight[1] * (hit[1] > 0.0F ? hit[1] : 0.0F);
}

/// Two heads: two keys at a time fill the four sums.
void index_scores_two_heads(const IndexScoreArgs& a) {
  const float* q1 = a.q + a.dim;
  for (std::int64_t j = 0; j < a.rows; j += 2) {
    const float* key = a.keys + j * a.dim;
    const float* other = j + 1 < a.rows ? key + a.dim : key;
    __m256 sum[4];
    for (auto& s : sum)
      s = _mm256_setzero_ps();
    for (std::int64_t c = 0; c < a.dim; c += 8) {
      const __m256 first = _mm256_loadu_ps(key + c);
      const __m256 second = _mm256_loadu_ps(other + c);
      sum[0] = _mm256_fmadd_ps(_mm256_loadu_ps(a.q + c), first, sum[0]);
      sum[1] = _mm256_fmadd_ps(_mm256_loadu_ps(q1 + c), first, sum[1]);
      sum[2] = _mm256_fmadd_ps(_mm256_loadu_ps(a.q + c), second, sum[2]);
      sum[3] = _mm256_fmadd_ps(_mm256_loadu_ps(q1 + c), second, sum[3]);
    }
    alignas(16) float hit[4];
    _mm_store_ps(hit, sum8x4(sum[0], sum[1], sum[2], sum[3]));
    a.out[j] = weigh2(a.weight, hit);
    if (j + 1 < a.rows) a.out[j + 1] = weigh2(a.weight, hit + 2);
  }
}

} // namespace

void attention(const AttentionArgs& a) {
  const std::int64_t rows = a.window_rows + a.selected_rows;
  scores(a, rows);
  for (std::int64_t h = 0; h < a.heads; ++h)
    softmax(a.scratch + h * rows, rows, a.sink[h]);
  std::int64_t h = 0;
  for (; h + 4 <= a.heads; h += 4)
    head_values<4>(a, rows, h);
  for (; h < a.heads; ++h)
    head_values<1>(a, rows, h);
}

void index_scores(const IndexScoreArgs& a) {
  if (a.heads == 2) {
    index_scores_two_heads(a);
    return;
  }
  for (std::int64_t j = 0; j < a.rows; ++j) {
    const float* key = a.keys + j * a.dim;
    float score = 0.0F;
    std::int64_t h = 0;
    for (; h + 4 <= a.heads; h += 4) {
      alignas(16) float hit[4];
      _mm_store_ps(hit, dot4(a.q + h * a.dim, a.dim, key, a.dim));
      for (int i = 0; i < 4; ++i)
        score += a.weight[h + i] * (hit[i] > 0.0F ? hit[i] : 0.0F);
    }
    for (; h < a.heads; ++h) {
      const float hit = dot1(a.q + h * a.dim, key, a.dim);
      score += a.weight[h] * (hit > 0.0F ? hit : 0.0F);
    }
    a.out[j] = score;
  }
}

} // namespace troupe::kernels::avx2
