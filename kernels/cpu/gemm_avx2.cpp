// AVX2 GEMM. Few rows decode weights in registers; more rows share a stretch decoded to memory.
//
// Each output lane is a chain of fused multiply-adds over the raw codes of a block of 32 inputs,
// from zero; the block's sum times its scale (a power of two, so exact) joins a chain of block
// sums. Tile shapes depend on the number of rows, chains do not.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"

#include <cstring>

namespace troupe::kernels::avx2 {

namespace {

constexpr std::int64_t kStretch = 4 * kScaleBlock; ///< Inputs decoded to memory at a time.
constexpr std::int64_t kStretchBlocks = kStretch / kScaleBlock;
constexpr std::int64_t kFusedRows = 4; ///< Most rows that decode in registers.
constexpr int kTileRows = 6;           ///< Rows of a register tile over decoded weights.

/// Scales of 16 outputs in one block as float32; byte 0 is 2^-127.
inline void load_scales(const std::uint8_t* bytes, float* to) {
  for (int half = 0; half < 2; ++half) {
    const __m256i wide =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + 8 * half)));
    const __m256i zero = _mm256_cmpeq_epi32(wide, _mm256_setzero_si256());
    const __m256i bits =
        _mm256_blendv_epi8(_mm256_slli_epi32(wide, 23), _mm256_set1_epi32(0x00400000), zero);
    _mm256_store_ps(to + 8 * half, _mm256_castsi256_ps(bits));
  }
}

/// Scales of block `b` of panel `p`, [16]; ones for formats without.
inline void block_scales(const PackedMatrix& w, std::int64_t p, std::int64_t b, float* to) {
  if (w.scales != nullptr) {
    load_scales(w.scales + (p * w.scale_blocks() + b) * kPanelRows, to);
  } else {
    _mm256_store_ps(to, _mm256_set1_ps(1.0F));
    _mm256_store_ps(to + 8, _mm256_set1_ps(1.0F));
  }
}

/// Bytes of one input of a panel.
constexpr std::int64_t input_bytes(WeightFormat format) {
  return format == WeightFormat::f32    ? 64
         : format == WeightFormat::bf16 ? 32
         : format == WeightFormat::e4m3 ? 16
                                        : 8;
}

/// One input of a panel as two vectors of unscaled values.
template <WeightFormat F>
inline void decode16(const std::uint8_t* at, __m256 (&w)[2]) {
  if constexpr (F == WeightFormat::f32) {
    w[0] = _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    w[1] = _mm256_loadu_ps(reinterpret_cast<const float*>(at) + 8);
  } else if constexpr (F == WeightFormat::bf16) {
    for (int half = 0; half < 2; ++half) {
      const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at) + half);
      w[half] = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
  } else if constexpr (F == WeightFormat::e4m3) {
    const __m256i codes =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
    // Each code to the top byte of its lane; the sign spreads over what the shift vacates.
    const __m256i low =
        _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1, 4,
                         -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7);
    const __m256i eight = _mm256_set1_epi32(0x08000000);
    const __m256i keep = _mm256_set1_epi32(static_cast<int>(0x87F00000U));
    for (int half = 0; half < 2; ++half) {
      const __m256i order = half == 0 ? low : _mm256_add_epi32(low, eight);
      const __m256i top = _mm256_shuffle_epi8(codes, order);
      const __m256i bits = _mm256_and_si256(_mm256_srai_epi32(top, 4), keep);
      w[half] = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120F));
    }
  } else {
    const __m256i pairs =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
    w[0] = e2m1x8(pairs);
    w[1] = e2m1x8(_mm256_srli_epi32(pairs, 4));
  }
}

