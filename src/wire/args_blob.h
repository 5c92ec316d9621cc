// The self-contained form of arguments: int32 tensors, int32 scalars, Tensor[tensors], uint64[scalars].
//
// The public and remote wire form; inside a tree the arena's 24-byte references are used instead. Tags and explicit
// dependencies never travel. A view keeps the writer's bytes where they are: nothing is copied before tensor(i), and
// the bytes must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "simpler/status.h"
#include "simpler/tensor.h"

namespace simpler::wire {

constexpr uint64_t blob_bytes(uint64_t tensors, uint64_t scalars) {
  return 8 + sizeof(Tensor) * tensors + sizeof(uint64_t) * scalars;
}

struct TaskArgsView {
  int32_t tensor_count = 0;
  int32_t scalar_count = 0;
  const uint8_t* tensor_bytes = nullptr;
  const uint64_t* scalars = nullptr;  // may be unaligned: read through scalar(i)

  // A validated copy; fails for a bad index or a bad record.
  Result<Tensor> tensor(int64_t index) const;
  Result<uint64_t> scalar(int64_t index) const;
};
static_assert(sizeof(TaskArgsView) == 24);

// Writes the blob and returns its size. Fails when `out` is too small, naming both sizes, or a count exceeds int32.
Result<uint64_t> write_blob(std::span<std::byte> out, std::span<const Tensor> tensors,
                            std::span<const uint64_t> scalars);
// Checks both counts against the bytes given.
Result<TaskArgsView> read_blob(std::span<const std::byte> bytes);

}  // namespace simpler::wire
