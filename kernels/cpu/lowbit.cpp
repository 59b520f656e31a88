// Scalar definition of the low-bit formats, on the bits of float32.

#include "kernels/lowbit.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace troupe::kernels {

namespace {

constexpr float kE2m1[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};

std::uint32_t magnitude_bits(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFU; }

std::uint8_t sign_to(float x, int bit) {
  return static_cast<std::uint8_t>((std::bit_cast<std::uint32_t>(x) >> 31) << bit);
}

/// ceil(log2 t) + 127 of a positive normal t, at most 254.
std::uint8_t ceil_log2_byte(float t) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(t);
  const std::uint32_t byte = (bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1 : 0);
  return static_cast<std::uint8_t>(byte < 254 ? byte : 254);
}

/// Largest magnitude; NaNs are passed over.
float largest(const float* x, std::int64_t n) {
  float amax = 0.0F;
  for (std::int64_t i = 0; i < n; ++i) {
    const float a = std::fabs(x[i]);
    amax = a > amax ? a : amax;
  }
  return amax;
}

/// 1 / 2^(byte - 127) for bytes 0..254; exact, so multiplying equals dividing by the scale.
float inverse_scale(std::uint8_t byte) {
  return decode_e8m0(static_cast<std::uint8_t>(254 - byte));
}

} // namespace

float decode_e4m3(std::uint8_t code) noexcept {
  const std::uint32_t magnitude = code & 0x7FU;
  const std::uint32_t sign = (code & 0x80U) << 24;
  if (magnitude == 0x7F) return std::numeric_limits<float>::quiet_NaN();
  // As float bits the code is the value times 2^-120, subnormal codes included.
  const float value = std::bit_cast<float>(magnitude << 20) * 0x1p120F;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
}

std::uint8_t encode_e4m3(float value) noexcept {
  const std::uint32_t bits = magnitude_bits(value);
  const std::uint8_t sign = sign_to(value, 7);
  if (bits > 0x7F800000U) return 0x7F;
  if (bits < 0x3C800000U) { // below 2^-6: multiples of 2^-9
    const float units = std::bit_cast<float>(bits) * 512.0F + 8388608.0F;
    return static_cast<std::uint8_t>(sign | (std::bit_cast<std::uint32_t>(units) & 0xFU));
  }
  const std::uint32_t rounded = bits + 0x7FFFFU + ((bits >> 20) & 1U);
  const std::uint32_t code = (rounded >> 20) - 960U;
  return static_cast<std::uint8_t>(sign | (code < 0x7E ? code : 0x7E));
}

float decode_e2m1(std::uint8_t code) noexcept {
  const float value = kE2m1[code & 7];
  return (code & 8) != 0 ? -value : value;
}

std::uint8_t encode_e2m1(float value) noexcept {
  const float a = std::fabs(value);
  const int code = int{a > 0.25F} + int{a >= 0.75F} + int{a > 1.25F} + int{a >= 1.75F} +
                   int{a > 2.5F} + int{a >= 3.5F} + int{a > 5.0F};
  return static_cast<std::uint8_t>(sign_to(value, 3) | code);
}

float decode_e8m0(std::uint8_t byte) noexcept {
  if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
  const std::uint32_t bits = byte == 0 ? 0x00400000U : std::uint32_t{byte} << 23;
  return std::bit_cast<float>(bits);
}

float decode_bf16(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

std::uint8_t fp8_scale_of(float amax) noexcept {
  return ceil_log2_byte((amax > 1e-4F ? amax : 1e-4F) * (1.0F / 448.0F));
}

std::uint8_t fp4_scale_of(float amax) noexcept {
  constexpr float kFloor = 6.0F * 0x1p-126F;
  return ceil_log2_byte((amax > kFloor ? amax : kFloor) * (1.0F / 6.0F));
}

std::uint8_t fp4_e4m3_scale_of(float amax) noexcept {
  constexpr float kFloor = 6.0F * 0x1p-9F;
  return encode_e4m3((amax > kFloor ? amax : kFloor) / 6.0F);
}

void pack_fp8(const float* x, std::int64_t n, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  for (std::int64_t b = 0; b < n / kScaleBlock; ++b) {
    const float* from = x + b * kScaleBlock;
    scales[b] = fp8_scale_of(largest(from, kScaleBlock));
    const float inverse = inverse_scale(scales[b]);
    for (std::int64_t i = 0; i < kScaleBlock; ++i) {
      codes[b * kScaleBlock + i] = encode_e4m3(from[i] * inverse);
    }
  }
}

void unpack_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                float* x) noexcept {
  for (std::int64_t b = 0; b < n / kScaleBlock; ++b) {
    const float scale = decode_e8m0(scales[b]);
    for (std::int64_t i = b * kScaleBlock; i < (b + 1) * kScaleBlock; ++i) {
      x[i] = decode_e4m3(codes[i]) * scale;
    }
  }
}

void pack_fp4(const float* x, std::int64_t n, std::uint8_t* codes, std::uint8_t* scales) noexcept {
  for (std::int64_t b = 0; b < n / kScaleBlock; ++b) {
    const float* from = x + b * kScaleBlock;
    scales[b] = fp4_scale_of(largest(from, kScaleBlock));
    const float inverse = inverse_scale(scales[b]);
    for (std::int64_t i = 0; i < kScaleBlock; i += 2) {
      const std::uint8_t low = encode_e2m1(from[i] * inverse);
      const std::uint8_t high = encode_e2m1(from[i + 1] * inverse);
      codes[(b * kScaleBlock + i) / 2] = static_cast<std::uint8_t>(low | (high << 4));
    }
  }
}

void unpack_fp4(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                float* x) noexcept {
  for (std::int64_t i = 0; i < n; i += 2) {
    const float scale = decode_e8m0(scales[i / kScaleBlock]);
    x[i] = decode_e2m1(codes[i / 2]) * scale;
    x[i + 1] = decode_e2m1(static_cast<std::uint8_t>(codes[i / 2] >> 4)) * scale;
  }
}

void pack_fp4_e4m3(const float* x, std::int64_t n, std::uint8_t* codes,
                   std::uint8_t* scales) noexcept {
  for (std::int64_t b = 0; b < n / kCompressedScaleBlock; ++b) {
    const float* from = x + b * kCompressedScaleBlock;
    scales[b] = fp4_e4m3_scale_of(largest(from, kCompressedScaleBlock));
    const float scale = decode_e4m3(scales[b]); // no power of two: a true division
    for (std::int64_t i = 0; i < kCompressedScaleBlock; i += 2) {
      const std::uint8_t low = encode_e2m1(from[i] / scale);
      const std::uint8_t high = encode_e2m1(from[i + 1] / scale);
      codes[(b * kCompressedScaleBlock + i) / 2] = static_cast<std::uint8_t>(low | (high << 4));
    }
  }
}

void unpack_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                     float* x) noexcept {
  for (std::int64_t i = 0; i < n; i += 2) {
    const float scale = decode_e4m3(scales[i / kCompressedScaleBlock]);
    x[i] = decode_e2m1(codes[i / 2]) * scale;
    x[i + 1] = decode_e2m1(static_cast<std::uint8_t>(codes[i / 2] >> 4)) * scale;
  }
}

} // namespace troupe::kernels