/// R rows against P panels from `p` on, decoding in registers; totals [R, P * 16].
template <WeightFormat F, int R, int P>
void fused(MatrixView<const float> x, const PackedMatrix& w, std::int64_t p, float* totals) {
  const std::int64_t panel_bytes = w.inputs * input_bytes(F);
  const std::uint8_t* base = static_cast<const std::uint8_t*>(w.values) + p * panel_bytes;
  for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kScaleBlock) {
    const std::int64_t end = k0 + kScaleBlock < w.inputs ? k0 + kScaleBlock : w.inputs;
    __m256 sum[R][2 * P];
    for (auto& row : sum) {
      for (auto& lanes : row)
        lanes = _mm256_setzero_ps();
    }
    for (std::int64_t k = k0; k < end; ++k) {
      __m256 value[R];
      for (int r = 0; r < R; ++r)
        value[r] = _mm256_broadcast_ss(x.row(r) + k);
      for (int g = 0; g < P; ++g) {
        __m256 weight[2];
        decode16<F>(base + g * panel_bytes + k * input_bytes(F), weight);
        for (int r = 0; r < R; ++r) {
          sum[r][2 * g] = _mm256_fmadd_ps(value[r], weight[0], sum[r][2 * g]);
          sum[r][2 * g + 1] = _mm256_fmadd_ps(value[r], weight[1], sum[r][2 * g + 1]);
        }
      }
    }
    for (int g = 0; g < P; ++g) {
      alignas(32) float scale[kPanelRows];
      block_scales(w, p + g, k0 / kScaleBlock, scale);
      for (int r = 0; r < R; ++r) {
        for (int half = 0; half < 2; ++half) {
          float* to = totals + (r * P + g) * kPanelRows + 8 * half;
          _mm256_store_ps(to,
                          _mm256_fmadd_ps(sum[r][2 * g + half], _mm256_load_ps(scale + 8 * half),
                                          _mm256_load_ps(to)));
        }
      }
    }
  }
}

/// All panels of a range for up to kFusedRows rows, P at a time.
template <WeightFormat F, int R, int P>
void fused_panels(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
                  MatrixView<float> out) {
  std::int64_t p = panels.begin;
  for (; p + P <= panels.end; p += P) {
    alignas(64) float totals[R * P * kPanelRows] = {};
    fused<F, R, P>(x, w, p, totals);
    const std::int64_t left = w.outputs - p * kPanelRows;
    const std::int64_t count = left < P * kPanelRows ? left : P * kPanelRows;
    for (int r = 0; r < R; ++r) {
      std::memcpy(out.row(r) + p * kPanelRows, totals + r * P * kPanelRows,
                  static_cast<std::size_t>(count) * sizeof(float));
    }
  }
  if constexpr (P > 1) {
    if (p < panels.end) fused_panels<F, R, P / 2>(x, w, {p, panels.end}, out);
  }
}

template <WeightFormat F>
void few_rows(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
              MatrixView<float> out) {
  switch (x.rows) {
  case 1:
    fused_panels<F, 1, 4>(x, w, panels, out);
    break;
  case 2:
    fused_panels<F, 2, 2>(x, w, panels, out);
    break;
  case 3:
    fused_panels<F, 3, 1>(x, w, panels, out);
    break;
  default:
    fused_panels<F, 4, 1>(x, w, panels, out);
    break;
  }
}

/// A stretch of one panel as unscaled float32 [count, 16] with its scales [blocks, 16].
struct Decoded {
  alignas(64) float values[kStretch * kPanelRows];
  alignas(64) float scales[kStretchBlocks * kPanelRows];
};

template <WeightFormat F>
void decode_values(const PackedMatrix& w, std::int64_t p, std::int64_t k0, std::int64_t count,
                   float* to) {
  const auto* from =
      static_cast<const std::uint8_t*>(w.values) + (p * w.inputs + k0) * input_bytes(F);
  for (std::int64_t k = 0; k < count; ++k) {
    __m256 value[2];
    decode16<F>(from + k * input_bytes(F), value);
    _mm256_store_ps(to + k * kPanelRows, value[0]);
    _mm256_store_ps(to + k * kPanelRows + 8, value[1]);
  }
}

