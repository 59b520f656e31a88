// AVX2 attention and index scores: lanes are channels, four heads share each loaded row.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"

#include <cmath>

namespace troupe::kernels::avx2 {

namespace {

inline const float* row_of(const AttentionArgs& a, std::int64_t j) {
  return j < a.window_rows ? a.window + j * a.dim : a.selected + (j - a.window_rows) * a.dim;
}

/// Float32 dot products of `row` with four vectors at a stride.
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

/// The four lane sums of four vectors; the same tree for each.
inline __m256d sum4x4(const __m256d (&v)[4]) {
  const __m256d low = _mm256_hadd_pd(v[0], v[1]); // v0 01, v1 01, v0 23, v1 23
  const __m256d high = _mm256_hadd_pd(v[2], v[3]);
  return _mm256_add_pd(_mm256_permute2f128_pd(low, high, 0x20),
                       _mm256_permute2f128_pd(low, high, 0x31));
}

/// Scores of H heads against all rows, in double: q [heads, dim], out [heads, rows].
template <int H>
void scores(const AttentionArgs& a, const double* q, std::int64_t rows, double* out) {
  const __m256d scale = _mm256_set1_pd(double{a.scale});
  for (std::int64_t j = 0; j < rows; ++j) {
    const float* row = row_of(a, j);
    __m256d sum[4];
    for (auto& s : sum)
      s = _mm256_setzero_pd();
    for (std::int64_t c = 0; c < a.dim; c += 4) {
      const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(row + c));
      for (int h = 0; h < H; ++h) {
        sum[h] = _mm256_fmadd_pd(_mm256_loadu_pd(q + h * a.dim + c), value, sum[h]);
      }
    }
    alignas(32) double four[4];
    _mm256_store_pd(four, _mm256_mul_pd(sum4x4(sum), scale));
    for (int h = 0; h < H; ++h)
      out[h * rows + j] = four[h];
  }
}

/// Turns one head's scores into exponentials in place and returns 1 / their sum with the sink.
double exponentials(double* score, std::int64_t rows, float sink) {
  double top = double{sink};
  for (std::int64_t j = 0; j < rows; ++j)
    top = score[j] > top ? score[j] : top;
  const __m256d shift = _mm256_set1_pd(top);
  __m256d sum[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  std::int64_t j = 0;
  for (; j + 8 <= rows; j += 8) {
    const __m128 low = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_loadu_pd(score + j), shift));
    const __m128 high = _mm256_cvtpd_ps(_mm256_sub_pd(_mm256_loadu_pd(score + j + 4), shift));
    const __m256 e = exp8(_mm256_set_m128(high, low));
    const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(e));
    const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(e, 1));
    _mm256_storeu_pd(score + j, first);
    _mm256_storeu_pd(score + j + 4, second);
    sum[0] = _mm256_add_pd(sum[0], first);
    sum[1] = _mm256_add_pd(sum[1], second);
  }
  alignas(32) double lanes[4];
  _mm256_store_pd(lanes, _mm256_add_pd(sum[0], sum[1]));
  double total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  const auto exp1 = [](double x) {
    return double{_mm256_cvtss_f32(exp8(_mm256_set1_ps(static_cast<float>(x))))};
  };
  for (; j < rows; ++j) {
    score[j] = exp1(score[j] - top);
    total += score[j];
  }
  return 1.0 / (total + exp1(double{sink} - top));
}

/// Adds `count` weighted rows to the sums of H heads and 4 * C channels.
template <int H, int C>
inline void add_rows(const double* p, std::int64_t p_stride, const float* rows, std::int64_t count,
                     std::int64_t dim, __m256d (&sum)[H][C]) {
  for (std::int64_t j = 0; j < count; ++j) {
    __m256d value[C];
    for (int c = 0; c < C; ++c)
      value[c] = _mm256_cvtps_pd(_mm_loadu_ps(rows + j * dim + 4 * c));
    for (int h = 0; h < H; ++h) {
      const __m256d weight = _mm256_broadcast_sd(p + h * p_stride + j);
      for (int c = 0; c < C; ++c)
        sum[h][c] = _mm256_fmadd_pd(weight, value[c], sum[h][c]);
    }
  }
}

/// Outputs of H heads from `h` on; p [heads, rows] exponentials, inverse [H] of their sums.
template <int H>
void values(const AttentionArgs& a, const double* p, std::int64_t rows, std::int64_t h,
            const double* inverse) {
  constexpr int kVectors = 2;
  for (std::int64_t at = 0; at < a.dim; at += 4 * kVectors) {
    __m256d sum[H][kVectors];
    for (auto& head : sum) {
      for (auto& s : head)
        s = _mm256_setzero_pd();
    }
    add_rows<H, kVectors>(p, rows, a.window + at, a.window_rows, a.dim, sum);
    add_rows<H, kVectors>(p + a.window_rows, rows, a.selected + at, a.selected_rows, a.dim, sum);
    for (int i = 0; i < H; ++i) {
      for (int c = 0; c < kVectors; ++c) {
        const __m256d out = _mm256_mul_pd(sum[i][c], _mm256_set1_pd(inverse[i]));
        _mm_storeu_ps(a.out + (h + i) * a.dim + at + 4 * c, _mm256_cvtpd_ps(out));
      }
    }
  }
}

/// H heads from `h` on.
template <int H>
void heads(const AttentionArgs& a, std::int64_t rows, std::int64_t h) {
  double* q = a.scratch;
  double* p = a.scratch + H * a.dim;
  for (std::int64_t i = 0; i < H * a.dim; i += 4) {
    _mm256_storeu_pd(q + i, _mm256_cvtps_pd(_mm_loadu_ps(a.q + h * a.dim + i)));
  }
  scores<H>(a, q, rows, p);
  double inverse[H];
  for (int i = 0; i < H; ++i)
    inverse[i] = exponentials(p + i * rows, rows, a.sink[h + i]);
  values<H>(a, p, rows, h, inverse);
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
  std::int64_t h = 0;
  for (; h + 4 <= a.heads; h += 4)
    heads<4>(a, rows, h);
  for (; h < a.heads; ++h)
    heads<1>(a, rows, h);
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
