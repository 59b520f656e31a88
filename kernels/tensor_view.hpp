// Non-owning views: rows of one width at a stride, and a matrix packed for the GEMM.

#pragma once

#include "kernels/dtype.hpp"

#include <cstdint>

namespace troupe::kernels {

/// `rows` rows of `cols` values; row i begins at data + i * stride.
template <class T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  T* row(std::int64_t i) const noexcept { return data + i * stride; }
};

/// Output rows of one panel.
inline constexpr std::int64_t kPanelRows = 16;

/// A weight [outputs, inputs] cut into panels of 16 outputs, inputs outermost within a panel, so
/// that a vector lane is one output and each output is a sum over inputs in ascending order.
///
///   values   f32, bf16: [panels, inputs, 16]; e4m3: the same, bytes;
///            e2m1: [panels, inputs, 8] bytes, byte i holds output i low and output i + 8 high
///   scales   e4m3, e2m1: ue8m0 [panels, ceil(inputs / 32), 16]; otherwise null
///
/// Outputs past the end hold zeros.
struct PackedMatrix {
  WeightFormat format = WeightFormat::f32;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  const void* values = nullptr;
  const std::uint8_t* scales = nullptr;

  std::int64_t panels() const noexcept { return (outputs + kPanelRows - 1) / kPanelRows; }
  std::int64_t scale_blocks() const noexcept { return (inputs + kScaleBlock - 1) / kScaleBlock; }
};

/// Half-open range of panels: the part of a GEMM that one call computes.
struct PanelRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

} // namespace troupe::kernels
