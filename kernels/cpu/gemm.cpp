// Scalar GEMM: decodes a block of one panel to float32, then adds its sums to every row.

#include "kernels/cpu/scalar_ops.hpp"
#include "kernels/lowbit.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::kernels::scalar {

namespace {

/// Value of input k of output `lane` within a panel.
float weight_at(const PackedMatrix& w, std::int64_t panel, std::int64_t k, std::int64_t lane) {
  const std::int64_t at = (panel * w.inputs + k) * kPanelRows + lane;
  if (w.format == WeightFormat::f32) return static_cast<const float*>(w.values)[at];
  if (w.format == WeightFormat::bf16) {
    return decode_bf16(static_cast<const std::uint16_t*>(w.values)[at]);
  }
  const std::int64_t block = panel * w.scale_blocks() + k / kScaleBlock;
  const float scale = decode_e8m0(w.scales[block * kPanelRows + lane]);
  const auto* bytes = static_cast<const std::uint8_t*>(w.values);
  if (w.format == WeightFormat::e4m3) return decode_e4m3(bytes[at]) * scale;
  const std::uint8_t pair = bytes[(panel * w.inputs + k) * (kPanelRows / 2) + lane % 8];
  return decode_e2m1(static_cast<std::uint8_t>(lane < 8 ? pair : pair >> 4)) * scale;
}

} // namespace

void gemm(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
          MatrixView<float> out) {
  float decoded[kScaleBlock][kPanelRows];
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const std::int64_t lanes = std::min(kPanelRows, w.outputs - p * kPanelRows);
    const auto bytes = static_cast<std::size_t>(lanes) * sizeof(float);
    for (std::int64_t k0 = 0; k0 < w.inputs; k0 += kScaleBlock) {
      const std::int64_t count = std::min(kScaleBlock, w.inputs - k0);
      for (std::int64_t k = 0; k < count; ++k) {
        for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
          decoded[k][lane] = weight_at(w, p, k0 + k, lane);
        }
      }
      for (std::int64_t r = 0; r < x.rows; ++r) {
        float total[kPanelRows] = {};
        if (k0 > 0) std::memcpy(total, out.row(r) + p * kPanelRows, bytes);
        float sum[kPanelRows] = {};
        for (std::int64_t k = 0; k < count; ++k) {
          const float value = x.row(r)[k0 + k];
          for (std::int64_t lane = 0; lane < kPanelRows; ++lane) {
            sum[lane] += value * decoded[k][lane];
          }
        }
        for (std::int64_t lane = 0; lane < kPanelRows; ++lane)
          total[lane] += sum[lane];
        std::memcpy(out.row(r) + p * kPanelRows, total, bytes);
      }
    }
  }
}

void gemm_wide(MatrixView<const float> x, const PackedMatrix& w, PanelRange panels,
               MatrixView<float> out) {
  for (std::int64_t p = panels.begin; p < panels.end; ++p) {
    const std::int64_t lanes = std::min(kPanelRows, w.outputs - p * kPanelRows);
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      for (std::int64_t r = 0; r < x.rows; ++r) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < w.inputs; ++k) {
          sum += double{x.row(r)[k]} * double{weight_at(w, p, k, lane)};
        }
        out.row(r)[p * kPanelRows + lane] = static_cast<float>(sum);
      }
    }
  }
}

} // namespace troupe::kernels::scalar
