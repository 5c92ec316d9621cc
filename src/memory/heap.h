// Space for what graphs allocate: four regions by scope depth, inherited by children at the same address.
//
// Spans are freed in any order and merged, so one slow task holds back nobody, and an empty region accepts its full
// size. Running out is not an error of the heap's: `reserve` says whether waiting can help. Memory is secured in steps
// of 2 MiB when a span first reaches it and is then kept. Single-threaded: the holder of the engine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/shared_mapping.h"
#include "memory/span_allocator.h"
#include "simpler/status.h"

namespace simpler::memory {

inline constexpr uint32_t kHeapRegions = 4;
inline constexpr uint64_t kHeapAlignment = 1024;
inline constexpr uint64_t kDefaultHeapRegionBytes = uint64_t{1} << 30;

struct HeapOptions {
  uint64_t region_bytes = kDefaultHeapRegionBytes;  // rounded up to 2 MiB pages' worth of alignment units
  const SpaceProbe* space = nullptr;
};

struct HeapSpan {
  uint32_t region = 0;
  uint32_t node = SpanAllocator::kNoSpan;  // kNoSpan: a span of 0 bytes
  uint64_t offset = 0;                     // from the heap's base
  uint64_t bytes = 0;                      // as asked
};

class Heap {
 public:
  static Result<std::unique_ptr<Heap>> create(const HeapOptions& options);

  static constexpr uint32_t region_of(uint32_t scope_depth) {
    return scope_depth < kHeapRegions ? scope_depth : kHeapRegions - 1;
  }

  // kWouldBlock: fits once live spans of that region are released. kOutOfRange: can never fit. kResourceExhausted: the
  // machine has no room for it now. 0 bytes always succeed and hold nothing.
  Result<HeapSpan> reserve(uint32_t scope_depth, uint64_t bytes);
  void release(const HeapSpan& span);

  std::byte* data(const HeapSpan& span) const { return mapping_.data() + span.offset; }
  std::byte* base() const { return mapping_.data(); }
  uint64_t size() const { return mapping_.size(); }
  uint64_t region_bytes() const { return region_bytes_; }
  uint64_t live_bytes(uint32_t region) const { return regions_[region]->live_bytes(); }
  uint32_t live_spans(uint32_t region) const { return regions_[region]->live_spans(); }
  uint64_t secured_bytes() const { return secured_steps_ * kSecureStep; }
  uint64_t peak_bytes() const { return peak_bytes_; }

 private:
  Heap() = default;
  Status secure(uint64_t offset, uint64_t bytes);

  SharedMapping mapping_;
  uint64_t region_bytes_ = 0;
  uint64_t region_stride_ = 0;
  uint64_t live_total_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t secured_steps_ = 0;
  std::array<std::optional<SpanAllocator>, kHeapRegions> regions_;
  std::vector<bool> step_secured_;
};

}  // namespace simpler::memory
