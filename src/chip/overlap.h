// Do two views of one buffer share elements? Conservative: "maybe" counts as yes, "no" is always true.
#pragma once

#include <cstdint>

namespace simpler::chip {

inline constexpr uint32_t kRank = 5;

// Geometry of a view, in elements of `width` bytes from the buffer's first byte.
struct Footprint {
  uint64_t start;
  uint64_t extent;  // first to last element; 0 for a view without elements
  uint32_t ndims;
  uint32_t width;
  int32_t version;
  uint8_t dtype;
  uint32_t shapes[kRank];
  uint32_t strides[kRank];
};

enum class Overlap : uint8_t {
  kNone,
  kCovered,  // `access` contains every element of `earlier`
  kOther,
};

Overlap overlap(const Footprint& access, const Footprint& earlier);

}  // namespace simpler::chip
