// Low-bit number formats, bit by bit: e4m3, e2m1, ue8m0 and the three block quantisers.
//
// Every rounding is to nearest, ties to the even code, saturating. Scales are found by integer
// arithmetic on the exponent, so no result depends on a math library.

#pragma once

#include "kernels/dtype.hpp"

#include <cstdint>

namespace troupe::kernels {

/// Value of an e4m3 code; NaN for 0x7F and 0xFF. Pure.
float decode_e4m3(std::uint8_t code) noexcept;

/// Nearest e4m3 code; values beyond 448 saturate, NaN gives 0x7F. Pure.
std::uint8_t encode_e4m3(float value) noexcept;

/// Value of a 4-bit e2m1 code; the upper bits are ignored. Pure.
float decode_e2m1(std::uint8_t code) noexcept;

/// Nearest 4-bit e2m1 code; values beyond 6 saturate, NaN gives 0. Pure.
std::uint8_t encode_e2m1(float value) noexcept;

/// 2^(byte - 127); NaN for 255. Pure.
float decode_e8m0(std::uint8_t byte) noexcept;

/// Value of a bfloat16. Pure.
float decode_bf16(std::uint16_t bits) noexcept;

/// ue8m0 scale of a block of e4m3 values whose largest magnitude is `amax`. Pure.
/// Source: DeepSeek-V4 model description, 2^ceil(log2(max(amax, 1e-4) * float(1 / 448))).
std::uint8_t fp8_scale_of(float amax) noexcept;

/// ue8m0 scale of a block of e2m1 values: 2^ceil(log2(max(amax, 6 * 2^-126) * float(1 / 6))). Pure.
std::uint8_t fp4_scale_of(float amax) noexcept;

/// e4m3 scale of a block of e2m1 values: e4m3(max(amax, 6 * 2^-9) / 6). Pure.
std::uint8_t fp4_e4m3_scale_of(float amax) noexcept;

/// Quantises a row to e4m3 with a ue8m0 scale per 32 values.
///
/// @param x       [n], n a multiple of 32
/// @param codes   [n]
/// @param scales  [n / 32]
void pack_fp8(const float* x, std::int64_t n, std::uint8_t* codes, std::uint8_t* scales) noexcept;
void unpack_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                float* x) noexcept;

/// Quantises a row to e2m1 with a ue8m0 scale per 32 values.
///
/// @param codes   [n / 2], low nibble = even index
/// @param scales  [n / 32]
void pack_fp4(const float* x, std::int64_t n, std::uint8_t* codes, std::uint8_t* scales) noexcept;
void unpack_fp4(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                float* x) noexcept;

/// Quantises a row to e2m1 with an e4m3 scale per 16 values.
///
/// @param x       [n], n a multiple of 16
/// @param codes   [n / 2], low nibble = even index
/// @param scales  [n / 16]
void pack_fp4_e4m3(const float* x, std::int64_t n, std::uint8_t* codes,
                   std::uint8_t* scales) noexcept;
void unpack_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                     float* x) noexcept;

} // namespace troupe::kernels
