// Vector helpers of the AVX2 files; included by files compiled with -mavx2 -mfma only.
//
// Everything is static, so that no copy with AVX2 instructions can replace a portable one.

#pragma once

#include <immintrin.h>

namespace troupe::kernels::avx2 {

/// e^x per lane, within 2 units in the last place; 0 below -87.3, NaN stays NaN.
/// Source: Cephes expf (range reduction by ln 2 in two parts, polynomial of degree 7).
static inline __m256 exp8(__m256 x) {
  const __m256 low = _mm256_set1_ps(-87.3F);
  const __m256 kept = _mm256_cmp_ps(x, low, _CMP_NLT_UQ); // true for NaN
  const __m256 v = _mm256_min_ps(_mm256_set1_ps(88.37F), _mm256_max_ps(low, x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(v, _mm256_set1_ps(1.44269504F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), v);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4F);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1F));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1F));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1.0F)));
  const __m256i power =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_and_ps(kept, _mm256_mul_ps(p, _mm256_castsi256_ps(power)));
}

/// Sum of the lanes: low half plus high half, then pairs.
static inline float sum8(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// Largest lane; of a NaN and a number the number.
static inline float max8(__m256 v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/// The four lane sums of a, b, c, d; the same tree for each, so the place does not matter.
static inline __m128 sum8x4(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  return _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
}

/// Mask of the first n lanes.
static inline __m256i first_lanes(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// Eight e4m3 codes as float32, times `scale` (which includes 2^120). No NaN codes.
static inline __m256 e4m3x8(const unsigned char* codes, __m256 scale) {
  const __m256i wide =
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m256i magnitude = _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(0x7F)), 20);
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(wide, _mm256_set1_epi32(0x80)), 24);
  return _mm256_mul_ps(_mm256_castsi256_ps(_mm256_or_si256(magnitude, sign)), scale);
}

/// Eight 32-bit lanes whose low 4 bits are e2m1 codes, as float32; upper bits are ignored.
static inline __m256 e2m1x8(__m256i codes) {
  const __m256 table = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
  const __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
  return _mm256_or_ps(_mm256_permutevar8x32_ps(table, codes), _mm256_castsi256_ps(sign));
}

} // namespace troupe::kernels::avx2
