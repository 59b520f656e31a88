// Stored formats of a matrix. Activations are always float32.

#pragma once

#include <cstdint>

namespace troupe::kernels {

/// How the values of a packed matrix are stored. Both low-bit formats carry one ue8m0 scale for
/// each output row and 32 inputs.
enum class WeightFormat : std::uint8_t {
  f32,
  bf16,
  e4m3, ///< Sign, 4 exponent bits (bias 7), 3 mantissa bits; 0x7F and 0xFF are NaN; no infinity.
  e2m1, ///< 0, .5, 1, 1.5, 2, 3, 4, 6 and their negatives; bit 3 is the sign.
};

/// Inputs that share one scale in a packed matrix and in a quantised activation row.
inline constexpr std::int64_t kScaleBlock = 32;

/// Channels that share one e4m3 scale in a compressed KV row.
inline constexpr std::int64_t kCompressedScaleBlock = 16;

} // namespace troupe::kernels
