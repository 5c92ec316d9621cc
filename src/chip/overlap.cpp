#include "chip/overlap.h"

namespace simpler::chip {
namespace {

// Splits a start into one index per dimension, as in a row-major grid with these strides. False when the strides do not
// nest, or when the view runs over the edge of a grid row, so that flat order and grid order differ.
bool to_grid(const Footprint& f, uint64_t index[kRank], uint64_t& rest) {
  rest = f.start;
  for (uint32_t d = 0; d < f.ndims; ++d) {
    if (d > 0 && (f.strides[d - 1] % f.strides[d] != 0)) return false;
    index[d] = rest / f.strides[d];
    rest %= f.strides[d];
    if (d > 0 && index[d] + f.shapes[d] > f.strides[d - 1] / f.strides[d]) return false;
  }
  return true;
}

bool same_grid(const Footprint& a, const Footprint& b) {
  if (a.dtype != b.dtype || a.ndims != b.ndims) return false;
  for (uint32_t d = 0; d < a.ndims; ++d) {
    if (a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

}  // namespace

Overlap overlap(const Footprint& access, const Footprint& earlier) {
  if (access.extent == 0 || earlier.extent == 0) return Overlap::kNone;
  const uint64_t access_end = (access.start + access.extent) * access.width;
  const uint64_t earlier_end = (earlier.start + earlier.extent) * earlier.width;
  if (access.start * access.width >= earlier_end || earlier.start * earlier.width >= access_end) return Overlap::kNone;
  if (earlier.version > access.version || !same_grid(access, earlier)) return Overlap::kOther;

  uint64_t a[kRank], b[kRank], a_rest, b_rest;
  if (!to_grid(access, a, a_rest) || !to_grid(earlier, b, b_rest)) return Overlap::kOther;
  // All strides are multiples of the last one, so different remainders never meet.
  if (a_rest != b_rest) return Overlap::kNone;
  bool covered = true;
  for (uint32_t d = 0; d < access.ndims; ++d) {
    if (a[d] >= b[d] + earlier.shapes[d] || b[d] >= a[d] + access.shapes[d]) return Overlap::kNone;
    if (b[d] < a[d] || b[d] + earlier.shapes[d] > a[d] + access.shapes[d]) covered = false;
  }
  return covered ? Overlap::kCovered : Overlap::kOther;
}

}  // namespace simpler::chip
