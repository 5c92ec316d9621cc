#include "chip/staging.h"

#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "chip/run_codes.h"

namespace simpler::chip {
namespace {

uint64_t aligned(uint64_t value) {
  return (value + Staging::kAlignment - 1) / Staging::kAlignment * Staging::kAlignment;
}

uint64_t extent_bytes(const ChipTensor& t) {
  return t.extent_elements() * element_size(t.dtype);
}

bool reads(ArgDirection direction) {
  return direction == ArgDirection::kIn || direction == ArgDirection::kInout;
}
bool writes(ArgDirection direction) {
  return direction == ArgDirection::kOut || direction == ArgDirection::kInout;
}

// Copies the elements of a view between two images of the same geometry.
void copy_elements(const ChipTensor& geometry, std::byte* to, const std::byte* from) {
  if (geometry.is_contiguous()) {
    std::memcpy(to, from, geometry.nbytes());
    return;
  }
  const uint64_t width = element_size(geometry.dtype);
  const uint32_t last = geometry.ndims - 1;
  std::array<uint32_t, 5> index{};
  while (true) {
    uint64_t at = 0;
    for (uint32_t d = 0; d < last; ++d) at += uint64_t{index[d]} * geometry.strides[d];
    if (geometry.strides[last] == 1) {
      std::memcpy(to + at * width, from + at * width, geometry.shapes[last] * width);
    } else {
      for (uint32_t i = 0; i < geometry.shapes[last]; ++i, at += geometry.strides[last]) {
        std::memcpy(to + at * width, from + at * width, width);
      }
    }
    uint32_t d = last;
    while (d > 0 && ++index[d - 1] == geometry.shapes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

orchestration::Tensor adopt(const ChipTensor& t, uint64_t addr, uint64_t size, uint64_t start) {
  orchestration::Tensor out;
  out.reserved[0] = 0;
  out.addr = addr;
  out.size = size;
  out.start_offset = start;
  out.ndims = t.ndims;
  out.dtype = static_cast<kernel::DataType>(t.dtype);
  out.address_space = static_cast<kernel::AddressSpace>(t.address_space);
  for (uint32_t d = 0; d < t.ndims; ++d) {
    out.shapes[d] = t.shapes[d];
    out.strides[d] = t.strides[d];
  }
  out.refresh_caches();
  return out;
}

static_assert(static_cast<int>(kernel::DataType::kFp4E2m1) == static_cast<int>(DataType::kFp4E2M1));
static_assert(static_cast<int>(kernel::DataType::kBfloat16) == static_cast<int>(DataType::kBfloat16));
static_assert(static_cast<int>(kernel::AddressSpace::kDevice) == static_cast<int>(AddressSpace::kDevice));
static_assert(kernel::kDataTypeCount == kDataTypeCount);

}  // namespace

Status Staging::check(std::span<const ChipTensor> tensors, std::span<const ArgDirection> directions) const {
  if (tensors.size() < directions.size()) {
    return run_failure(RunCode::kInvalidArgs, "the signature names " + std::to_string(directions.size()) +
                                                  " tensors, the run has " + std::to_string(tensors.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (Status status = validate(tensors[i]); !status.is_ok()) {
      return run_failure(RunCode::kInvalidArgs, "tensor " + std::to_string(i) + ": " + std::string(status.message()));
    }
    if (i >= directions.size() && tensors[i].child_memory()) {
      return run_failure(RunCode::kInvalidArgs,
                         "tensor " + std::to_string(i) + " is device memory beyond the signature of " +
                             std::to_string(directions.size()) + " tensors; only host tensors may follow it");
    }
  }
  return Status::ok();
}

void Staging::add_device(const ChipTensor& t, ArgDirection direction, const DeviceMemory& memory, HostAccess& access) {
  const uint64_t width = element_size(t.dtype);
  const uint64_t first = t.addr + t.byte_begin();
  const DeviceMemory::Span span = memory.find(first, extent_bytes(t));
  const bool rename = span.base != 0 && (first - span.base) % width == 0;
  tensors_.push_back(rename ? adopt(t, span.base, span.size, (first - span.base) / width)
                            : adopt(t, t.addr, t.size, t.start_offset));
  borrows_.push_back({first, extent_bytes(t), writes(direction)});
  if (writes(direction)) access.add_device_write(first, extent_bytes(t));
}

Status Staging::stage(std::span<const ChipTensor> tensors, std::span<const ArgDirection> directions,
                      DeviceMemory& memory, HostAccess& access) {
  SIMPLER_RETURN_IF_ERROR(check(tensors, directions));
  slices_.clear();
  tensors_.clear();
  borrows_.clear();
  access.clear();
  uint64_t total = 0;
  for (const ChipTensor& t : tensors) {
    if (!t.child_memory()) total += aligned(extent_bytes(t));
  }
  SIMPLER_RETURN_IF_ERROR(buffer_.reserve(total, "argument staging"));
  uint64_t at = buffer_address();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const ChipTensor& t = tensors[i];
    const ArgDirection direction = i < directions.size() ? directions[i] : ArgDirection::kInout;
    if (t.child_memory()) {
      add_device(t, direction, memory, access);
      continue;
    }
    const uint64_t bytes = extent_bytes(t);
    slices_.push_back(Slice{t, at, reads(direction), writes(direction)});
    tensors_.push_back(adopt(t, at, bytes, 0));
    if (bytes != 0) access.add_host(at, bytes, reads(direction));
    at += aligned(bytes);
  }
  for (const Slice& slice : slices_) {
    if (!slice.copy_in || slice.host.extent_elements() == 0) continue;
    copy_elements(slice.host, reinterpret_cast<std::byte*>(slice.chip),
                  reinterpret_cast<const std::byte*>(slice.host.addr + slice.host.byte_begin()));
  }
  return Status::ok();
}

void Staging::copy_back() const {
  for (const Slice& slice : slices_) {
    if (!slice.copy_out || slice.host.extent_elements() == 0) continue;
    copy_elements(slice.host, reinterpret_cast<std::byte*>(slice.host.addr + slice.host.byte_begin()),
                  reinterpret_cast<const std::byte*>(slice.chip));
  }
}

}  // namespace simpler::chip
