// Scalar GEMM: decodes a block of one panel, sums it for every row, then adds the scaled sums.

#include "kernels/cpu/scalar_ops.hpp"
#include "kernels/lowbit.hpp"

#include <algorithm>
#include <array>

namespace troupe::kernels::scalar {

namespace {

/// One block of inputs of one panel: unscaled values, and the scale of each output.
struct Block {
  float values[kScaleBlock][kPanelRows];
  float scales[kPanelRows];
};

/// Values of all codes of a format, so that decoding is a load.
template <std::size_t N>
std::array<float, N> table_of(float (*decode)(std::uint8_t)) {
  std::array<float, N> out{};
  for (std::size_t code = 0; code < N; ++code)
    out[code] = decode(static_cast<std::uint8_t>(code));
  return out;
}

void decode_values(const PackedMatrix& w, std::int64_t panel, std::int64_t k0, std::int64_t count,
                   Block& to) {
  static const auto e4m3 = table_of<256>(+[](std::uint8_t code) { return decode_e4m3(code); });
  static const auto e2m1 = table_of<16>(+[](std::uint8_t code) { return decode_e2m1(code); });
  const std::int64_t at = (panel * w.inputs + k0) * kPanelRows;
  const auto* bytes = static_cast<const std::uint8_t*>(w.values);
  float* values = &to.values[0][0];
  switch (w.format) {
  case WeightFormat::f32:
    std::copy_n(static_cast<const float*>(w.values) + at, count * kPanelRows, values);
    break;
  case WeightFormat::bf16:
    for (std::int64_t i = 0; i < count * kPanelRows; ++i) {
      values[i] = decode_bf16(static_cast<const std::uint16_t*>(w.values)[at + i]);
    }
    break;
  case WeightFormat::e4m3:
    for (std::int64_t i = 0; i < count * kPanelRows; ++i)
      values[i] = e4m3[bytes[at + i]];
    break;
  case WeightFormat::e2m1:
    for (std::int64_t i = 0; i < count * kPanelRows / 2; ++i) {
      const std::uint8_t pair = bytes[at / 2 + i];
      values[i / 8 * 16 + i % 8] = e2m1[pair & 15];
      values[i / 8 * 16 + i % 8 + 8] = e2m1[pair >> 4];
    }
    break;
  }
}

void decode_block(const PackedMatrix& w, std::int64_t panel, std::int64_t k0, std::int64_t count,
                  Block& to) {
  decode_values(w, panel, k0, count, to);
  const std::int64_t block = panel * w.scale_blocks() + k0 / kScaleBlock;
  for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
    to.scales[lane] = w.scales != nullptr ? decode_e8m0(w.scales[block * kPanelRows + lane]) : 1.0F;
  }
}

/// Rows of the output whose sums are kept at a time.
constexpr std::int64_t kRows = 64;

/// Up to kRows rows against one panel with sums of type Sum.
template <class Sum>
void panel_rows(MatrixView<const float> x, const PackedMatrix& w, std::int64_t panel,
                MatrixView<float> out) {
  Block block;
  Sum total[kRows][kPanelRows] = {};
  for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kScaleBlock) {
    const std::int64_t count = std::min(kScaleBlock, w.inputs - k0);
    decode_block(w, panel, k0, count, block);
    for (std::int64_t r = 0; r < x.rows; ++r) {
      Sum sum[kPanelRows] = {};
      for (std::int64_t k = 0; k < count; ++k) {
        const Sum value = static_cast<Sum>(x.row(r)[k0 + k]);
        for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
          sum[lane] += value * static_cast<Sum>(block.values[k][lane]);
        }
      }
      for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
        total[r][lane] += sum[lane] * static_cast<Sum>(block.scales[lane]);
      }
    }
  }
  const std::int64_t lanes = std::min(kPanelRows, w.outputs - panel * kPanelRows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      out.row(r)[panel * kPanelRows + lane] = static_cast<float>(total[r][lane]);
    }
  }
}

template <class Sum>
void product(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
             MatrixView<float> out) {
  for (std::int64_t r = 0; r < x.rows; r += kRows) {
    const std::int64_t rows = std::min(kRows, x.rows - r);
    for (std::int64_t p = panels.begin; p < panels.end; ++p) {
      panel_rows<Sum>({x.row(r), rows, x.cols, x.stride}, w, p,
                      {out.row(r), rows, out.cols, out.stride});
    }
  }
}

} // namespace

void gemm(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
          MatrixView<float> out) {
  product<float>(x, w, panels, out);
}

void gemm_wide(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
               MatrixView<float> out) {
  product<double>(x, w, panels, out);
}

} // namespace troupe::kernels::scalar
