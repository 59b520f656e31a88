// Low-bit formats against their definitions: nearest code by search, scales by exact powers of two.

#include "kernels/lowbit.hpp"
#include "tests/kernels/support.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using namespace troupe::kernels;
using troupe::Rng;

double e4m3_value(int code) {
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 128) != 0 ? -magnitude : magnitude;
}

const double kGrid[] = {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0};

/// Nearest code below `codes`, ties to the even one, by looking at all of them.
template <class Value>
int nearest(double given, int codes, Value value) {
  const double x = std::min(given, value(codes - 1)); // saturating
  int best = 0;
  for (int code = 1; code < codes; ++code) {
    const double gap = std::fabs(value(code) - x);
    const double least = std::fabs(value(best) - x);
    if (gap < least || (gap == least && code % 2 == 0)) best = code;
  }
  return best;
}

/// Every midpoint of a grid, its float32 neighbours, and values all over the range.
template <class Value>
std::vector<float> probes(int codes, Value value) {
  std::vector<float> out = {0.0F, 1e-30F, 1e30F, std::numeric_limits<float>::infinity()};
  for (int code = 0; code + 1 < codes; ++code) {
    const auto middle = static_cast<float>((value(code) + value(code + 1)) / 2);
    out.push_back(static_cast<float>(value(code)));
    out.push_back(middle);
    out.push_back(std::nextafter(middle, 0.0F));
    out.push_back(std::nextafter(middle, 1e30F));
  }
  Rng rng(7);
  for (int i = 0; i < 20000; ++i) {
    const auto mantissa = static_cast<float>(rng.below(1 << 24));
    out.push_back(std::ldexp(mantissa, static_cast<int>(rng.below(48)) - 48));
  }
  return out;
}

TEST(Lowbit, E4m3DecodesEveryCode) {
  for (int code = 0; code < 256; ++code) {
    const float got = decode_e4m3(static_cast<std::uint8_t>(code));
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(got));
    } else {
      EXPECT_EQ(double{got}, e4m3_value(code)) << code;
    }
  }
}

TEST(Lowbit, E4m3RoundsToNearestEven) {
  for (const float x : probes(127, e4m3_value)) {
    const int want = nearest(x, 127, e4m3_value);
    EXPECT_EQ(encode_e4m3(x), want) << x;
    EXPECT_EQ(encode_e4m3(-x), want | 128) << -x;
  }
  EXPECT_EQ(encode_e4m3(std::numeric_limits<float>::quiet_NaN()) & 127, 127);
}

TEST(Lowbit, E2m1RoundsToNearestEven) {
  const auto value = [](int code) { return kGrid[code & 7]; };
  for (const float x : probes(8, value)) {
    const int want = nearest(x, 8, value);
    EXPECT_EQ(encode_e2m1(x), want) << x;
    EXPECT_EQ(encode_e2m1(-x), want | 8) << -x;
    EXPECT_EQ(double{decode_e2m1(static_cast<std::uint8_t>(want))}, kGrid[want]);
  }
}

/// Smallest power of two that is no less than amax * factor, from the float32 product.
int ceil_log2(float product) {
  int exponent = 0;
  const float mantissa = std::frexp(product, &exponent);
  return mantissa == 0.5F ? exponent - 1 : exponent;
}

TEST(Lowbit, ScalesFollowTheFormulas) {
  Rng rng(11);
  for (int i = 0; i < 20000; ++i) {
    const float amax =
        std::ldexp(static_cast<float>(rng.below(1 << 24)), static_cast<int>(rng.below(80)) - 64);
    const float fp8 = std::max(amax, 1e-4F) * static_cast<float>(1.0 / 448.0);
    EXPECT_EQ(decode_e8m0(fp8_scale_of(amax)), std::ldexp(1.0F, ceil_log2(fp8)));
    const float fp4 = std::max(amax, 6.0F * 0x1p-126F) * static_cast<float>(1.0 / 6.0);
    EXPECT_EQ(decode_e8m0(fp4_scale_of(amax)), std::ldexp(1.0F, ceil_log2(fp4)));
    const float plain = std::max(amax, 6.0F * 0x1p-9F) / 6.0F;
    EXPECT_EQ(fp4_e4m3_scale_of(amax), nearest(plain, 127, e4m3_value));
  }
  EXPECT_EQ(decode_e8m0(fp8_scale_of(448.0F)), 1.0F);
  EXPECT_EQ(decode_e8m0(fp8_scale_of(std::nextafter(448.0F, 449.0F))), 2.0F);
  EXPECT_EQ(decode_e8m0(0), 0x1p-127F);
  EXPECT_TRUE(std::isnan(decode_e8m0(255)));
}

