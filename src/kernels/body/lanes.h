// Sixteen floats, whatever the machine vector: the unit in which every kernel but the matmul tile works.
//
// Sums run lane by lane over sixteen lanes and end in one fixed tree (Lanes::sum), so their order depends neither on
// the instruction set nor on how rows are spread over blocks.
#pragma once

#include <cstdint>

#include "native.h"

namespace simpler::kernels::body {

struct Lanes {
  static constexpr int kCount = 16;
  static constexpr int kParts = kCount / kNativeLanes;
  Native part[kParts];

  template <typename F>
  static Lanes make(F f) {
    Lanes out;
    for (int i = 0; i < kParts; ++i) out.part[i] = f(i);
    return out;
  }
  static Lanes zero() {
    return make([](int) { return native_zero(); });
  }
  static Lanes broadcast(float x) {
    return make([&](int) { return native_broadcast(x); });
  }
  static Lanes load(const float* p) {
    return make([&](int i) { return native_load(p + i * kNativeLanes); });
  }
  // The first `count` floats, the other lanes 0; nothing behind them is read.
  static Lanes load_part(const float* p, int64_t count) {
    return make([&](int i) {
      const int64_t left = count - i * kNativeLanes;
      return left > 0 ? native_load_part(p + i * kNativeLanes, left) : native_zero();
    });
  }
  void store(float* p) const {
    for (int i = 0; i < kParts; ++i) native_store(p + i * kNativeLanes, part[i]);
  }
  void store_part(float* p, int64_t count) const {
    for (int i = 0; i < kParts && count > i * kNativeLanes; ++i) {
      native_store_part(p + i * kNativeLanes, count - i * kNativeLanes, part[i]);
    }
  }

  friend Lanes operator+(const Lanes& a, const Lanes& b) {
    return make([&](int i) { return native_add(a.part[i], b.part[i]); });
  }
  friend Lanes operator-(const Lanes& a, const Lanes& b) {
    return make([&](int i) { return native_sub(a.part[i], b.part[i]); });
  }
  friend Lanes operator*(const Lanes& a, const Lanes& b) {
    return make([&](int i) { return native_mul(a.part[i], b.part[i]); });
  }
  friend Lanes operator/(const Lanes& a, const Lanes& b) {
    return make([&](int i) { return native_div(a.part[i], b.part[i]); });
  }
  float sum() const {
    float lane[kCount];
    store(lane);
    for (int width = kCount / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
  }
  float largest() const {
    float lane[kCount];
    store(lane);
    for (int width = kCount / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lane[i] = lane[i + width] > lane[i] ? lane[i + width] : lane[i];
    }
    return lane[0];
  }
};

// a * b + c
inline Lanes fma(const Lanes& a, const Lanes& b, const Lanes& c) {
  return Lanes::make([&](int i) { return native_fma(a.part[i], b.part[i], c.part[i]); });
}
inline Lanes min(const Lanes& a, const Lanes& b) {
  return Lanes::make([&](int i) { return native_min(a.part[i], b.part[i]); });
}
inline Lanes max(const Lanes& a, const Lanes& b) {
  return Lanes::make([&](int i) { return native_max(a.part[i], b.part[i]); });
}
inline Lanes abs(const Lanes& a) {
  return Lanes::make([&](int i) { return native_abs(a.part[i]); });
}
inline Lanes copy_sign(const Lanes& magnitude, const Lanes& sign) {
  return Lanes::make([&](int i) { return native_copy_sign(magnitude.part[i], sign.part[i]); });
}
inline Lanes select_less(const Lanes& a, const Lanes& b, const Lanes& x, const Lanes& y) {
  return Lanes::make([&](int i) { return native_select_less(a.part[i], b.part[i], x.part[i], y.part[i]); });
}
inline Lanes scale_by_low_bits(const Lanes& x, const Lanes& shifted) {
  return Lanes::make([&](int i) { return native_scale_by_low_bits(x.part[i], shifted.part[i]); });
}

}  // namespace simpler::kernels::body
