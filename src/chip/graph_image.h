// GraphImage: the records of one run's graph and the heap of its outputs. Both only grow while a graph is built and are
// emptied at once; the storage stays for the next run, so a warm run allocates nothing and touches only what it uses.
#pragma once

#include <cstdint>

#include "chip/planner.h"
#include "chip/reserved_array.h"
#include "simpler/status.h"

namespace simpler::chip {

struct ImageLimits {
  uint32_t window = 0;
  uint32_t fanin_per_task = 0;
  uint64_t heap_bytes = 0;
};

class GraphImage final : public NodeSink {
 public:
  static constexpr uint64_t kHeapAlignment = 1024;

  // Takes the limits for the next graph; keeps storage that is large enough.
  Status prepare(const ImageLimits& limits);

  bool open(NodeDraft& draft) override;
  uint64_t allocate(uint64_t bytes) override;
  void commit(const NodeDraft& draft, const NodeFacts& facts) override;
  uint32_t node_count() const override { return tasks_; }
  bool is_complete(uint32_t index) const override;
  std::span<const orchestration::Tensor> arguments() const override { return {tensors_.data(), tensors_used_}; }

  device::Graph graph() const { return device::Graph{slots_.data(), fanin_.data(), tasks_, complete_}; }
  const device::TaskSlot& slot(uint32_t index) const { return slots_[index]; }
  const orchestration::Tensor* tensors() const { return tensors_.data(); }
  const uint64_t* scalars() const { return scalars_.data(); }
  uint64_t heap_used() const { return heap_used_; }
  uint64_t heap_high_water() const { return heap_high_water_; }
  const ImageLimits& limits() const { return limits_; }

 private:
  ImageLimits limits_;
  ReservedArray<device::TaskSlot> slots_;
  ReservedArray<uint32_t> fanin_;
  ReservedArray<orchestration::Tensor> tensors_;
  ReservedArray<uint64_t> scalars_;
  ReservedArray<std::byte> heap_;
  uint64_t heap_base_ = 0;
  uint64_t heap_used_ = 0;
  uint64_t heap_high_water_ = 0;
  uint32_t tasks_ = 0;
  uint32_t complete_ = 0;
  uint32_t fanin_used_ = 0;
  uint32_t tensors_used_ = 0;
  uint32_t scalars_used_ = 0;
};

}  // namespace simpler::chip