/// Blocks of ordinary, tiny, huge, zero and damaged values.
std::vector<float> rows(Rng& rng, std::int64_t n) {
  std::vector<float> x = troupe::test::activations(rng, n);
  for (std::int64_t b = 0; b < n; b += 32) {
    const auto scale = std::ldexp(1.0F, static_cast<int>(rng.below(60)) - 40);
    for (std::int64_t i = b; i < b + 32; ++i)
      x[static_cast<std::size_t>(i)] *= scale;
    if (rng.below(8) == 0) std::fill_n(x.begin() + b, 32, rng.below(2) == 0 ? 0.0F : -0.0F);
  }
  return x;
}

TEST(Lowbit, BlocksRoundTrip) {
  Rng rng(3);
  for (int repeat = 0; repeat < 50; ++repeat) {
    constexpr std::int64_t kN = 256;
    const std::vector<float> x = rows(rng, kN);
    std::vector<std::uint8_t> codes(kN), scales(kN / 16);
    std::vector<float> got(kN);
    pack_fp8(x.data(), kN, codes.data(), scales.data());
    unpack_fp8(codes.data(), scales.data(), kN, got.data());
    for (std::int64_t i = 0; i < kN; ++i) {
      const double scale = decode_e8m0(scales[static_cast<std::size_t>(i / 32)]);
      const double v = x[static_cast<std::size_t>(i)];
      const double want = e4m3_value(nearest(std::fabs(v) / scale, 127, e4m3_value)) * scale;
      EXPECT_EQ(double{got[static_cast<std::size_t>(i)]}, v < 0 ? -want : want);
    }
    pack_fp4_e4m3(x.data(), kN, codes.data(), scales.data());
    unpack_fp4_e4m3(codes.data(), scales.data(), kN, got.data());
    for (std::int64_t i = 0; i < kN; ++i) {
      const float scale = decode_e4m3(scales[static_cast<std::size_t>(i / 16)]);
      const float v = x[static_cast<std::size_t>(i)];
      const double want =
          kGrid[nearest(std::fabs(v) / scale, 8, [](int code) { return kGrid[code]; })] * scale;
      EXPECT_EQ(double{got[static_cast<std::size_t>(i)]}, v < 0 ? -want : want);
    }
  }
}

TEST(Lowbit, PathsGiveEqualBits) {
  Rng rng(5);
  constexpr std::int64_t kN = 512;
  for (int repeat = 0; repeat < 100; ++repeat) {
    std::vector<float> x = rows(rng, kN);
    if (repeat % 10 == 9) x[7] = std::numeric_limits<float>::infinity();
    std::vector<std::uint8_t> fp8(kN), fp8_scales(kN / 32), fp4(kN / 2), fp4_scales(kN / 32);
    std::vector<std::uint8_t> main(kN / 2), main_scales(kN / 16);
    pack_fp8(x.data(), kN, fp8.data(), fp8_scales.data());
    pack_fp4(x.data(), kN, fp4.data(), fp4_scales.data());
    pack_fp4_e4m3(x.data(), kN, main.data(), main_scales.data());
    const auto bits = [](const std::vector<float>& values) {
      std::vector<std::uint32_t> out;
      for (const float v : values) {
        out.push_back(std::isnan(v) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(v));
      }
      return out;
    };
    std::vector<std::vector<std::uint32_t>> results[4];
    for (const OpTable* ops : troupe::test::op_tables()) {
      std::vector<float> out(kN);
      ops->sim_fp8(x.data(), kN, out.data());
      results[0].push_back(bits(out));
      ops->unpack_fp8(fp8.data(), fp8_scales.data(), kN, out.data());
      results[1].push_back(bits(out));
      ops->unpack_fp4(fp4.data(), fp4_scales.data(), kN, out.data());
      results[2].push_back(bits(out));
      ops->unpack_fp4_e4m3(main.data(), main_scales.data(), kN, out.data());
      results[3].push_back(bits(out));
    }
    EXPECT_EQ(results[0].front(), results[1].front()) << "sim is pack and unpack";
    for (const auto& result : results) {
      for (const auto& path : result)
        EXPECT_EQ(path, result.front());
    }
  }
}

} // namespace
