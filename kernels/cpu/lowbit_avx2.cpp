// AVX2 versions of the activation round trip and of the row decoders; bits equal the scalar ones.

#include "kernels/cpu/avx2_math.hpp"
#include "kernels/cpu/avx2_ops.hpp"
#include "kernels/lowbit.hpp"

namespace troupe::kernels::avx2 {

namespace {

/// Nearest e4m3 values of magnitudes up to 448 (and NaN), as float32.
inline __m256 round_e4m3(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 20), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFFF)), odd);
  const __m256i cut = _mm256_and_si256(up, _mm256_set1_epi32(static_cast<int>(0xFFF00000U)));
  const __m256 normal = _mm256_min_ps(_mm256_castsi256_ps(cut), _mm256_set1_ps(448.0F));
  // Below 2^-6 the grid is 2^-9: adding 2^23 units rounds to whole units, ties to even.
  const __m256 units = _mm256_sub_ps(
      _mm256_add_ps(_mm256_mul_ps(a, _mm256_set1_ps(512.0F)), _mm256_set1_ps(8388608.0F)),
      _mm256_set1_ps(8388608.0F));
  const __m256 small = _mm256_mul_ps(units, _mm256_set1_ps(0x1p-9F));
  return _mm256_blendv_ps(normal, small, _mm256_cmp_ps(a, _mm256_set1_ps(0x1p-6F), _CMP_LT_OQ));
}

/// Sixteen 4-bit codes in channel order, one a byte, from eight bytes.
inline __m128i nibbles(const std::uint8_t* codes) {
  const __m128i pairs = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return _mm_unpacklo_epi8(pairs, _mm_srli_epi16(pairs, 4));
}

inline void store16(const std::uint8_t* codes, __m256 scale, float* x) {
  const __m128i each = nibbles(codes);
  _mm256_storeu_ps(x, _mm256_mul_ps(e2m1x8(_mm256_cvtepu8_epi32(each)), scale));
  _mm256_storeu_ps(x + 8,
                   _mm256_mul_ps(e2m1x8(_mm256_cvtepu8_epi32(_mm_srli_si128(each, 8))), scale));
}

} // namespace

void sim_fp8(const float* x, std::int64_t n, float* out) {
  const __m256 sign_bit = _mm256_set1_ps(-0.0F);
  for (std::int64_t b = 0; b < n; b += kScaleBlock) {
    __m256 value[4];
    __m256 top = _mm256_setzero_ps();
    for (int i = 0; i < 4; ++i) {
      value[i] = _mm256_loadu_ps(x + b + 8 * i);
      top = _mm256_max_ps(_mm256_andnot_ps(sign_bit, value[i]), top);
    }
    const std::uint8_t byte = fp8_scale_of(max8(top));
    const __m256 scale = _mm256_set1_ps(decode_e8m0(byte));
    const __m256 inverse = _mm256_set1_ps(decode_e8m0(static_cast<std::uint8_t>(254 - byte)));
    for (int i = 0; i < 4; ++i) {
      const __m256 v = _mm256_mul_ps(value[i], inverse);
      const __m256 rounded = round_e4m3(_mm256_andnot_ps(sign_bit, v));
      const __m256 number = _mm256_or_ps(rounded, _mm256_and_ps(sign_bit, v));
      // NaN inputs stay NaN whatever the integer steps made of them.
      const __m256 kept = _mm256_blendv_ps(number, v, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
      _mm256_storeu_ps(out + b + 8 * i, _mm256_mul_ps(kept, scale));
    }
  }
}

void unpack_fp8(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* x) {
  const __m256 lift = _mm256_set1_ps(0x1p120F);
  const __m256i magnitude = _mm256_set1_epi32(0x7F);
  const __m256 nan = _mm256_set1_ps(__builtin_nanf(""));
  for (std::int64_t i = 0; i < n; i += 8) {
    const __m256 scale = _mm256_set1_ps(decode_e8m0(scales[i / kScaleBlock]));
    const __m256i wide =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + i)));
    const __m256i is_nan = _mm256_cmpeq_epi32(_mm256_and_si256(wide, magnitude), magnitude);
    const __m256 value =
        _mm256_blendv_ps(e4m3x8(codes + i, lift), nan, _mm256_castsi256_ps(is_nan));
    _mm256_storeu_ps(x + i, _mm256_mul_ps(value, scale));
  }
}

void unpack_fp4(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n, float* x) {
  for (std::int64_t i = 0; i < n; i += 16) {
    store16(codes + i / 2, _mm256_set1_ps(decode_e8m0(scales[i / kScaleBlock])), x + i);
  }
}

void unpack_fp4_e4m3(const std::uint8_t* codes, const std::uint8_t* scales, std::int64_t n,
                     float* x) {
  for (std::int64_t i = 0; i < n; i += kCompressedScaleBlock) {
    store16(codes + i / 2, _mm256_set1_ps(decode_e4m3(scales[i / kCompressedScaleBlock])), x + i);
  }
}

} // namespace troupe::kernels::avx2
