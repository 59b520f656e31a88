// AVX2 versions of the row ops: norms, SwiGLU, collapse, expand and hyper-connection sites.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"
#include "kernels/cpu/scalar_ops.hpp"
#include "kernels/op_table.hpp"

#include <cmath>

namespace troupe::kernels::avx2 {

namespace {

constexpr std::int64_t kHc = 4; ///< Streams that have a vector version; others run scalar.

inline __m256 sigmoid8(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0F);
  const __m256 e = exp8(_mm256_sub_ps(_mm256_setzero_ps(), x));
  return _mm256_div_ps(one, _mm256_add_ps(one, e));
}

inline __m256 swiglu8(__m256 gate, __m256 up, __m256 limit, __m256 weight) {
  // The operand order keeps a NaN of the input.
  const __m256 g = _mm256_min_ps(limit, gate);
  const __m256 below = _mm256_sub_ps(_mm256_setzero_ps(), limit);
  const __m256 u = _mm256_max_ps(below, _mm256_min_ps(limit, up));
  return _mm256_mul_ps(weight, _mm256_mul_ps(_mm256_mul_ps(g, sigmoid8(g)), u));
}

/// Eight tokens' mixing matrices, one token a lane.
using Mixing = __m256[kHc][kHc];

inline void normalise(Mixing& c, __m256 eps, bool rows) {
  for (int a = 0; a < kHc; ++a) {
    __m256 sum = eps;
    for (int b = 0; b < kHc; ++b)
      sum = _mm256_add_ps(sum, rows ? c[a][b] : c[b][a]);
    const __m256 inverse = _mm256_div_ps(_mm256_set1_ps(1.0F), sum);
    for (int b = 0; b < kHc; ++b) {
      __m256& value = rows ? c[a][b] : c[b][a];
      value = _mm256_mul_ps(value, inverse);
    }
  }
}

/// Eight tokens, the raw values already scaled and shifted: raw [24][8].
inline void sites8(const float (*raw)[8], const HyperArgs& a, float (*out)[8]) {
  const __m256 eps = _mm256_set1_ps(a.eps);
  for (int k = 0; k < kHc; ++k) {
    _mm256_store_ps(out[k], _mm256_add_ps(sigmoid8(_mm256_load_ps(raw[k])), eps));
    _mm256_store_ps(out[kHc + k],
                    _mm256_mul_ps(_mm256_set1_ps(2.0F), sigmoid8(_mm256_load_ps(raw[kHc + k]))));
  }
  Mixing c;
  for (int j = 0; j < kHc; ++j) {
    __m256 top = _mm256_load_ps(raw[2 * kHc + j * kHc]);
    for (int k = 1; k < kHc; ++k) {
      top = _mm256_max_ps(top, _mm256_load_ps(raw[2 * kHc + j * kHc + k]));
    }
    __m256 sum = _mm256_setzero_ps();
    for (int k = 0; k < kHc; ++k) {
      c[j][k] = exp8(_mm256_sub_ps(_mm256_load_ps(raw[2 * kHc + j * kHc + k]), top));
      sum = _mm256_add_ps(sum, c[j][k]);
    }
    for (int k = 0; k < kHc; ++k)
      c[j][k] = _mm256_add_ps(_mm256_div_ps(c[j][k], sum), eps);
  }
  normalise(c, eps, false);
  for (std::int64_t i = 1; i < a.iterations; ++i) {
    normalise(c, eps, true);
    normalise(c, eps, false);
  }
  for (int at = 0; at < kHc * kHc; ++at) {
    _mm256_store_ps(out[2 * kHc + at], c[at / kHc][at % kHc]);
  }
}

} // namespace

float rms_scale(const float* x, float eps, std::int64_t cols) {
  __m256 part[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  std::int64_t i = 0;
  for (; i + 16 <= cols; i += 16) {
    for (int half = 0; half < 2; ++half) {
      const __m256 value = _mm256_loadu_ps(x + i + 8 * half);
      part[half] = _mm256_fmadd_ps(value, value, part[half]);
    }
  }
  float sum = sum8(_mm256_add_ps(part[0], part[1]));
  for (; i < cols; ++i)
    sum += x[i] * x[i];
  return 1.0F / std::sqrt(sum / static_cast<float>(cols) + eps);
}

void rms_norm(const float* x, const float* weight, float eps, std::int64_t cols, float* out) {
  const float scale = rms_scale(x, eps, cols);
  const __m256 scale8 = _mm256_set1_ps(scale);
  std::int64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    const __m256 value = _mm256_mul_ps(_mm256_loadu_ps(weight + i), _mm256_loadu_ps(x + i));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(value, scale8));
  }
  for (; i < cols; ++i)
    out[i] = weight[i] * x[i] * scale;
}

