// Memory of a run: reserved from the heap, held by its scope and by the tasks that name it, given back when both let
// go.
#include <string>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/engine.h"

namespace simpler::engine {

// Waiting helps exactly while some span of the region is not held by an open scope of the blocked builder.
Status Engine::why_no_space(ActiveRun& active, uint32_t region, uint64_t bytes, Status refused) {
  if (refused.code() != StatusCode::kWouldBlock) return refused;
  if (heap_->live_spans(region) != held_spans_[region]) return refused;
  return resource_exhausted(
      "alloc of " + std::to_string(bytes) + " bytes can never succeed: heap region " + std::to_string(region) + " of " +
      std::to_string(heap_->region_bytes()) + " bytes has " + std::to_string(heap_->live_bytes(region)) + " bytes in " +
      std::to_string(held_spans_[region]) + " allocations, all held by open scopes of run " +
      std::to_string(active.record->id) + " (scope depth " + std::to_string(scopes_.depth() - 1) +
      "). End scopes earlier, for example one scope for each iteration, or give the heap more bytes");
}

Result<Allocation> Engine::alloc(const RunRef& run, uint64_t bytes) {
  SIMPLER_RETURN_IF_ERROR(check_run(run));
  ActiveRun& active = *building_;
  if (heap_ == nullptr) return failed_precondition("alloc: this worker has no heap");
  if (bytes == 0) return invalid_argument("alloc of 0 bytes");
  const uint32_t depth = scopes_.depth() - 1;
  const uint32_t region = memory::Heap::region_of(depth);
  Result<memory::HeapSpan> span = heap_->reserve(depth, bytes);
  if (!span.ok()) return why_no_space(active, region, bytes, std::move(span).status());
  BufferDescriptor descriptor;
  descriptor.identity = tables_.mint_identity();
  descriptor.nbytes = bytes;
  set_body_address(descriptor, reinterpret_cast<uint64_t>(heap_->data(*span)));
  Result<memory::BufferRef> buffer = tables_.put_buffer(descriptor);
  if (!buffer.ok()) {
    heap_->release(*span);
    uint32_t held = 0;
    for (const uint32_t spans : held_spans_) held += spans;
    if (live_allocations_ > held) return would_block("no entry of the buffer table is free");
    return std::move(buffer).status();
  }
  uint32_t index = free_allocation_;
  if (index != kNoSlot) {
    free_allocation_ = allocations_[index].next_free;
  } else {
    index = static_cast<uint32_t>(allocations_.size());
    allocations_.emplace_back();
  }
  allocations_[index] = {*span, *buffer, 0, active.record->active, true, kNoSlot};
  if (allocation_of_buffer_.size() <= buffer->index) allocation_of_buffer_.resize(buffer->index + 1, kNoSlot);
  allocation_of_buffer_[buffer->index] = index;
  map_.pin_buffer(buffer->index, buffer->generation);
  scopes_.hold(index);
  ++held_spans_[region];
  ++live_allocations_;
  ++active.live_allocations;
  return Allocation{*buffer, descriptor, heap_->data(*span)};
}

Status Engine::scope_begin(const RunRef& run) {
  SIMPLER_RETURN_IF_ERROR(check_run(run));
  return scopes_.begin();
}

Status Engine::scope_end(const RunRef& run) {
  if (building_ == nullptr || building_->record != run.record) return check_run(run);
  return scopes_.end([this](uint32_t allocation) { unhold(allocation); });
}

void Engine::unhold(uint32_t allocation) {
  AllocationRecord& record = allocations_[allocation];
  record.held = false;
  --held_spans_[record.span.region];
  if (record.pins == 0) free_allocation(allocation);
}

void Engine::pin_tensors(std::span<const wire::TensorRef> tensors) {
  for (const wire::TensorRef& tensor : tensors) {
    if (tensor.buffer >= allocation_of_buffer_.size()) continue;
    const uint32_t allocation = allocation_of_buffer_[tensor.buffer];
    if (allocation != kNoSlot && allocations_[allocation].buffer.generation == tensor.generation) {
      ++allocations_[allocation].pins;
    }
  }
}

void Engine::release_pins(std::span<const wire::TensorRef> tensors) {
  for (const wire::TensorRef& tensor : tensors) {
    if (tensor.buffer >= allocation_of_buffer_.size()) continue;
    const uint32_t allocation = allocation_of_buffer_[tensor.buffer];
    if (allocation == kNoSlot) continue;
    AllocationRecord& record = allocations_[allocation];
    if (record.buffer.generation != tensor.generation) continue;
    SIMPLER_CHECK(record.pins > 0, allocation);
    if (--record.pins == 0 && !record.held) free_allocation(allocation);
  }
}

void Engine::free_allocation(uint32_t allocation) {
  AllocationRecord& record = allocations_[allocation];
  allocation_of_buffer_[record.buffer.index] = kNoSlot;
  const Status retired = tables_.retire_buffer(record.buffer);
  SIMPLER_CHECK(retired.is_ok(), retired.message());
  heap_->release(record.span);
  --live_allocations_;
  ActiveRun& active = active_[record.run];
  if (--active.live_allocations == 0) want_finish(active);
  record.next_free = free_allocation_;
  free_allocation_ = allocation;
}

}  // namespace simpler::engine
