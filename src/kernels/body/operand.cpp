// Checks of descriptors; see operand.h.
#include "kernels/body/operand.h"

#include <stdexcept>

namespace simpler::kernels::body {

namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 40;  // keeps every index product inside 64 bits

const char* dtype_name(DataType dtype) {
  constexpr const char* kNames[kernel::kDataTypeCount] = {"FLOAT32", "FLOAT16",  "INT32",     "INT16",   "INT8",
                                                          "UINT8",   "BFLOAT16", "INT64",     "UINT64",  "UINT16",
                                                          "UINT32",  "BOOL",     "FP8E4M3FN", "FP8E8M0", "FP4E2M1"};
  const auto index = static_cast<uint8_t>(dtype);
  return index < kernel::kDataTypeCount ? kNames[index] : "an unknown type";
}

}  // namespace

std::string shape_text(int rank, const int64_t* shape) {
  std::string text = "[";
  for (int d = 0; d < rank; ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
  return text + "]";
}

Call::Call(const char* kernel, const int64_t* args, uint32_t tensors, uint32_t scalars)
    : kernel_(kernel), args_(args), tensors_(tensors) {
  const uint32_t have_tensors = kernel::get_tensor_count(args), have_scalars = kernel::get_scalar_count(args);
  if (have_tensors != tensors || have_scalars != scalars) {
    refuse("takes " + std::to_string(tensors) + " tensors and " + std::to_string(scalars) + " scalars, got " +
           std::to_string(have_tensors) + " and " + std::to_string(have_scalars));
  }
  const uint32_t blocks = kernel::get_block_num(args), block = kernel::get_block_idx(args);
  if (blocks == 0 || block >= blocks) {
    refuse("block " + std::to_string(block) + " of " + std::to_string(blocks) + " blocks does not exist");
  }
}

void Call::refuse(const std::string& text) const {
  throw std::invalid_argument(std::string(kernel_) + ": " + text);
}

template <typename T>
View<T> Call::view(uint32_t index, const char* name, int min_rank, int max_rank, DataType dtype) const {
  const kernel::TensorDescriptor& t = kernel::tensor(args_, index);
  const auto who = [&] { return "argument " + std::to_string(index) + " (" + name + ")"; };
  if (t.dtype != dtype) refuse(who() + " is " + dtype_name(t.dtype) + ", must be " + dtype_name(dtype));
  const int rank = t.ndims <= kernel::kMaxRank ? static_cast<int>(t.ndims) : kMaxRank + 1;
  if (rank < min_rank || rank > max_rank) {
    const std::string want =
        min_rank == max_rank ? std::to_string(min_rank) : std::to_string(min_rank) + " to " + std::to_string(max_rank);
    refuse(who() + " has rank " + std::to_string(t.ndims) + ", must be " + want);
  }
  View<T> view;
  view.rank = rank;
  uint64_t extent = 1, count = 1;
  bool overflow = false;
  for (int d = 0; d < rank; ++d) {
    view.shape[d] = t.shapes[d];
    view.stride[d] = t.strides[d];
    uint64_t step = 0;
    if (t.shapes[d] > 1) {
      if (t.strides[d] == 0) refuse(who() + " has stride 0 in dimension " + std::to_string(d) + ", must be at least 1");
      step = (uint64_t{t.shapes[d]} - 1) * t.strides[d];
    }
    overflow |= __builtin_add_overflow(extent, step, &extent);
    overflow |= __builtin_mul_overflow(count, uint64_t{t.shapes[d]}, &count);
  }
  if (view.empty()) return view;
  if (t.addr == 0) refuse(who() + " has no memory");
  const uint64_t elements = t.size / sizeof(T);
  if (overflow || count > kMostElements || t.start_offset > elements || extent > elements - t.start_offset) {
    refuse(who() + " of shape " + shape_text(rank, view.shape) + " starting at element " +
           std::to_string(t.start_offset) + " does not fit its buffer of " + std::to_string(elements) + " elements");
  }
  view.data = kernel::data<T>(t);
  return view;
}

View<const float> Call::float_in(uint32_t index, const char* name, int min_rank, int max_rank) {
  return view<const float>(index, name, min_rank, max_rank, DataType::kFloat32);
}
View<float> Call::float_out(uint32_t index, const char* name, int min_rank, int max_rank) {
  return view<float>(index, name, min_rank, max_rank, DataType::kFloat32);
}
View<const int32_t> Call::int_in(uint32_t index, const char* name, int min_rank, int max_rank) {
  return view<const int32_t>(index, name, min_rank, max_rank, DataType::kInt32);
}
View<int32_t> Call::int_out(uint32_t index, const char* name, int min_rank, int max_rank) {
  return view<int32_t>(index, name, min_rank, max_rank, DataType::kInt32);
}

void Call::require_same_shape(const char* a_name, int a_rank, const int64_t* a, const char* b_name, int b_rank,
                              const int64_t* b) const {
  bool same = a_rank == b_rank;
  for (int d = 0; same && d < a_rank; ++d) same = a[d] == b[d];
  if (!same) {
    refuse(std::string(a_name) + " has shape " + shape_text(a_rank, a) + ", " + b_name + " has " +
           shape_text(b_rank, b) + "; they must be equal");
  }
}

void Call::require_size(const char* name, int64_t have, const char* meaning, int64_t want) const {
  if (have != want) {
    refuse(std::string(name) + " has " + std::to_string(have) + " elements, " + meaning + " has " +
           std::to_string(want) + "; they must be equal");
  }
}

Call::Part Call::part_of(int64_t total) const {
  const int64_t blocks = kernel::get_block_num(args_), block = kernel::get_block_idx(args_);
  const int64_t each = total / blocks, more = total % blocks;
  const int64_t begin = block * each + (block < more ? block : more);
  return {begin, begin + each + (block < more ? 1 : 0)};
}

}  // namespace simpler::kernels::body
