// A piece of memory that tasks can name: host memory shared with the children of a worker, or memory of one chip.
//
// A Buffer is a counted reference to one backing; copies name the same backing. The host mapping lives until the last
// copy and the last array over it are gone, so a view can become stale but never invalid.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "simpler/buffer_descriptor.h"
#include "simpler/tensor.h"

namespace simpler {

class Buffer {
 public:
  Buffer() = default;

  bool valid() const { return state_ != nullptr; }
  const BufferDescriptor& descriptor() const;
  std::uint64_t nbytes() const;
  // First byte in this process, or null for memory of a chip.
  std::byte* data() const;
  // Identity of the chip that holds the bytes, or -1 for host memory.
  int owner_worker_id() const;
  bool closed() const;

  // A view: `shape` in elements, `strides` in elements (row-major when empty), `byte_offset` from the buffer's start.
  // Throws Error(kInvalidArgument) when the view does not fit, Error(kFailedPrecondition) after close().
  Tensor tensor(std::span<const std::uint32_t> shape, DataType dtype, std::span<const std::uint32_t> strides = {},
                std::uint64_t byte_offset = 0) const;
  Tensor tensor(std::initializer_list<std::uint32_t> shape, DataType dtype, std::uint64_t byte_offset = 0) const {
    return tensor(std::span<const std::uint32_t>(shape.begin(), shape.size()), dtype, {}, byte_offset);
  }

  // No new views from here on. The bytes go when the worker released the buffer and the last view died.
  void close();

  struct State;
  explicit Buffer(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace simpler