void decode_stretch(const PackedMatrix& w, std::int64_t p, std::int64_t k0, std::int64_t count,
                    Decoded& to) {
  switch (w.format) {
  case WeightFormat::f32:
    decode_values<WeightFormat::f32>(w, p, k0, count, to.values);
    break;
  case WeightFormat::bf16:
    decode_values<WeightFormat::bf16>(w, p, k0, count, to.values);
    break;
  case WeightFormat::e4m3:
    decode_values<WeightFormat::e4m3>(w, p, k0, count, to.values);
    break;
  case WeightFormat::e2m1:
    decode_values<WeightFormat::e2m1>(w, p, k0, count, to.values);
    break;
  }
  for (std::int64_t b = 0; b * kScaleBlock < count; ++b) {
    block_scales(w, p, k0 / kScaleBlock + b, to.scales + b * kPanelRows);
  }
}

/// Adds a decoded stretch of `count` inputs to R rows of c.
template <int R>
inline void tile(const float* x, std::int64_t x_stride, const Decoded& w, std::int64_t count,
                 bool fresh, float* c, std::int64_t c_stride) {
  for (std::int64_t k0 = 0; k0 < count; k0 += kScaleBlock) {
    const std::int64_t end = k0 + kScaleBlock < count ? k0 + kScaleBlock : count;
    __m256 sum[R][2];
    for (auto& row : sum)
      row[0] = row[1] = _mm256_setzero_ps();
    for (std::int64_t k = k0; k < end; ++k) {
      const __m256 low = _mm256_load_ps(w.values + k * kPanelRows);
      const __m256 high = _mm256_load_ps(w.values + k * kPanelRows + 8);
      for (int r = 0; r < R; ++r) {
        const __m256 value = _mm256_broadcast_ss(x + r * x_stride + k);
        sum[r][0] = _mm256_fmadd_ps(value, low, sum[r][0]);
        sum[r][1] = _mm256_fmadd_ps(value, high, sum[r][1]);
      }
    }
    const float* scale = w.scales + k0 / kScaleBlock * kPanelRows;
    for (int r = 0; r < R; ++r) {
      for (int half = 0; half < 2; ++half) {
        float* to = c + r * c_stride + 8 * half;
        const __m256 total = fresh && k0 == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(to);
        _mm256_storeu_ps(to,
                         _mm256_fmadd_ps(sum[r][half], _mm256_load_ps(scale + 8 * half), total));
      }
    }
  }
}

/// tile() for `rows` rows, at most kTileRows.
inline void tile_of(std::int64_t rows, const float* x, std::int64_t x_stride, const Decoded& w,
                    std::int64_t count, bool fresh, float* c, std::int64_t c_stride) {
  switch (rows) {
  case 1:
    tile<1>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  case 2:
    tile<2>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  case 3:
    tile<3>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  case 4:
    tile<4>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  case 5:
    tile<5>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  default:
    tile<kTileRows>(x, x_stride, w, count, fresh, c, c_stride);
    break;
  }
}

/// Many rows, one panel: the stretch is decoded once for all of them.
void many_rows(MatrixView<const float> x, const PackedMatrix& w, std::int64_t p, float* c,
               std::int64_t c_stride) {
  Decoded decoded;
  for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kStretch) {
    const std::int64_t count = w.inputs - k0 < kStretch ? w.inputs - k0 : kStretch;
    decode_stretch(w, p, k0, count, decoded);
    for (std::int64_t r = 0; r < x.rows; r += kTileRows) {
      const std::int64_t rows = x.rows - r < kTileRows ? x.rows - r : kTileRows;
      tile_of(rows, x.row(r) + k0, x.stride, decoded, count, k0 == 0, c + r * c_stride, c_stride);
    }
  }
}

/// The last panel when it has fewer than 16 outputs: works on a padded copy, some rows at a time.
void edge_panel(MatrixView<const float> x, const PackedMatrix& w, std::int64_t p,
                MatrixView<float> out) {
  constexpr std::int64_t kRows = 8 * kTileRows;
  const auto bytes = static_cast<std::size_t>(w.outputs - p * kPanelRows) * sizeof(float);
  alignas(32) float padded[kRows * kPanelRows];
  for (std::int64_t r = 0; r < x.rows; r += kRows) {
    const std::int64_t rows = x.rows - r < kRows ? x.rows - r : kRows;
    many_rows({x.row(r), rows, x.cols, x.stride}, w, p, padded, kPanelRows);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::memcpy(out.row(r + i) + p * kPanelRows, padded + i * kPanelRows, bytes);
    }
  }
}

