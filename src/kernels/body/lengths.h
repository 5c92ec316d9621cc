// Integer arguments that steer a kernel (row numbers, valid lengths): read and checked before they are used.
#pragma once

#include <cstdint>

#include "kernels/body/operand.h"

namespace simpler::kernels::body {

// Element `index` in row-major order.
inline int64_t element(const View<const int32_t>& view, int64_t index) {
  int64_t offset = 0;
  for (int d = view.rank - 1; d >= 0; --d) {
    offset += index % view.shape[d] * view.stride[d];
    index /= view.shape[d];
  }
  return view.data[offset];
}

// Every index of the part must name one of `rows` rows of `table`.
inline void check_indices(const Call& call, const View<const int32_t>& ids, Call::Part part, int64_t rows,
                          const char* table) {
  for (int64_t i = part.begin; i < part.end; ++i) {
    const int64_t id = element(ids, i);
    if (id < 0 || id >= rows) {
      call.refuse("ids element " + std::to_string(i) + " is " + std::to_string(id) + ", " + table + " has " +
                  std::to_string(rows) + " rows");
    }
  }
}

// One length per item of the batch, each 0 to `most`.
inline void check_lengths(const Call& call, const View<const int32_t>& lengths, int64_t batch, int64_t most) {
  call.require_size("lengths", lengths.shape[0], "the batch", batch);
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t length = element(lengths, i);
    if (length < 0 || length > most) {
      call.refuse("lengths element " + std::to_string(i) + " is " + std::to_string(length) + ", must be 0 to " +
                  std::to_string(most));
    }
  }
}

}  // namespace simpler::kernels::body
