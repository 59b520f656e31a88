// AVX2 GEMM: decodes a stretch of one to four panels to float32, then runs register tiles over it.
//
// Each output lane is a chain of fused multiply-adds for each block of 32 inputs, and a chain of
// block sums. Tile sizes depend on the number of rows, chains do not.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"

#include <cstring>

namespace troupe::kernels::avx2 {

namespace {

constexpr std::int64_t kStretch = 4 * kScaleBlock; ///< Inputs decoded at a time.
constexpr std::int64_t kTilePanels = 4;            ///< Panels side by side, at most.
constexpr std::int64_t kStep = kPanelRows;         ///< Floats per input in a decoded panel.

/// Scales of one block of inputs as float32, times `extra`.
inline void load_scales(const std::uint8_t* bytes, float extra, __m256 (&scale)[2]) {
  for (int half = 0; half < 2; ++half) {
    const __m256i wide =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + 8 * half)));
    const __m256i zero = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
    const __m256i bits =
        _mm256_blendv_epi8(_mm256_slli_epi32(wide, 23), _mm256_set1_epi32(0x00400000), zero);
    scale[half] = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(extra));
  }
}

void decode_bf16_panel(const std::uint16_t* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count * kPanelRows; i += 8) {
    const __m256i wide =
        _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
    _mm256_store_ps(to + i, _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
  }
}

void decode_e4m3_panel(const std::uint8_t* from, const std::uint8_t* scales, std::int64_t count,
                       float* to) {
  for (std::int64_t k = 0; k < count; k += kScaleBlock) {
    __m256 unit[2];
    load_scales(scales + k / kScaleBlock * kPanelRows, 1.0F, unit);
    const std::int64_t end = k + kScaleBlock < count ? k + kScaleBlock : count;
    // Two exact multiplications: 2^120 first, or a large scale would overflow.
    const __m256 lift = _mm256_set1_ps(0x1p120F);
    for (std::int64_t i = k; i < end; ++i) {
      const std::uint8_t* codes = from + i * kPanelRows;
      _mm256_store_ps(to + i * kStep, _mm256_mul_ps(e4m3x8(codes, lift), unit[0]));
      _mm256_store_ps(to + i * kStep + 8, _mm256_mul_ps(e4m3x8(codes + 8, lift), unit[1]));
    }
  }
}

void decode_e2m1_panel(const std::uint8_t* from, const std::uint8_t* scales, std::int64_t count,
                       float* to) {
  for (std::int64_t k = 0; k < count; k += kScaleBlock) {
    __m256 unit[2];
    load_scales(scales + k / kScaleBlock * kPanelRows, 1.0F, unit);
    const std::int64_t end = k + kScaleBlock < count ? k + kScaleBlock : count;
    for (std::int64_t i = k; i < end; ++i) {
      const __m256i pairs = _mm256_cvtepu8_epi32(
          _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * (kPanelRows / 2))));
      _mm256_store_ps(to + i * kStep, _mm256_mul_ps(e2m1x8(pairs), unit[0]));
      _mm256_store_ps(to + i * kStep + 8,
                      _mm256_mul_ps(e2m1x8(_mm256_srli_epi32(pairs, 4)), unit[1]));
    }
  }
}

/// Inputs [k0, k0 + count) of panel `p` as float32 [count, 16]: a view of the weight if it is f32.
const float* decoded_panel(const PackedMatrix& w, std::int64_t p, std::int64_t k0,
                           std::int64_t count, float* scratch) {
  const std::int64_t at = (p * w.inputs + k0) * kPanelRows;
  if (w.format == WeightFormat::f32) return static_cast<const float*>(w.values) + at;
  if (w.format == WeightFormat::bf16) {
    decode_bf16_panel(static_cast<const std::uint16_t*>(w.values) + at, count, scratch);
    return scratch;
  }
  const std::uint8_t* scales = w.scales + (p * w.scale_blocks() + k0 / kScaleBlock) * kPanelRows;
  const auto* bytes = static_cast<const std::uint8_t*>(w.values);
  if (w.format == WeightFormat::e4m3) {
    decode_e4m3_panel(bytes + at, scales, count, scratch);
  } else {
    decode_e2m1_panel(bytes + at / 2, scales, count, scratch);
  }
  return scratch;
}