constexpr std::int64_t kWideRows = 24; ///< Rows whose double sums are kept at a time.
constexpr int kWideTile = 3;           ///< Rows of a register tile.

/// Adds a decoded stretch to the double sums [R, 16] of R rows, block by block.
template <int R>
inline void wide_tile(const float* x, std::int64_t x_stride, const Decoded& w, std::int64_t count,
                      double* totals) {
  for (std::int64_t k0 = 0; k0 < count; k0 += kScaleBlock) {
    const std::int64_t end = k0 + kScaleBlock < count ? k0 + kScaleBlock : count;
    __m256d sum[R][4];
    for (auto& row : sum) {
      for (auto& lanes : row)
        lanes = _mm256_setzero_pd();
    }
    for (std::int64_t k = k0; k < end; ++k) {
      __m256d weight[4];
      for (int j = 0; j < 4; ++j) {
        weight[j] = _mm256_cvtps_pd(_mm_load_ps(w.values + k * kPanelRows + 4 * j));
      }
      for (int r = 0; r < R; ++r) {
        const __m256d value = _mm256_set1_pd(double{x[r * x_stride + k]});
        for (int j = 0; j < 4; ++j)
          sum[r][j] = _mm256_fmadd_pd(value, weight[j], sum[r][j]);
      }
    }
    const float* scale = w.scales + k0 / kScaleBlock * kPanelRows;
    for (int r = 0; r < R; ++r) {
      for (int j = 0; j < 4; ++j) {
        double* to = totals + r * kPanelRows + 4 * j;
        const __m256d unit = _mm256_cvtps_pd(_mm_load_ps(scale + 4 * j));
        _mm256_store_pd(to, _mm256_fmadd_pd(sum[r][j], unit, _mm256_load_pd(to)));
      }
    }
  }
}

/// One panel for up to kWideRows rows.
void wide_panel(MatrixView<const float> x, const PackedMatrix& w, std::int64_t p,
                MatrixView<float> out) {
  Decoded decoded;
  alignas(32) double totals[kWideRows * kPanelRows];
  for (std::int64_t i = 0; i < x.rows * kPanelRows; ++i)
    totals[i] = 0.0;
  for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kStretch) {
    const std::int64_t count = w.inputs - k0 < kStretch ? w.inputs - k0 : kStretch;
    decode_stretch(w, p, k0, count, decoded);
    std::int64_t r = 0;
    for (; r + kWideTile <= x.rows; r += kWideTile) {
      wide_tile<kWideTile>(x.row(r) + k0, x.stride, decoded, count, totals + r * kPanelRows);
    }
    for (; r < x.rows; ++r) {
      wide_tile<1>(x.row(r) + k0, x.stride, decoded, count, totals + r * kPanelRows);
    }
  }
  const std::int64_t left = w.outputs - p * kPanelRows;
  const std::int64_t lanes = left < kPanelRows ? left : kPanelRows;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      out.row(r)[p * kPanelRows + lane] = static_cast<float>(totals[r * kPanelRows + lane]);
    }
  }
}

} // namespace

void gemm(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
          MatrixView<float> out) {
  if (x.rows <= kFusedRows) {
    switch (w.format) {
    case WeightFormat::f32:
      few_rows<WeightFormat::f32>(x, w, panels, out);
      break;
    case WeightFormat::bf16:
      few_rows<WeightFormat::bf16>(x, w, panels, out);
      break;
    case WeightFormat::e4m3:
      few_rows<WeightFormat::e4m3>(x, w, panels, out);
      break;
    case WeightFormat::e2m1:
      few_rows<WeightFormat::e2m1>(x, w, panels, out);
      break;
    }
    return;
  }
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    if ((p + 1) * kPanelRows <= w.outputs) {
      many_rows(x, w, p, out.data + p * kPanelRows, out.stride);
    } else {
      edge_panel(x, w, p, out);
    }
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
