// Matrix product C = activation(A * B + bias) on one core, with strides on every operand.
//
// Each element of C is one chain of multiply-adds over k in rising order, started from 0; tiles and panels only decide
// when a step of the chain happens. So neither the tile shape nor any split of rows and columns changes a byte.
#pragma once

#include <cstdint>

#include "kernels/body/math.h"

namespace simpler::kernels::body {

struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_row = 0, a_col = 1;  // element (i, p) at a[i * a_row + p * a_col]
  const float* b = nullptr;
  int64_t b_row = 0, b_col = 1;  // element (p, j)
  float* c = nullptr;
  int64_t c_row = 0, c_col = 1;
  const float* bias = nullptr;  // n elements added to every row, or null
  int64_t bias_step = 1;
  Activation activation = Activation::kNone;
};

void gemm(const Gemm& g);

// Unit of a column split: narrower pieces waste lanes.
inline constexpr int64_t kPanelColumns = int64_t{kNativeLanes} * kTileVectors;

}  // namespace simpler::kernels::body
