// AVX2 versions of the row ops: norms, SwiGLU, collapse, expand and the projections of a site.

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

/// The lanes of `sum` added up, low and high half first.
inline double sum4(__m256d sum) {
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(sum), _mm256_extractf128_pd(sum, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/// 1 / rms of a row, in double.
inline double rms_inverse(const float* x, float eps, std::int64_t cols) {
  __m256d part[2] = {_mm256_setzero_pd(), _mm256_setzero_pd()};
  std::int64_t i = 0;
  for (; i + 8 <= cols; i += 8) {
    for (int half = 0; half < 2; ++half) {
      const __m256d value = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * half));
      part[half] = _mm256_fmadd_pd(value, value, part[half]);
    }
  }
  double sum = sum4(_mm256_add_pd(part[0], part[1]));
  for (; i < cols; ++i)
    sum += double{x[i]} * double{x[i]};
  return 1.0 / std::sqrt(sum / static_cast<double>(cols) + double{eps});
}

} // namespace

float rms_scale(const float* x, float eps, std::int64_t cols) {
  return static_cast<float>(rms_inverse(x, eps, cols));
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
  if (hc != kHc || cols % 4 != 0) {
    scalar::collapse(streams, mix, hc, cols, u);
    return;
  }
  __m256d weight[kHc];
  for (int k = 0; k < kHc; ++k)
    weight[k] = _mm256_set1_pd(double{mix[k]});
  for (std::int64_t c = 0; c < cols; c += 4) {
    __m256d sum = _mm256_setzero_pd();
    for (int k = 0; k < kHc; ++k) {
      sum = _mm256_fmadd_pd(weight[k], _mm256_cvtps_pd(_mm_loadu_ps(streams + k * cols + c)), sum);
    }
    _mm_storeu_ps(u + c, _mm256_cvtpd_ps(sum));
  }
}

void expand(const float* o, const float* post, const float* mixing, std::int64_t hc,
            std::int64_t cols, float* streams) {
  if (hc != kHc || cols % 4 != 0) {
    scalar::expand(o, post, mixing, hc, cols, streams);
    return;
  }
  double factor[kHc][kHc + 1];
  for (int k = 0; k < kHc; ++k) {
    for (int j = 0; j < kHc; ++j)
      factor[k][j] = double{mixing[j * kHc + k]};
    factor[k][kHc] = double{post[k]};
  }
  for (std::int64_t c = 0; c < cols; c += 4) {
    const __m256d fresh = _mm256_cvtps_pd(_mm_loadu_ps(o + c));
    __m256d old[kHc];
    for (int j = 0; j < kHc; ++j)
      old[j] = _mm256_cvtps_pd(_mm_loadu_ps(streams + j * cols + c));
    for (int k = 0; k < kHc; ++k) {
      __m256d sum = _mm256_mul_pd(_mm256_broadcast_sd(&factor[k][kHc]), fresh);
      for (int j = 0; j < kHc; ++j) {
        sum = _mm256_fmadd_pd(_mm256_broadcast_sd(&factor[k][j]), old[j], sum);
      }
      _mm_storeu_ps(streams + k * cols + c, _mm256_cvtpd_ps(sum));
    }
  }
}

namespace {

constexpr std::int64_t kSiteStretch = 64; ///< Inputs turned into double at a time.
constexpr int kSiteRows = 2;              ///< Rows of a register tile.

/// Adds `count` inputs to R rows of V * 4 sums; w [count, V * 4] double.
template <int R, int V>
void site_tile(const float* x, std::int64_t x_stride, const double* w, std::int64_t count,
               double* sums, std::int64_t sums_stride) {
  __m256d sum[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v)
      sum[r][v] = _mm256_loadu_pd(sums + r * sums_stride + 4 * v);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    for (int r = 0; r < R; ++r) {
      const __m256d value = _mm256_set1_pd(double{x[r * x_stride + k]});
      for (int v = 0; v < V; ++v) {
        sum[r][v] = _mm256_fmadd_pd(value, _mm256_load_pd(w + (k * V + v) * 4), sum[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v)
      _mm256_storeu_pd(sums + r * sums_stride + 4 * v, sum[r][v]);
  }
}

/// One row, without the detour of converted weights; sums in the same order.
template <int V>
void site_row(const float* x, const PackedMatrix& fn, double scale, double* out) {
  const auto* values = static_cast<const float*>(fn.values);
  __m256d sum[V];
  for (auto& lanes : sum)
    lanes = _mm256_setzero_pd();
  for (std::int64_t k = 0; k < fn.inputs; ++k) {
    const __m256d value = _mm256_set1_pd(double{x[k]});
    for (int v = 0; v < V; ++v) {
      const float* from = values + (v / 4 * fn.inputs + k) * kPanelRows + v % 4 * 4;
      sum[v] = _mm256_fmadd_pd(value, _mm256_cvtps_pd(_mm_load_ps(from)), sum[v]);
    }
  }
  for (int v = 0; v < V; ++v) {
    _mm256_storeu_pd(out + 4 * v, _mm256_mul_pd(sum[v], _mm256_set1_pd(scale)));
  }
}

} // namespace

void site_project(MatrixView<const float> x, const PackedMatrix& fn, float eps, double* out) {
  constexpr int kVectors = (2 + kHc) * kHc / 4;
  constexpr std::int64_t kOutputs = 4 * kVectors;
  if (fn.outputs != kOutputs) {
    scalar::site_project(x, fn, eps, out);
    return;
  }
  alignas(64) double w[kSiteStretch * kOutputs];
  const auto* values = static_cast<const float*>(fn.values);
  for (std::int64_t i = 0; i < x.rows * kOutputs; ++i)
    out[i] = 0.0;
  for (std::int64_t k0 = 0; k0 < fn.inputs; k0 += kSiteStretch) {
    const std::int64_t left = fn.inputs - k0;
    const std::int64_t count = left < kSiteStretch ? left : kSiteStretch;
    for (std::int64_t k = 0; k < count; ++k) {
      for (int v = 0; v < kVectors; ++v) {
        const float* from = values + (v / 4 * fn.inputs + k0 + k) * kPanelRows +
                            static_cast<std::int64_t>(v) % 4 * 4;
        _mm256_store_pd(w + (k * kVectors + v) * 4, _mm256_cvtps_pd(_mm_loadu_ps(from)));
      }
    }
    std::int64_t r = 0;
    for (; r + kSiteRows <= x.rows; r += kSiteRows) {
      site_tile<kSiteRows, kVectors>(x.row(r) + k0, x.stride, w, count, out + r * kOutputs,
                                     kOutputs);
    }
    for (; r < x.rows; ++r) {
      site_tile<1, kVectors>(x.row(r) + k0, x.stride, w, count, out + r * kOutputs, kOutputs);
    }
  }
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const double scale = rms_inverse(x.row(r), eps, fn.inputs);
    for (std::int64_t i = 0; i < kOutputs; ++i)
      out[r * kOutputs + i] *= scale;
  }
}

const OpTable kOps = {
    .path = "avx2",
    .gemm = gemm,
    .gemm_wide = gemm_wide,
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
    .site_project = site_project,
    .hyper = scalar::hyper,
    .rope = scalar::rope,
    .engram = scalar::engram,
};

} // namespace troupe::kernels::avx2
