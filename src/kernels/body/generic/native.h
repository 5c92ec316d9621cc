// One "machine vector" in plain C++ for processors without an own folder: four lanes, left to the compiler.
//
// Each instruction-set folder defines the same names; the build picks one by its include path.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace simpler::kernels::body {

inline constexpr char kIsaName[] = "generic";

struct Native {
  float lane[4];
};
inline constexpr int kNativeLanes = 4;
// Register tile of the matrix product: rows, and vectors per row.
inline constexpr int kTileRows = 2;
inline constexpr int kTileVectors = 4;

template <typename F>
Native native_map(F f) {
  return Native{{f(0), f(1), f(2), f(3)}};
}
inline Native native_zero() {
  return Native{};
}
inline Native native_broadcast(float x) {
  return Native{{x, x, x, x}};
}
inline Native native_load(const float* p) {
  return Native{{p[0], p[1], p[2], p[3]}};
}
inline void native_store(float* p, Native x) {
  std::memcpy(p, x.lane, sizeof x.lane);
}
inline Native native_load_part(const float* p, int64_t count) {
  return native_map([&](int i) { return i < count ? p[i] : 0.0F; });
}
inline void native_store_part(float* p, int64_t count, Native x) {
  for (int i = 0; i < 4 && i < count; ++i) p[i] = x.lane[i];
}
inline Native native_add(Native a, Native b) {
  return native_map([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Native native_sub(Native a, Native b) {
  return native_map([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Native native_mul(Native a, Native b) {
  return native_map([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Native native_div(Native a, Native b) {
  return native_map([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline Native native_fma(Native a, Native b, Native c) {
  return native_add(native_mul(a, b), c);
}
inline Native native_min(Native a, Native b) {  // b where either is NaN
  return native_map([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Native native_max(Native a, Native b) {  // b where either is NaN
  return native_map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Native native_abs(Native a) {
  return native_map([&](int i) { return std::fabs(a.lane[i]); });
}
// a < b ? x : y, lane by lane.
inline Native native_select_less(Native a, Native b, Native x, Native y) {
  return native_map([&](int i) { return a.lane[i] < b.lane[i] ? x.lane[i] : y.lane[i]; });
}
inline Native native_copy_sign(Native magnitude, Native sign) {
  return native_map([&](int i) { return std::copysign(magnitude.lane[i], sign.lane[i]); });
}
// Adds the integer in the low bits of `shifted` to the exponent of x.
inline Native native_scale_by_low_bits(Native x, Native shifted) {
  return native_map([&](int i) {
    uint32_t value = 0, low = 0;
    std::memcpy(&value, &x.lane[i], 4);
    std::memcpy(&low, &shifted.lane[i], 4);
    value += low << 23;
    float out = 0;
    std::memcpy(&out, &value, 4);
    return out;
  });
}

}  // namespace simpler::kernels::body
