#include "chip/graph_image.h"

#include <algorithm>
#include <new>

#include "base/status_macros.h"

namespace simpler::chip {

using orchestration::kMaxTaskScalars;
using orchestration::kMaxTaskTensors;

Status GraphImage::prepare(const ImageLimits& limits) {
  const std::size_t window = limits.window;
  SIMPLER_RETURN_IF_ERROR(slots_.reserve(window, "task slots"));
  SIMPLER_RETURN_IF_ERROR(fanin_.reserve(window * limits.fanin_per_task, "fan-in pool"));
  SIMPLER_RETURN_IF_ERROR(tensors_.reserve(window * kMaxTaskTensors, "tensor pool"));
  SIMPLER_RETURN_IF_ERROR(scalars_.reserve(window * kMaxTaskScalars, "scalar pool"));
  if (heap_.capacity() < limits.heap_bytes + kHeapAlignment) {
    SIMPLER_RETURN_IF_ERROR(heap_.reserve(limits.heap_bytes + kHeapAlignment, "task heap"));
    heap_high_water_ = 0;
  }
  const auto raw = reinterpret_cast<uint64_t>(heap_.data());
  heap_base_ = (raw + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  limits_ = limits;
  heap_used_ = 0;
  tasks_ = complete_ = fanin_used_ = tensors_used_ = scalars_used_ = 0;
  return Status::ok();
}

bool GraphImage::open(NodeDraft& draft) {
  if (tasks_ == limits_.window) return false;
  draft.index = tasks_;
  draft.tensors = &tensors_[tensors_used_];
  draft.scalars = &scalars_[scalars_used_];
  draft.fanin = &fanin_[fanin_used_];
  return true;
}

uint64_t GraphImage::allocate(uint64_t bytes) {
  const uint64_t rounded = (bytes + kHeapAlignment - 1) / kHeapAlignment * kHeapAlignment;
  if (rounded < bytes || rounded > limits_.heap_bytes - heap_used_) return 0;
  const uint64_t at = heap_base_ + heap_used_;
  heap_used_ += rounded;
  heap_high_water_ = std::max(heap_high_water_, heap_used_);
  return at;
}

void GraphImage::commit(const NodeDraft& draft, const NodeFacts& facts) {
  device::TaskSlot& slot = slots_[draft.index];
  slot.wake_head.store(facts.complete ? device::kWakeClosed : device::kWakeEmpty, std::memory_order_relaxed);
  slot.wake_next = device::kWakeEmpty;
  slot.next_block.store(0, std::memory_order_relaxed);
  slot.blocks_done.store(0, std::memory_order_relaxed);
  slot.block_num = facts.block_num;
  slot.fanin_begin = fanin_used_;
  slot.fanin_left = facts.fanin_count;
  slot.tensor_begin = tensors_used_;
  slot.scalar_begin = scalars_used_;
  slot.tensor_count = facts.tensor_count;
  slot.scalar_count = facts.scalar_count;
  slot.entry = facts.entry;
  slot.func_id = facts.func_id;
  slot.shape = facts.shape;
  ++tasks_;
  if (facts.complete) ++complete_;
  fanin_used_ += facts.fanin_count;
  tensors_used_ += facts.tensor_count;
  scalars_used_ += facts.scalar_count;
}

bool GraphImage::is_complete(uint32_t index) const {
  return slots_[index].wake_head.load(std::memory_order_relaxed) == device::kWakeClosed;
}

}  // namespace simpler::chip
