// The graph author's tensor: a kernel's descriptor with view operations, and what a new one looks like.
//
// Part of simpler/orchestration.h. A view that does not fit latches a fatal status and yields an invalid tensor.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "simpler/kernel.h"
#include "simpler/orchestration_abi.h"

namespace simpler::orchestration {

// The runtime's working tensor: a kernel's descriptor with view operations. A view that does not fit latches a fatal
// status and yields an invalid tensor. Every operation keeps the buffer, its owner and its version.
class Tensor : public kernel::TensorDescriptor {
 public:
  constexpr Tensor() : kernel::TensorDescriptor{} {
    owner_task_id = kernel::kNoOwner;
    reserved[0] = 1;
  }

  bool valid() const { return reserved[0] == 0; }
  const Tensor& ref() const { return *this; }
  uint64_t element_count() const { return kernel::element_count(*this); }
  uint64_t nbytes() const { return element_count() * kernel::element_size(dtype); }

  // The block of `shapes` that starts at `offsets`; one entry per dimension each.
  Tensor view(const uint32_t* view_shapes, const uint32_t* offsets, bool manual = false) const {
    if (!valid()) return *this;
    Tensor out = *this;
    for (uint32_t d = 0; d < ndims; ++d) {
      if (offsets[d] > shapes[d] || view_shapes[d] > shapes[d] - offsets[d]) return bad("view: outside the tensor");
      out.start_offset += uint64_t{offsets[d]} * strides[d];
      out.shapes[d] = view_shapes[d];
    }
    return out.finish(manual);
  }
  Tensor view(std::initializer_list<uint32_t> view_shapes, std::initializer_list<uint32_t> offsets,
              bool manual = false) const {
    if (!valid()) return *this;
    if (view_shapes.size() != ndims || offsets.size() != ndims) return bad("view: wants one entry per dimension");
    return view(view_shapes.begin(), offsets.begin(), manual);
  }

  // Elements start, start + step, … below `end` of one dimension.
  Tensor slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step = 1, bool manual = false) const {
    if (!valid()) return *this;
    if (dim >= ndims) return bad("slice: no such dimension");
    if (start > end || end > shapes[dim]) return bad("slice: range outside the dimension");
    if (step == 0) return bad("slice: step must be at least 1");
    Tensor out = *this;
    out.start_offset += uint64_t{start} * strides[dim];
    out.shapes[dim] = static_cast<uint32_t>((uint64_t{end} - start + step - 1) / step);
    const uint64_t stride = uint64_t{strides[dim]} * step;
    if (stride > 0xffffffffu) return bad("slice: stride does not fit 32 bits");
    out.strides[dim] = static_cast<uint32_t>(stride);
    return out.finish(manual);
  }

  Tensor transpose(uint32_t x, uint32_t y, bool manual = false) const {
    if (!valid()) return *this;
    if (x >= ndims || y >= ndims) return bad("transpose: no such dimension");
    Tensor out = *this;
    out.shapes[x] = shapes[y];
    out.shapes[y] = shapes[x];
    out.strides[x] = strides[y];
    out.strides[y] = strides[x];
    return out.finish(manual);
  }

  // Dimension d of the result is dimension order[d] of this tensor.
  Tensor permute(const uint32_t* order, bool manual = false) const {
    if (!valid()) return *this;
    Tensor out = *this;
    uint32_t seen = 0;
    for (uint32_t d = 0; d < ndims; ++d) {
      if (order[d] >= ndims || (seen & (1u << order[d])) != 0) return bad("permute: order is not a permutation");
      seen |= 1u << order[d];
      out.shapes[d] = shapes[order[d]];
      out.strides[d] = strides[order[d]];
    }
    return out.finish(manual);
  }
  Tensor permute(std::initializer_list<uint32_t> order, bool manual = false) const {
    if (!valid()) return *this;
    if (order.size() != ndims) return bad("permute: wants one entry per dimension");
    return permute(order.begin(), manual);
  }

