// One machine vector of floats: AVX2 with FMA (x86-64-v3), eight lanes.
//
// Each instruction-set folder defines the same names; the build picks one by its include path.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace simpler::kernels::body {

inline constexpr char kIsaName[] = "v3";

using Native = __m256;
inline constexpr int kNativeLanes = 8;
// Register tile of the matrix product: rows, and vectors per row.
inline constexpr int kTileRows = 6;
inline constexpr int kTileVectors = 2;

inline __m256i first_lanes(int64_t count) {
  const __m256i index = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), index);
}
inline Native native_zero() {
  return _mm256_setzero_ps();
}
inline Native native_broadcast(float x) {
  return _mm256_set1_ps(x);
}
inline Native native_load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline void native_store(float* p, Native x) {
  _mm256_storeu_ps(p, x);
}
inline Native native_load_part(const float* p, int64_t count) {
  return _mm256_maskload_ps(p, first_lanes(count));
}
inline void native_store_part(float* p, int64_t count, Native x) {
  _mm256_maskstore_ps(p, first_lanes(count), x);
}
inline Native native_add(Native a, Native b) {
  return _mm256_add_ps(a, b);
}
inline Native native_sub(Native a, Native b) {
  return _mm256_sub_ps(a, b);
}
inline Native native_mul(Native a, Native b) {
  return _mm256_mul_ps(a, b);
}
inline Native native_div(Native a, Native b) {
  return _mm256_div_ps(a, b);
}
inline Native native_fma(Native a, Native b, Native c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Native native_min(Native a, Native b) {
  return _mm256_min_ps(a, b);
}  // b where either is NaN
inline Native native_max(Native a, Native b) {
  return _mm256_max_ps(a, b);
}  // b where either is NaN
inline Native native_abs(Native a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a);
}
// a < b ? x : y, lane by lane.
inline Native native_select_less(Native a, Native b, Native x, Native y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline Native native_copy_sign(Native magnitude, Native sign) {
  const __m256 bit = _mm256_set1_ps(-0.0F);
  return _mm256_or_ps(_mm256_and_ps(bit, sign), _mm256_andnot_ps(bit, magnitude));
}
// Adds the integer in the low bits of `shifted` to the exponent of x.
inline Native native_scale_by_low_bits(Native x, Native shifted) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(x), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}

}  // namespace simpler::kernels::body
