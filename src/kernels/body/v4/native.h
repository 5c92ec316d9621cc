// One machine vector of floats: AVX-512 (x86-64-v4), sixteen lanes.
//
// Each instruction-set folder defines the same names; the build picks one by its include path.
#pragma once

#include <cstdint>
#include <immintrin.h>

namespace simpler::kernels::body {

inline constexpr char kIsaName[] = "v4";

using Native = __m512;
inline constexpr int kNativeLanes = 16;
// Register tile of the matrix product: rows, and vectors per row.
inline constexpr int kTileRows = 14;
inline constexpr int kTileVectors = 2;

inline __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFU : (1U << static_cast<unsigned>(count)) - 1U);
}
inline Native native_zero() {
  return _mm512_setzero_ps();
}
inline Native native_broadcast(float x) {
  return _mm512_set1_ps(x);
}
inline Native native_load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline void native_store(float* p, Native x) {
  _mm512_storeu_ps(p, x);
}
inline Native native_load_part(const float* p, int64_t count) {
  return _mm512_maskz_loadu_ps(first_lanes(count), p);
}
inline void native_store_part(float* p, int64_t count, Native x) {
  _mm512_mask_storeu_ps(p, first_lanes(count), x);
}
inline Native native_add(Native a, Native b) {
  return _mm512_add_ps(a, b);
}
inline Native native_sub(Native a, Native b) {
  return _mm512_sub_ps(a, b);
}
inline Native native_mul(Native a, Native b) {
  return _mm512_mul_ps(a, b);
}
inline Native native_div(Native a, Native b) {
  return _mm512_div_ps(a, b);
}
inline Native native_fma(Native a, Native b, Native c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Native native_min(Native a, Native b) {
  return _mm512_min_ps(a, b);
}  // b where either is NaN
inline Native native_max(Native a, Native b) {
  return _mm512_max_ps(a, b);
}  // b where either is NaN
inline Native native_abs(Native a) {
  return _mm512_abs_ps(a);
}
// a < b ? x : y, lane by lane.
inline Native native_select_less(Native a, Native b, Native x, Native y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline Native native_copy_sign(Native magnitude, Native sign) {
  const __m512i bit = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(bit, _mm512_castps_si512(sign), _mm512_castps_si512(magnitude), 0xCA));
}
// Adds the integer in the low bits of `shifted` to the exponent of x.
inline Native native_scale_by_low_bits(Native x, Native shifted) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(x), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

}  // namespace simpler::kernels::body