void swiglu(const float* gate, const float* up, float limit, float weight, std::int64_t cols,
            float* out) {
  const __m256 limit8 = _mm256_set1_ps(limit);
  const __m256 weight8 = _mm256_set1_ps(weight);
  std::int64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    _mm256_storeu_ps(out + i,
                     swiglu8(_mm256_loadu_ps(gate + i), _mm256_loadu_ps(up + i), limit8, weight8));
  }
  if (i < cols) {
    const __m256i tail = first_lanes(static_cast<int>(cols - i));
    _mm256_maskstore_ps(out + i, tail,
                        swiglu8(_mm256_maskload_ps(gate + i, tail),
                                _mm256_maskload_ps(up + i, tail), limit8, weight8));
  }
}

void collapse(const float* streams, const float* mix, std::int64_t hc, std::int64_t cols,
              float* u) {
  if (hc != kHc || cols % 8 != 0) {
    scalar::collapse(streams, mix, hc, cols, u);
    return;
  }
  __m256 weight[kHc];
  for (int k = 0; k < kHc; ++k)
    weight[k] = _mm256_set1_ps(mix[k]);
  for (std::int64_t c = 0; c < cols; c += 8) {
    __m256 sum = _mm256_mul_ps(weight[0], _mm256_loadu_ps(streams + c));
    for (int k = 1; k < kHc; ++k) {
      sum = _mm256_fmadd_ps(weight[k], _mm256_loadu_ps(streams + k * cols + c), sum);
    }
    _mm256_storeu_ps(u + c, sum);
  }
}

void expand(const float* o, const float* post, const float* mixing, std::int64_t hc,
            std::int64_t cols, float* streams) {
  if (hc != kHc || cols % 8 != 0) {
    scalar::expand(o, post, mixing, hc, cols, streams);
    return;
  }
  for (std::int64_t c = 0; c < cols; c += 8) {
    const __m256 fresh = _mm256_loadu_ps(o + c);
    __m256 old[kHc];
    for (int j = 0; j < kHc; ++j)
      old[j] = _mm256_loadu_ps(streams + j * cols + c);
    for (int k = 0; k < kHc; ++k) {
      __m256 sum = _mm256_mul_ps(_mm256_broadcast_ss(post + k), fresh);
      for (int j = 0; j < kHc; ++j) {
        sum = _mm256_fmadd_ps(_mm256_broadcast_ss(mixing + j * kHc + k), old[j], sum);
      }
      _mm256_storeu_ps(streams + k * cols + c, sum);
    }
  }
}

void hyper(const HyperArgs& a) {
  if (a.hc != kHc) {
    scalar::hyper(a);
    return;
  }
  constexpr std::int64_t kWidth = (2 + kHc) * kHc;
  for (std::int64_t first = 0; first < a.rows; first += 8) {
    const std::int64_t count = a.rows - first < 8 ? a.rows - first : 8;
    alignas(32) float raw[kWidth][8] = {};
    alignas(32) float out[kWidth][8];
    for (std::int64_t l = 0; l < count; ++l) {
      const float* row = a.raw + (first + l) * kWidth;
      for (std::int64_t i = 0; i < kWidth; ++i) {
        const float scale = a.scale[i < kHc ? 0 : (i < 2 * kHc ? 1 : 2)];
        raw[i][l] = row[i] * a.rms[first + l] * scale + a.base[i];
      }
    }
    sites8(raw, a, out);
    for (std::int64_t l = 0; l < count; ++l) {
      const std::int64_t row = first + l;
      for (std::int64_t k = 0; k < kHc; ++k) {
        a.pre[row * kHc + k] = out[k][l];
        a.post[row * kHc + k] = out[kHc + k][l];
      }
      for (std::int64_t at = 0; at < kHc * kHc; ++at) {
        a.mixing[row * kHc * kHc + at] = out[2 * kHc + at][l];
      }
    }
  }
}

const OpTable kOps = {
    .path = "avx2",
    .gemm = gemm,
    .attention = attention,
    .index_scores = index_scores,
    .rms_norm = rms_norm,
    .rms_scale = rms_scale,
    .sim_fp8 = sim_fp8,
    .unpack_fp8 = unpack_fp8,
    .unpack_fp4 = unpack_fp4,
    .unpack_fp4_e4m3 = unpack_fp4_e4m3,
    .swiglu = swiglu,
    .collapse = collapse,
    .expand = expand,
    .hyper = hyper,
    .rope = scalar::rope,
    .engram = scalar::engram,
};

} // namespace troupe::kernels::avx2
