// Softmax of one row, used by the softmax kernels and by attention.
#pragma once

#include <cmath>

#include "kernels/body/math.h"
#include "kernels/body/rows.h"

namespace simpler::kernels::body {

// out[i] = e^(scale * x[i]) / sum over the first `length` elements; 0 from there to `columns`. in and out may be equal.
inline void softmax_row(const RowIn& in, const RowOut& out, int64_t length, int64_t columns, float scale) {
  const Lanes factor = Lanes::broadcast(scale);
  Lanes top = Lanes::broadcast(-INFINITY);
  for_each_piece(length, [&](int64_t i, int64_t n) {
    Lanes x = in.load(i, n) * factor;
    if (n < Lanes::kCount) {  // lanes behind the end repeat the first one
      float lane[Lanes::kCount];
      x.store(lane);
      for (int64_t l = n; l < Lanes::kCount; ++l) lane[l] = lane[0];
      x = Lanes::load(lane);
    }
    top = max(top, x);
  });
  const Lanes peak = Lanes::broadcast(top.largest());
  const float sum = sum_row(length, [&](int64_t i, int64_t n) {
    const Lanes e = keep_first(exp(in.load(i, n) * factor - peak), n);
    out.store(i, n, e);
    return e;
  });
  const Lanes inverse = Lanes::broadcast(1.0F / sum);
  for_each_piece(length, [&](int64_t i, int64_t n) { out.store(i, n, out.load(i, n) * inverse); });
  if (length < columns) out.fill(length, columns, 0.0F);
}

}  // namespace simpler::kernels::body
