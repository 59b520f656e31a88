// Integer arithmetic that cannot overflow: what scores, ratios and shares are computed with.

#pragma once

#include <cstdint>
#include <limits>

namespace troupe::sched {

__extension__ using Int128 = __int128;

/// `value` cut off at the int64 range.
constexpr std::int64_t saturate(Int128 value) noexcept {
  constexpr Int128 kMax = std::numeric_limits<std::int64_t>::max();
  constexpr Int128 kMin = std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value > kMax ? kMax : value < kMin ? kMin : value);
}

/// a·b, cut off at the int64 range.
constexpr std::int64_t multiply_saturated(std::int64_t a, std::int64_t b) noexcept {
  return saturate(static_cast<Int128>(a) * b);
}

/// a·b/c rounded towards zero, cut off at the int64 range. @pre c != 0
constexpr std::int64_t scale(std::int64_t a, std::int64_t b, std::int64_t c) noexcept {
  // A division of 128 bits takes several times as long as one of 64.
  std::int64_t product = 0;
  if (c > 0 && !__builtin_mul_overflow(a, b, &product)) return product / c;
  return saturate(static_cast<Int128>(a) * b / c);
}

/// Whether a/b < c/d. @pre b, d > 0
constexpr bool ratio_less(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) noexcept {
  return static_cast<Int128>(a) * d < static_cast<Int128>(c) * b;
}

/// 2^-(x/65536) in units of 2^-32, for x >= 0; exact to about 1e-8.
constexpr std::uint64_t power_of_half(std::int64_t x) noexcept {
  // round(2^-(2^-i) · 2^32) for i = 1 .. 16.
  constexpr std::uint64_t kFactors[16] = {3037000500, 3611622603, 3938502376, 4112874773,
                                          4202935003, 4248701965, 4271771996, 4283353945,
                                          4289156690, 4292061010, 4293513907, 4294240540,
                                          4294603903, 4294785595, 4294876445, 4294921870};
  const std::int64_t whole = x >> 16;
  if (whole >= 33) return 0;
  std::uint64_t value = 1ULL << 32;
  for (int i = 0; i < 16; ++i) {
    if ((x >> (15 - i) & 1) != 0) value = value * kFactors[i] >> 32;
  }
  return value >> whole;
}

} // namespace troupe::sched
