#include "simpler/tensor.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/status_macros.h"
#include "wire/shared_tables.h"

namespace simpler {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
using Dims = std::span<const uint32_t, kMaxTensorDims>;

uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMax : product;
}

uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMax : sum;
}

Status bad(std::string text) {
  return invalid_argument("tensor: " + std::move(text));
}

bool has_zero(uint32_t ndims, Dims shapes) {
  return std::any_of(shapes.begin(), shapes.begin() + std::min(ndims, kMaxTensorDims),
                     [](uint32_t n) { return n == 0; });
}

// What a Tensor and a Layout have in common.
Status validate_shape(uint32_t ndims, Dims shapes, Dims strides, DataType dtype) {
  if (ndims == 0 || ndims > kMaxTensorDims) {
    return bad("rank is " + std::to_string(ndims) + ", 1 to 5 are possible");
  }
  if (!is_known(dtype)) return bad("element type " + std::to_string(static_cast<uint8_t>(dtype)) + " is not known");
  for (uint32_t i = 0; i < kMaxTensorDims; ++i) {
    if (i >= ndims && (shapes[i] != 0 || strides[i] != 0)) {
      return bad("shape and stride of axis " + std::to_string(i) + " must be 0 at rank " + std::to_string(ndims));
    }
    if (i < ndims && strides[i] == 0) return bad("stride of axis " + std::to_string(i) + " is 0");
  }
  if (extent_bytes(ndims, shapes, strides, dtype) == kMax) return bad("extent is not representable in 64 bits");
  return Status::ok();
}

Status validate_place(uint64_t nbytes, uint64_t byte_offset, uint64_t extent, DataType dtype) {
  const uint32_t size = element_size(dtype);
  if (byte_offset % size != 0) {
    return bad("byte_offset " + std::to_string(byte_offset) + " is not a multiple of the element size " +
               std::to_string(size));
  }
  if (byte_offset > nbytes || extent > nbytes - byte_offset) {
    return bad("bytes " + std::to_string(byte_offset) + " to " + std::to_string(saturating_add(byte_offset, extent)) +
               " leave the buffer of " + std::to_string(nbytes) + " bytes");
  }
  return Status::ok();
}

}  // namespace

uint64_t extent_bytes(uint32_t ndims, Dims shapes, Dims strides, DataType dtype) {
  if (has_zero(ndims, shapes)) return 0;
  uint64_t last = 0;
  for (uint32_t i = 0; i < std::min(ndims, kMaxTensorDims); ++i) {
    last = saturating_add(last, saturating_multiply(shapes[i] - 1, strides[i]));
  }
  return saturating_multiply(saturating_add(last, 1), element_size(dtype));
}

uint64_t logical_bytes(uint32_t ndims, Dims shapes, DataType dtype) {
  if (has_zero(ndims, shapes)) return 0;
  uint64_t bytes = element_size(dtype);
  for (uint32_t i = 0; i < std::min(ndims, kMaxTensorDims); ++i) bytes = saturating_multiply(bytes, shapes[i]);
  return bytes;
}

Status validate(const Tensor& tensor) {
  SIMPLER_RETURN_IF_ERROR(validate(tensor.buffer));
  SIMPLER_RETURN_IF_ERROR(validate_shape(tensor.ndims, tensor.shapes, tensor.strides, tensor.dtype));
  return validate_place(tensor.buffer.nbytes, tensor.byte_offset, extent_bytes(tensor), tensor.dtype);
}

Result<Tensor> make_tensor(const BufferDescriptor& buffer, std::span<const uint32_t> shapes, DataType dtype,
                           std::span<const uint32_t> strides, uint64_t byte_offset) {
  if (shapes.empty() || shapes.size() > kMaxTensorDims) {
    return bad("rank is " + std::to_string(shapes.size()) + ", 1 to 5 are possible");
  }
  if (!strides.empty() && strides.size() != shapes.size()) {
    return bad(std::to_string(shapes.size()) + " shapes but " + std::to_string(strides.size()) + " strides");
  }
  Tensor tensor;
  tensor.buffer = buffer;
  tensor.byte_offset = byte_offset;
  tensor.ndims = static_cast<uint32_t>(shapes.size());
  tensor.dtype = dtype;
  std::copy(shapes.begin(), shapes.end(), tensor.shapes.begin());
  if (!strides.empty()) {
    std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  } else {
    uint64_t stride = 1;
    for (uint32_t i = tensor.ndims; i-- > 0;) {
      if (stride > std::numeric_limits<uint32_t>::max()) return bad("a row-major stride exceeds 32 bits");
      tensor.strides[i] = static_cast<uint32_t>(stride);
      stride = saturating_multiply(stride, std::max<uint32_t>(tensor.shapes[i], 1));
    }
  }
  SIMPLER_RETURN_IF_ERROR(validate(tensor));
  return tensor;
}

namespace wire {

Layout layout_of(const Tensor& tensor) {
  Layout layout;
  layout.ndims = tensor.ndims;
  layout.dtype = tensor.dtype;
  layout.shapes = tensor.shapes;
  layout.strides = tensor.strides;
  layout.extent_bytes = extent_bytes(tensor);
  layout.logical_bytes = logical_bytes(tensor);
  return layout;
}

Status validate(const Layout& layout) {
  SIMPLER_RETURN_IF_ERROR(validate_shape(layout.ndims, layout.shapes, layout.strides, layout.dtype));
  if (layout.extent_bytes != extent_bytes(layout.ndims, layout.shapes, layout.strides, layout.dtype) ||
      layout.logical_bytes != logical_bytes(layout.ndims, layout.shapes, layout.dtype)) {
    return bad("the sizes of a layout do not follow from its shape");
  }
  return Status::ok();
}

Result<Tensor> tensor_of(const BufferDescriptor& buffer, const Layout& layout, uint64_t byte_offset) {
  Tensor tensor;
  tensor.buffer = buffer;
  tensor.byte_offset = byte_offset;
  tensor.ndims = layout.ndims;
  tensor.dtype = layout.dtype;
  tensor.shapes = layout.shapes;
  tensor.strides = layout.strides;
  SIMPLER_RETURN_IF_ERROR(simpler::validate(tensor));
  return tensor;
}

}  // namespace wire
}  // namespace simpler
