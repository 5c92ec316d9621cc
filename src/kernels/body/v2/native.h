// One machine vector of floats: SSE4.2 (x86-64-v2, the baseline), four lanes. A multiply-add rounds twice here.
//
// Each instruction-set folder defines the same names; the build picks one by its include path.
#pragma once

#include <cstdint>
#include <smmintrin.h>

namespace simpler::kernels::body {

inline constexpr char kIsaName[] = "v2";

using Native = __m128;
inline constexpr int kNativeLanes = 4;
// Register tile of the matrix product: rows, and vectors per row.
inline constexpr int kTileRows = 2;
inline constexpr int kTileVectors = 4;

inline Native native_zero() {
  return _mm_setzero_ps();
}
inline Native native_broadcast(float x) {
  return _mm_set1_ps(x);
}
inline Native native_load(const float* p) {
  return _mm_loadu_ps(p);
}
inline void native_store(float* p, Native x) {
  _mm_storeu_ps(p, x);
}
inline Native native_load_part(const float* p, int64_t count) {
  alignas(16) float lanes[4] = {};
  for (int64_t i = 0; i < count && i < 4; ++i) lanes[i] = p[i];
  return _mm_load_ps(lanes);
}
inline void native_store_part(float* p, int64_t count, Native x) {
  alignas(16) float lanes[4];
  _mm_store_ps(lanes, x);
  for (int64_t i = 0; i < count && i < 4; ++i) p[i] = lanes[i];
}
inline Native native_add(Native a, Native b) {
  return _mm_add_ps(a, b);
}
inline Native native_sub(Native a, Native b) {
  return _mm_sub_ps(a, b);
}
inline Native native_mul(Native a, Native b) {
  return _mm_mul_ps(a, b);
}
inline Native native_div(Native a, Native b) {
  return _mm_div_ps(a, b);
}
inline Native native_fma(Native a, Native b, Native c) {
  return _mm_add_ps(_mm_mul_ps(a, b), c);
}
inline Native native_min(Native a, Native b) {
  return _mm_min_ps(a, b);
}  // b where either is NaN
inline Native native_max(Native a, Native b) {
  return _mm_max_ps(a, b);
}  // b where either is NaN
inline Native native_abs(Native a) {
  return _mm_andnot_ps(_mm_set1_ps(-0.0F), a);
}
// a < b ? x : y, lane by lane.
inline Native native_select_less(Native a, Native b, Native x, Native y) {
  return _mm_blendv_ps(y, x, _mm_cmplt_ps(a, b));
}
inline Native native_copy_sign(Native magnitude, Native sign) {
  const __m128 bit = _mm_set1_ps(-0.0F);
  return _mm_or_ps(_mm_and_ps(bit, sign), _mm_andnot_ps(bit, magnitude));
}
// Adds the integer in the low bits of `shifted` to the exponent of x.
inline Native native_scale_by_low_bits(Native x, Native shifted) {
  return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(x), _mm_slli_epi32(_mm_castps_si128(shifted), 23)));
}

}  // namespace simpler::kernels::body
