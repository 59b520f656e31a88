// Packs weights as stored in a checkpoint into the panels of tensor_view.hpp.

#pragma once

#include "kernels/tensor_view.hpp"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// A weight as stored: row-major [outputs, inputs], with its scales.
struct StoredMatrix {
  WeightFormat format = WeightFormat::f32;
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;           ///< Values, also for e2m1, whose rows hold inputs / 2 bytes.
  const std::byte* values = nullptr; ///< Little-endian; may be unaligned.
  const std::uint8_t* scales = nullptr; ///< [ceil(outputs / scale_rows), ceil(inputs / 32)] ue8m0
  std::int64_t scale_rows = 1;          ///< Output rows that share a scale.
};

/// Bytes of the two parts of a packed matrix.
std::int64_t packed_value_bytes(WeightFormat format, std::int64_t outputs,
                                std::int64_t inputs) noexcept;
std::int64_t packed_scale_bytes(WeightFormat format, std::int64_t outputs,
                                std::int64_t inputs) noexcept;

/// Packs `count` outputs of `from`, beginning with output `first`.
///
/// @param values  [packed_value_bytes(count)], 64-byte aligned
/// @param scales  [packed_scale_bytes(count)]
/// @return a view of `values` and `scales`, which the caller owns
PackedMatrix pack(const StoredMatrix& from, std::int64_t first, std::int64_t count,
                  std::byte* values, std::uint8_t* scales) noexcept;

} // namespace troupe::kernels
