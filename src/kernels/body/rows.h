// Rows of a view: how kernels walk tensors of any rank and any strides sixteen floats at a time.
//
// A row is the last dimension. Unit steps load vectors; other steps gather element by element, with the same
// arithmetic, so a strided view gives the same bytes as its contiguous copy.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/body/lanes.h"
#include "kernels/body/operand.h"

namespace simpler::kernels::body {

// One row to read; step 0 repeats its first element.
struct RowIn {
  const float* data;
  int64_t step;

  Lanes load(int64_t i, int64_t count) const {
    if (step == 1) return count >= Lanes::kCount ? Lanes::load(data + i) : Lanes::load_part(data + i, count);
    float lane[Lanes::kCount] = {};
    for (int64_t l = 0; l < count && l < Lanes::kCount; ++l) lane[l] = data[(i + l) * step];
    return Lanes::load(lane);
  }
};

struct RowOut {
  float* data;
  int64_t step;

  Lanes load(int64_t i, int64_t count) const { return RowIn{data, step}.load(i, count); }
  void store(int64_t i, int64_t count, const Lanes& x) const {
    if (step == 1) {
      if (count >= Lanes::kCount) return x.store(data + i);
      return x.store_part(data + i, count);
    }
    float lane[Lanes::kCount];
    x.store(lane);
    for (int64_t l = 0; l < count && l < Lanes::kCount; ++l) data[(i + l) * step] = lane[l];
  }
  void fill(int64_t begin, int64_t end, float x) const {
    for (int64_t i = begin; i < end; ++i) data[i * step] = x;
  }
};

// The rows of a view by number; one multiplication where the leading dimensions lie evenly, divisions otherwise.
template <typename T>
class Rows {
 public:
  explicit Rows(const View<T>& view) : view_(view), even_(true), stride_(0) {
    int64_t inner = 0, expected = 0;  // step and span of the dimensions seen so far
    for (int d = view.rank - 2; d >= 0; --d) {
      if (view.shape[d] == 1) continue;
      if (inner == 0) {
        stride_ = view.stride[d];
        expected = stride_ * view.shape[d];
        inner = 1;
      } else {
        even_ = even_ && view.stride[d] == expected;
        expected *= view.shape[d];
      }
    }
  }
  T* operator[](int64_t index) const { return even_ ? view_.data + index * stride_ : view_.row(index); }
  int64_t step() const { return view_.last_stride(); }
  bool even() const { return even_; }
  int64_t stride() const { return stride_; }

 private:
  View<T> view_;
  bool even_;
  int64_t stride_;
};

// Calls f(first element, how many) for the pieces of a row.
template <typename F>
void for_each_piece(int64_t count, F f) {
  for (int64_t i = 0; i < count; i += Lanes::kCount) f(i, std::min<int64_t>(Lanes::kCount, count - i));
}

// Sum of piece(i, n) over a row of `count`; lanes behind the end must come back 0.
template <typename F>
float sum_row(int64_t count, F piece) {
  Lanes sum = Lanes::zero();
  for_each_piece(count, [&](int64_t i, int64_t n) { sum = sum + piece(i, n); });
  return sum.sum();
}

// Keeps the first `count` lanes, zero behind.
inline Lanes keep_first(const Lanes& x, int64_t count) {
  if (count >= Lanes::kCount) return x;
  float lane[Lanes::kCount];
  x.store(lane);
  return Lanes::load_part(lane, count);
}

}  // namespace simpler::kernels::body
