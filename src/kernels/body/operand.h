// Arguments of a kernel as checked views: every number of a descriptor is looked at before memory is touched.
//
// A wrong argument leaves the kernel as std::invalid_argument whose text names kernel, argument, value and what would
// be right; the core that runs the kernel turns it into the error of the run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "simpler/kernel.h"

namespace simpler::kernels::body {

using kernel::DataType;
inline constexpr int kMaxRank = static_cast<int>(kernel::kMaxRank);

template <typename T>
struct View {
  T* data = nullptr;
  int rank = 0;
  int64_t shape[kMaxRank] = {};
  int64_t stride[kMaxRank] = {};

  int64_t count() const {
    int64_t n = 1;
    for (int d = 0; d < rank; ++d) n *= shape[d];
    return n;
  }
  bool empty() const {
    for (int d = 0; d < rank; ++d) {
      if (shape[d] == 0) return true;
    }
    return false;
  }
  int64_t last() const { return shape[rank - 1]; }          // elements of one row
  int64_t last_stride() const { return stride[rank - 1]; }  // step inside a row
  int64_t rows() const {
    int64_t n = 1;
    for (int d = 0; d + 1 < rank; ++d) n *= shape[d];
    return n;
  }
  // First element of row `index`, rows counted over all dimensions but the last.
  T* row(int64_t index) const {
    int64_t offset = 0;
    for (int d = rank - 2; d >= 0; --d) {
      offset += index % shape[d] * stride[d];
      index /= shape[d];
    }
    return data + offset;
  }
};

// One call of one kernel.
class Call {
 public:
  Call(const char* kernel, const int64_t* args, uint32_t tensors, uint32_t scalars);

  View<const float> float_in(uint32_t index, const char* name, int min_rank, int max_rank);
  View<float> float_out(uint32_t index, const char* name, int min_rank, int max_rank);
  View<const int32_t> int_in(uint32_t index, const char* name, int min_rank, int max_rank);
  View<int32_t> int_out(uint32_t index, const char* name, int min_rank, int max_rank);
  float float_scalar(uint32_t index) const { return kernel::scalar<float>(args_, index); }
  uint64_t scalar(uint32_t index) const { return kernel::scalar<uint64_t>(args_, index); }

  [[noreturn]] void refuse(const std::string& text) const;
  void require(bool holds, const char* text) const {
    if (!holds) refuse(text);
  }
  template <typename A, typename B>
  void require_same_shape(const char* a_name, const View<A>& a, const char* b_name, const View<B>& b) const {
    require_same_shape(a_name, a.rank, a.shape, b_name, b.rank, b.shape);
  }
  void require_size(const char* name, int64_t have, const char* meaning, int64_t want) const;

  // This block's part [begin, end) of `total` units; the parts of all blocks cover everything once.
  struct Part {
    int64_t begin, end;
  };
  Part part_of(int64_t total) const;

 private:
  template <typename T>
  View<T> view(uint32_t index, const char* name, int min_rank, int max_rank, DataType dtype) const;
  void require_same_shape(const char* a_name, int a_rank, const int64_t* a, const char* b_name, int b_rank,
                          const int64_t* b) const;

  const char* kernel_;
  const int64_t* args_;
  uint32_t tensors_;
};

std::string shape_text(int rank, const int64_t* shape);

}  // namespace simpler::kernels::body
