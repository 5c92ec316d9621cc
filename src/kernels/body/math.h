// exp, erf, tanh and gelu over sixteen lanes: own polynomials, no library call, same bytes in every lane.
//
// Coefficients are weighted least-squares fits in double precision. Largest errors found by scanning every 131st float:
// exp 2 ulp, erf and tanh 6 ulp, gelu 1.1e-6 absolute for |x| <= 10 (elementwise_test.cpp checks them on a grid).
// NaN goes through; infinities give the limit.
#pragma once

#include "kernels/body/lanes.h"

namespace simpler::kernels::body {

// One polynomial in t by Horner's rule; the highest power comes first.
template <typename... Rest>
Lanes polynomial(const Lanes& t, float first, Rest... rest) {
  Lanes value = Lanes::broadcast(first);
  ((value = fma(value, t, Lanes::broadcast(rest))), ...);
  return value;
}

// e^x for x <= 88.72; larger x give the value there, and x < -87.33 gives 0.
inline Lanes exp(const Lanes& x) {
  const Lanes low = Lanes::broadcast(-87.33F);
  const Lanes clamped = max(low, min(Lanes::broadcast(88.72F), x));
  // Adding 1.5 * 2^23 rounds to an integer and leaves that integer in the low bits.
  const Lanes magic = Lanes::broadcast(12582912.0F);
  const Lanes shifted = fma(clamped, Lanes::broadcast(1.44269504F), magic);
  const Lanes n = shifted - magic;
  Lanes r = fma(n, Lanes::broadcast(-0.693359375F), clamped);
  r = fma(n, Lanes::broadcast(2.12194440e-4F), r);
  const Lanes value = polynomial(r, 1.3814464761e-3F, 8.3687806226e-3F, 4.1668394259e-2F, 1.6666520106e-1F,
                                 4.9999993412e-1F, 1.0F, 1.0F);
  return select_less(x, low, Lanes::zero(), scale_by_low_bits(value, shifted));
}

// c * numerator / denominator, where c is x limited to [-limit, limit]; exactly 1 or -1 behind the limit.
inline Lanes odd_ratio(const Lanes& x, const Lanes& c, const Lanes& limit, const Lanes& numerator,
                       const Lanes& denominator) {
  const Lanes one = Lanes::broadcast(1.0F);
  const Lanes value = min(one, max(Lanes::broadcast(-1.0F), c * numerator / denominator));
  return select_less(limit, abs(x), copy_sign(one, x), value);
}

inline Lanes clamp(const Lanes& x, const Lanes& limit) {
  return max(Lanes::zero() - limit, min(limit, x));
}

inline Lanes erf(const Lanes& x) {
  const Lanes limit = Lanes::broadcast(3.92F);
  const Lanes c = clamp(x, limit);
  const Lanes t = c * c;
  return odd_ratio(
      x, c, limit,
      polynomial(t, 2.0500617629e-6F, 2.8486486419e-4F, 3.7651590069e-3F, 5.2747276862e-2F, 1.9039687627e-1F,
                 1.1283791463F),
      polynomial(t, 3.8090515786e-5F, 1.1624104906e-3F, 1.4968302388e-2F, 1.1410498759e-1F, 5.0206758174e-1F, 1.0F));
}

inline Lanes tanh(const Lanes& x) {
  const Lanes limit = Lanes::broadcast(9.02F);
  const Lanes c = clamp(x, limit);
  const Lanes t = c * c;
  return odd_ratio(
      x, c, limit,
      polynomial(t, 3.6743782426e-11F, 1.1117529816e-7F, 4.2273627868e-5F, 4.4259453250e-3F, 1.4099206960e-1F, 1.0F),
      polynomial(t, 2.9511450101e-9F, 2.6038433508e-6F, 5.0083341758e-4F, 2.9201080231e-2F, 4.7432540254e-1F, 1.0F));
}

// x * (1 + erf(x / sqrt 2)) / 2
inline Lanes gelu(const Lanes& x) {
  const Lanes half = Lanes::broadcast(0.5F) * x;
  return fma(half, erf(x * Lanes::broadcast(0.707106781F)), half);
}

inline Lanes relu(const Lanes& x) {
  return max(Lanes::zero(), x);
}

// Numbers are part of the kernels' interface (scalar argument `activation`).
enum class Activation : uint32_t { kNone = 0, kRelu = 1, kGelu = 2, kTanh = 3 };

template <Activation kKind>
Lanes activate(const Lanes& x) {
  if constexpr (kKind == Activation::kRelu) return relu(x);
  if constexpr (kKind == Activation::kGelu) return gelu(x);
  if constexpr (kKind == Activation::kTanh) return tanh(x);
  return x;
}

}  // namespace simpler::kernels::body
