// RunContext: everything one run slot needs, retained from run to run: graph, tensor map, planner, scheduler, staging.
//
// One context is used by one run at a time. A run that a kernel never left takes its context with it.
#pragma once

#include <cstdint>
#include <vector>

#include "chip/chip_worker.h"
#include "chip/device_memory.h"
#include "chip/graph_image.h"
#include "chip/host_access.h"
#include "chip/host_planner.h"
#include "chip/loaded_callable.h"
#include "chip/reserved_array.h"
#include "chip/staging.h"
#include "chip/tensor_map.h"
#include "device/scheduler.h"
#include "simpler/status.h"
#include "spec/chip_spec.h"

namespace simpler::chip {

// Sizes of one run: call config before chip option before the generation's default.
struct RunLimits {
  uint32_t window = 0;
  uint64_t heap_bytes = 0;
  uint32_t fanin_per_task = 0;
  uint32_t map_entries = 0;
  uint32_t map_buckets = 0;
  uint32_t queue_entries = 0;
};
Result<RunLimits> run_limits(const spec::ChipSpec& chip, const ChipOptions& options, const CallConfig& config);

class RunContext {
 public:
  explicit RunContext(const DeviceMemory& memory);
  RunContext(const RunContext&) = delete;
  RunContext& operator=(const RunContext&) = delete;

  struct Chip {
    uint32_t clusters;
    uint32_t aiv_cores;
    const Logger* logger;
  };
  // Stages the arguments and builds the graph.
  Status build(const LoadedCallable& callable, const ChipArgs& args, const RunLimits& limits, const Chip& chip,
               DeviceMemory& memory);
  void boot(uint32_t aic_cores, uint32_t aiv_cores);

  device::Scheduler& scheduler() { return scheduler_; }
  GraphImage& image() { return image_; }
  const Staging& staging() const { return staging_; }
  uint64_t retained_bytes() const { return staging_.retained_bytes() + image_.heap_high_water(); }

 private:
  GraphImage image_;
  TensorMap map_;
  HostPlanner planner_;
  device::Scheduler scheduler_;
  ReservedArray<device::ReadyQueue::Cell> cells_[device::kQueuedShapes];
  uint32_t queue_entries_ = 0;
  Staging staging_;
  HostAccess access_;
};

}  // namespace simpler::chip
