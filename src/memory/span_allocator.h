// Hands out spans of an address range in any order and takes them back in any order; neighbours merge at once.
//
// Offsets only, no memory is touched. Free spans hang in lists by size (two levels, found by bit scans), so reserving
// and releasing take constant time except when a request falls into the size class of the only spans that could hold
// it: then that one list is searched, so a request fails only if no free span holds it. A drained allocator is one span
// again.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace simpler::memory {

class SpanAllocator {
 public:
  static constexpr uint32_t kNoSpan = UINT32_MAX;
  struct Span {
    uint32_t node = kNoSpan;
    uint64_t offset = 0;
    uint64_t bytes = 0;  // rounded up to the unit
  };

  // `unit` is a power of two; capacity is rounded down to it.
  SpanAllocator(uint64_t capacity, uint64_t unit);

  // node == kNoSpan when nothing fits. `bytes` > 0.
  Span reserve(uint64_t bytes);
  void release(uint32_t node);

  uint64_t capacity() const { return units_ << unit_shift_; }
  uint64_t live_bytes() const { return live_units_ << unit_shift_; }
  uint32_t live_spans() const { return live_spans_; }
  uint64_t largest_free() const;
  // Walks all spans: they tile the range, no two free ones touch, lists and counts agree.
  bool consistent() const;

 private:
  static constexpr uint32_t kSubBits = 3;  // eight size classes per power of two
  static constexpr uint32_t kSubClasses = 1U << kSubBits;
  static constexpr uint32_t kPowers = 48;

  struct Node {
    uint64_t offset = 0;  // in units
    uint64_t units = 0;
    uint32_t before = kNoSpan;  // neighbours by address
    uint32_t after = kNoSpan;
    uint32_t prev = kNoSpan;  // in the free list
    uint32_t next = kNoSpan;
    bool is_free = false;
  };

  static uint32_t class_of(uint64_t units);
  uint32_t find(uint64_t units) const;
  uint32_t new_node();
  void insert(uint32_t node);
  void remove(uint32_t node);

  uint64_t units_;
  uint32_t unit_shift_;
  uint64_t live_units_ = 0;
  uint32_t live_spans_ = 0;
  uint32_t free_nodes_ = kNoSpan;  // unused entries of nodes_
  std::vector<Node> nodes_;
  std::array<uint32_t, kPowers * kSubClasses> heads_;
  uint64_t power_map_ = 0;
  std::array<uint8_t, kPowers> sub_map_{};
};

}  // namespace simpler::memory