  // Other shape, same elements; this tensor must be contiguous.
  Tensor reshape(const uint32_t* new_shapes, uint32_t new_ndims, bool manual = false) const {
    if (!valid()) return *this;
    if (is_contiguous == 0) return bad("reshape: the tensor is not contiguous");
    if (new_ndims == 0 || new_ndims > kMaxRank) return bad("reshape: rank must be 1 to 5");
    uint64_t count = 1;
    Tensor out = *this;
    out.ndims = new_ndims;
    for (uint32_t d = 0; d < new_ndims; ++d) {
      count *= new_shapes[d];
      out.shapes[d] = new_shapes[d];
    }
    if (count != element_count()) return bad("reshape: element count differs");
    out.set_row_major_strides();
    return out.finish(manual);
  }
  Tensor reshape(std::initializer_list<uint32_t> new_shapes, bool manual = false) const {
    return reshape(new_shapes.begin(), static_cast<uint32_t>(new_shapes.size()), manual);
  }

  void set_row_major_strides() {
    uint64_t stride = 1;
    for (uint32_t d = ndims; d-- > 0;) {
      strides[d] = static_cast<uint32_t>(stride);
      stride *= shapes[d] == 0 ? 1 : shapes[d];
    }
    for (uint32_t d = ndims; d < kMaxRank; ++d) shapes[d] = strides[d] = 0;
  }

  // Recomputes the two values that follow from shapes and strides.
  void refresh_caches() {
    uint64_t extent = 1;
    uint64_t row_major = 1;
    bool contiguous = true;
    bool empty = false;
    for (uint32_t d = ndims; d-- > 0;) {
      if (shapes[d] == 0) empty = true;
      extent += shapes[d] == 0 ? 0 : (uint64_t{shapes[d]} - 1) * strides[d];
      if (strides[d] != row_major && shapes[d] > 1) contiguous = false;
      row_major *= shapes[d] == 0 ? 1 : shapes[d];
    }
    extent_elem = empty ? 0 : extent;
    is_contiguous = contiguous || empty ? 1 : 0;
  }

 private:
  Tensor finish(bool manual) {
    if (manual) manual_dep = 1;
    refresh_caches();
    return *this;
  }
  static Tensor bad(const char* what) {
    detail::misuse(what);
    return Tensor{};
  }
};
static_assert(sizeof(Tensor) == 128, "a tensor is its descriptor");

// A tensor over memory that the author knows to be valid on the chip for the whole run.
inline Tensor make_tensor_external(void* pointer, const uint32_t* shapes, uint32_t ndims,
                                   DataType dtype = DataType::kFloat32, bool manual_dep = false, int32_t version = 0,
                                   AddressSpace space = AddressSpace::kDevice) {
  Tensor t;
  if (ndims == 0 || ndims > kMaxRank || kernel::element_size(dtype) == 0) {
    detail::misuse("make_tensor_external: rank must be 1 to 5 and the element type known");
    return t;
  }
  t.reserved[0] = 0;
  t.addr = reinterpret_cast<uintptr_t>(pointer);
  t.version = version;
  t.ndims = ndims;
  t.dtype = dtype;
  t.manual_dep = manual_dep ? 1 : 0;
  t.address_space = space;
  for (uint32_t d = 0; d < ndims; ++d) t.shapes[d] = shapes[d];
  t.set_row_major_strides();
  t.refresh_caches();
  t.size = t.nbytes();
  return t;
}

// What a task's new output looks like; the runtime allocates it.
struct TensorCreateInfo {
  uint32_t ndims = 0;
  uint32_t shapes[kMaxRank] = {};
  uint32_t dtype = 0;  // a DataType
  uint32_t manual_dep = 0;

  TensorCreateInfo(const uint32_t* shape, uint32_t rank, DataType type = DataType::kFloat32, bool manual = false)
      : ndims(rank), dtype(static_cast<uint32_t>(type)), manual_dep(manual ? 1 : 0) {
    for (uint32_t d = 0; d < rank && d < kMaxRank; ++d) shapes[d] = shape[d];
  }
  TensorCreateInfo(std::initializer_list<uint32_t> shape, DataType type = DataType::kFloat32, bool manual = false)
      : TensorCreateInfo(shape.begin(), static_cast<uint32_t>(shape.size()), type, manual) {}
};

namespace detail {
__attribute__((visibility("hidden"))) inline constexpr Tensor kInvalidTensor;
inline const Tensor& invalid_tensor() {
  return kInvalidTensor;
}
}  // namespace detail

}  // namespace simpler::orchestration