/// A tile of R rows and P panels: adds `count` inputs to c, block by block.
template <int R, int P>
inline void tile(const float* x, std::int64_t x_stride, const float* const (&b)[kTilePanels],
                 std::int64_t count, bool fresh, float* c, std::int64_t c_stride) {
  for (std::int64_t k0 = 0; k0 < count; k0 += kScaleBlock) {
    const std::int64_t end = k0 + kScaleBlock < count ? k0 + kScaleBlock : count;
    __m256 sum[R][2 * P];
    for (auto& row : sum) {
      for (auto& lanes : row)
        lanes = _mm256_setzero_ps();
    }
    for (std::int64_t k = k0; k < end; ++k) {
      __m256 w[2 * P];
      for (int j = 0; j < 2 * P; ++j)
        w[j] = _mm256_loadu_ps(b[j / 2] + k * kStep + 8 * (j % 2));
      for (int r = 0; r < R; ++r) {
        const __m256 value = _mm256_broadcast_ss(x + r * x_stride + k);
        for (int j = 0; j < 2 * P; ++j)
          sum[r][j] = _mm256_fmadd_ps(value, w[j], sum[r][j]);
      }
    }
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < 2 * P; ++j) {
        float* to = c + r * c_stride + 8 * j;
        const __m256 total = fresh && k0 == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(to);
        _mm256_storeu_ps(to, _mm256_add_ps(total, sum[r][j]));
      }
    }
  }
}

/// As tile(), for the last panel when it has fewer than 16 outputs: works on a padded copy.
template <int R>
void edge_tile(const float* x, std::int64_t x_stride, const float* const (&b)[kTilePanels],
               std::int64_t count, bool fresh, float* c, std::int64_t c_stride,
               std::int64_t lanes) {
  alignas(32) float padded[R * kPanelRows] = {};
  const auto bytes = static_cast<std::size_t>(lanes) * sizeof(float);
  for (int r = 0; r < R && !fresh; ++r)
    std::memcpy(padded + r * kPanelRows, c + r * c_stride, bytes);
  tile<R, 1>(x, x_stride, b, count, fresh, padded, kPanelRows);
  for (int r = 0; r < R; ++r)
    std::memcpy(c + r * c_stride, padded + r * kPanelRows, bytes);
}

/// All rows against P decoded panels.
template <int P>
void rows_times(MatrixView<const float> x, std::int64_t k0, std::int64_t count,
                const float* const (&b)[kTilePanels], float* c, std::int64_t c_stride,
                std::int64_t lanes) {
  constexpr int kRows = P == 1 ? 6 : (P == 2 ? 3 : 1);
  std::int64_t r = 0;
  for (; r + kRows <= x.rows; r += kRows) {
    if (P > 1 || lanes == kPanelRows) {
      tile<kRows, P>(x.row(r) + k0, x.stride, b, count, k0 == 0, c + r * c_stride, c_stride);
    } else {
      edge_tile<kRows>(x.row(r) + k0, x.stride, b, count, k0 == 0, c + r * c_stride, c_stride,
                       lanes);
    }
  }
  for (; r < x.rows; ++r) {
    if (P > 1 || lanes == kPanelRows) {
      tile<1, P>(x.row(r) + k0, x.stride, b, count, k0 == 0, c + r * c_stride, c_stride);
    } else {
      edge_tile<1>(x.row(r) + k0, x.stride, b, count, k0 == 0, c + r * c_stride, c_stride, lanes);
    }
  }
}

constexpr std::int64_t kWideRows = 24; ///< Rows whose double sums are kept at a time.
constexpr int kWideTile = 3;           ///< Rows of a register tile.

