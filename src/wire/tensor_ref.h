// The in-tree form of a tensor argument: indices into the shared tables instead of descriptions, 24 bytes.
//
// An argument block in the arena is TensorRef[tensors], then uint64 scalars[scalars], then the inline layouts that its
// references name. Index 0 is invalid in every table, so a zeroed reference never resolves.
#pragma once

#include <cstdint>

#include "wire/layout.h"

namespace simpler::wire {

enum TensorRefFlags : uint32_t {
  kTensorRefPlain = 0,
  // `layout` is not a table index but the place of a Layout record in 8-byte units from the block's start.
  kTensorRefInlineLayout = 1,
};
inline constexpr uint32_t kTensorRefKnownFlags = kTensorRefInlineLayout;

struct TensorRef {
  uint32_t buffer = 0;
  uint32_t generation = 0;
  uint32_t layout = 0;
  uint32_t flags = kTensorRefPlain;
  uint64_t byte_offset = 0;

  friend bool operator==(const TensorRef&, const TensorRef&) = default;
};
static_assert(WireRecord<TensorRef> && sizeof(TensorRef) == 24 && alignof(TensorRef) == 8);

}  // namespace simpler::wire
