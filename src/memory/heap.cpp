#include "memory/heap.h"

#include <algorithm>

#include "base/check.h"
#include "base/status_macros.h"

namespace simpler::memory {

Result<std::unique_ptr<Heap>> Heap::create(const HeapOptions& options) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 44;
  if (options.region_bytes < kHeapAlignment || options.region_bytes > kMostBytes) {
    return invalid_argument("heap regions of " + std::to_string(options.region_bytes) + " bytes; 1024 to " +
                            std::to_string(kMostBytes) + " are possible");
  }
  std::unique_ptr<Heap> heap(new Heap);
  heap->region_bytes_ = options.region_bytes / kHeapAlignment * kHeapAlignment;
  heap->region_stride_ = (heap->region_bytes_ + kSecureStep - 1) / kSecureStep * kSecureStep;
  SIMPLER_ASSIGN_OR_RETURN(heap->mapping_, SharedMapping::create({.name = "simpler-heap",
                                                                  .bytes = heap->region_stride_ * kHeapRegions,
                                                                  .space = options.space}));
  for (auto& region : heap->regions_) region.emplace(heap->region_bytes_, kHeapAlignment);
  heap->step_secured_.resize(heap->mapping_.size() / kSecureStep);
  return heap;
}

Result<HeapSpan> Heap::reserve(uint32_t scope_depth, uint64_t bytes) {
  const uint32_t region = region_of(scope_depth);
  HeapSpan span{region, SpanAllocator::kNoSpan, region * region_stride_, bytes};
  if (bytes == 0) return span;
  if (bytes > region_bytes_) {
    return out_of_range("the heap cannot hold " + std::to_string(bytes) + " bytes: each of its regions has " +
                        std::to_string(region_bytes_) + "; enlarge heap_ring_size");
  }
  SpanAllocator& allocator = *regions_[region];
  const SpanAllocator::Span found = allocator.reserve(bytes);
  if (found.node == SpanAllocator::kNoSpan) {
    return would_block("heap region " + std::to_string(region) + " has no free span of " + std::to_string(bytes) +
                       " bytes: " + std::to_string(allocator.live_bytes()) + " of " + std::to_string(region_bytes_) +
                       " are in use by " + std::to_string(allocator.live_spans()) + " spans");
  }
  span.node = found.node;
  span.offset += found.offset;
  Status secured = secure(span.offset, found.bytes);
  if (!secured.is_ok()) {
    allocator.release(found.node);
    return secured;
  }
  live_total_ += found.bytes;
  peak_bytes_ = std::max(peak_bytes_, live_total_);
  return span;
}

void Heap::release(const HeapSpan& span) {
  if (span.node == SpanAllocator::kNoSpan) return;
  SIMPLER_CHECK(span.region < kHeapRegions, span.region);
  const uint64_t before = regions_[span.region]->live_bytes();
  regions_[span.region]->release(span.node);
  live_total_ -= before - regions_[span.region]->live_bytes();
}

Status Heap::secure(uint64_t offset, uint64_t bytes) {
  const uint64_t last = (offset + bytes - 1) / kSecureStep;
  for (uint64_t step = offset / kSecureStep; step <= last; ++step) {
    if (step_secured_[step]) continue;
    uint64_t end = step + 1;
    while (end <= last && !step_secured_[end]) ++end;
    SIMPLER_RETURN_IF_ERROR(mapping_.secure(step * kSecureStep, (end - step) * kSecureStep));
    secured_steps_ += end - step;
    std::fill(step_secured_.begin() + static_cast<std::ptrdiff_t>(step),
              step_secured_.begin() + static_cast<std::ptrdiff_t>(end), true);
    step = end - 1;
  }
  return Status::ok();
}

}  // namespace simpler::memory
