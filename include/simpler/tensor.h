// A strided view of a buffer in 144 bytes: the descriptor, an origin, a shape.
//
// It carries no address, so it may be sent anywhere. Strides count elements. A zero in the shape is legal: such a
// tensor has no bytes, needs no memory and causes no edge.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "simpler/buffer_descriptor.h"
#include "simpler/dtype.h"
#include "simpler/status.h"

namespace simpler {

inline constexpr uint32_t kMaxTensorDims = 5;

struct Tensor {
  BufferDescriptor buffer;
  uint64_t byte_offset = 0;
  uint32_t ndims = 0;
  std::array<uint32_t, kMaxTensorDims> shapes{};
  std::array<uint32_t, kMaxTensorDims> strides{};
  DataType dtype = DataType::kFloat32;
  std::array<uint8_t, 3> padding{};
};
static_assert(sizeof(Tensor) == 144 && std::is_trivially_copyable_v<Tensor> && std::is_standard_layout_v<Tensor>);
static_assert(offsetof(Tensor, byte_offset) == 88 && offsetof(Tensor, ndims) == 96 && offsetof(Tensor, shapes) == 100 &&
              offsetof(Tensor, strides) == 120 && offsetof(Tensor, dtype) == 140);

// Descriptor, rank, dtype, alignment of the origin, positive strides, unused places zero, and the view inside the
// buffer.
Status validate(const Tensor& tensor);

// Builds and validates a view. Empty `strides` means dense row-major.
Result<Tensor> make_tensor(const BufferDescriptor& buffer, std::span<const uint32_t> shapes, DataType dtype,
                           std::span<const uint32_t> strides = {}, uint64_t byte_offset = 0);

// Bytes from the first to the last element, saturating at the largest value; 0 when the shape has a zero.
uint64_t extent_bytes(uint32_t ndims, std::span<const uint32_t, kMaxTensorDims> shapes,
                      std::span<const uint32_t, kMaxTensorDims> strides, DataType dtype);
// Elements times element size, saturating; 0 when the shape has a zero.
uint64_t logical_bytes(uint32_t ndims, std::span<const uint32_t, kMaxTensorDims> shapes, DataType dtype);

inline uint64_t extent_bytes(const Tensor& tensor) {
  return extent_bytes(tensor.ndims, tensor.shapes, tensor.strides, tensor.dtype);
}
inline uint64_t logical_bytes(const Tensor& tensor) {
  return logical_bytes(tensor.ndims, tensor.shapes, tensor.dtype);
}

}  // namespace simpler