/// Adds `count` inputs to the sums [R, 16] of R rows; w [count, 16] float32.
template <int R>
inline void wide_tile(const float* x, std::int64_t x_stride, const float* w, std::int64_t count,
                      double* sums) {
  __m256d sum[R][4];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < 4; ++j)
      sum[r][j] = _mm256_load_pd(sums + r * kPanelRows + 4 * j);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    __m256d weight[4];
    for (int j = 0; j < 4; ++j)
      weight[j] = _mm256_cvtps_pd(_mm_loadu_ps(w + k * kStep + 4 * j));
    for (int r = 0; r < R; ++r) {
      const __m256d value = _mm256_set1_pd(double{x[r * x_stride + k]});
      for (int j = 0; j < 4; ++j)
        sum[r][j] = _mm256_fmadd_pd(value, weight[j], sum[r][j]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < 4; ++j)
      _mm256_store_pd(sums + r * kPanelRows + 4 * j, sum[r][j]);
  }
}

/// One panel for up to kWideRows rows.
void wide_panel(MatrixView<const float> x, const PackedMatrix& w, std::int64_t p,
                MatrixView<float> out) {
  alignas(64) float scratch[kStretch * kStep];
  alignas(32) double sums[kWideRows * kPanelRows] = {};
  for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kStretch) {
    const std::int64_t count = w.inputs - k0 < kStretch ? w.inputs - k0 : kStretch;
    const float* weights = decoded_panel(w, p, k0, count, scratch);
    std::int64_t r = 0;
    for (; r + kWideTile <= x.rows; r += kWideTile) {
      wide_tile<kWideTile>(x.row(r) + k0, x.stride, weights, count, sums + r * kPanelRows);
    }
    for (; r < x.rows; ++r) {
      wide_tile<1>(x.row(r) + k0, x.stride, weights, count, sums + r * kPanelRows);
    }
  }
  const std::int64_t left = w.outputs - p * kPanelRows;
  const std::int64_t lanes = left < kPanelRows ? left : kPanelRows;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      out.row(r)[p * kPanelRows + lane] = static_cast<float>(sums[r * kPanelRows + lane]);
    }
  }
}

} // namespace

void gemm(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
          MatrixView<float> out) {
  alignas(64) float scratch[kTilePanels][kStretch * kStep];
  // Few rows need several panels side by side to keep enough chains in flight.
  const std::int64_t wide = x.rows == 1 ? 4 : (x.rows <= 3 ? 2 : 1);
  const std::int64_t full = w.outputs / kPanelRows;
  for (std::int64_t p = panels.begin; p < panels.end;) {
    std::int64_t group = wide;
    while (group > 1 && (p + group > panels.end || p + group > full))
      group /= 2;
    const std::int64_t left = w.outputs - p * kPanelRows;
    const std::int64_t lanes = left < kPanelRows ? left : kPanelRows;
    float* c = out.data + p * kPanelRows;
    for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kStretch) {
      const std::int64_t count = w.inputs - k0 < kStretch ? w.inputs - k0 : kStretch;
      const float* b[kTilePanels] = {};
      for (std::int64_t g = 0; g < group; ++g) {
        b[g] = decoded_panel(w, p + g, k0, count, scratch[g]);
      }
      if (group == 4) {
        rows_times<4>(x, k0, count, b, c, out.stride, lanes);
      } else if (group == 2) {
        rows_times<2>(x, k0, count, b, c, out.stride, lanes);
      } else {
        rows_times<1>(x, k0, count, b, c, out.stride, lanes);
      }
    }
    p += group;
  }
}

void gemm_wide(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
               MatrixView<float> out) {
  for (std::int64_t r = 0; r < x.rows; r += kWideRows) {
    const std::int64_t rows = x.rows - r < kWideRows ? x.rows - r : kWideRows;
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      wide_panel({x.row(r), rows, x.cols, x.stride}, w, p,
                 {out.row(r), rows, out.cols, out.stride});
    }
  }
}

} // namespace troupe::kernels::avx2
