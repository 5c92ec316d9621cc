#include "chip/run_context.h"

#include <bit>

#include "base/status_macros.h"
#include "chip/run_codes.h"

namespace simpler::chip {

Result<RunLimits> run_limits(const spec::ChipSpec& chip, const ChipOptions& options, const CallConfig& config) {
  const auto first_set = [](uint64_t a, uint64_t b, uint64_t c) { return a != 0 ? a : b != 0 ? b : c; };
  const uint64_t window =
      first_set(config.runtime_env.ring_task_window[0], options.task_window, chip.graph.task_window);
  if (!spec::is_power_of_two(window) || window < kMinTaskWindow || window > kMaxTaskWindow) {
    return invalid_argument("task window is " + std::to_string(window) + "; it must be a power of two from 4 to " +
                            std::to_string(kMaxTaskWindow));
  }
  const uint64_t heap = first_set(config.runtime_env.ring_heap[0], options.heap_bytes, chip.graph.heap_bytes);
  static_assert(kMinHeapBytes >= GraphImage::kHeapAlignment);
  if (heap < kMinHeapBytes || heap > kMaxHeapBytes) {
    return invalid_argument("task heap is " + std::to_string(heap) + " bytes; it must be 1024 to 4 TiB");
  }
  RunLimits limits;
  limits.window = static_cast<uint32_t>(window);
  limits.heap_bytes = heap / GraphImage::kHeapAlignment * GraphImage::kHeapAlignment;
  limits.fanin_per_task = chip.graph.fanin_per_task;
  limits.map_entries = static_cast<uint32_t>(first_set(options.tensor_map_entries, 0, chip.graph.tensor_map_entries));
  limits.map_buckets = chip.graph.tensor_map_buckets;
  // As many cells as tasks: then no graph that fits the window can overflow the queue.
  limits.queue_entries = options.ready_queue_entries != 0 ? std::bit_ceil(options.ready_queue_entries) : limits.window;
  return limits;
}

RunContext::RunContext(const DeviceMemory& memory) : planner_(map_, image_), access_(memory) {}

Status RunContext::build(const LoadedCallable& callable, const ChipArgs& args, const RunLimits& limits,
                         const Chip& chip, DeviceMemory& memory) {
  SIMPLER_RETURN_IF_ERROR(image_.prepare({limits.window, limits.fanin_per_task, limits.heap_bytes}));
  SIMPLER_RETURN_IF_ERROR(map_.reserve(limits.map_entries, limits.map_buckets));
  for (auto& cells : cells_) SIMPLER_RETURN_IF_ERROR(cells.reserve(limits.queue_entries, "ready queue"));
  if (queue_entries_ != limits.queue_entries) {
    queue_entries_ = limits.queue_entries;
    scheduler_.attach_queue(device::Shape::kAic, cells_[0].data(), queue_entries_);
    scheduler_.attach_queue(device::Shape::kAiv, cells_[1].data(), queue_entries_);
  }
  SIMPLER_RETURN_IF_ERROR(staging_.stage(args.tensors, callable.tensor_directions(), memory, access_));
  PlannerSetup setup;
  setup.kernels = callable.kernels();
  setup.clusters = chip.clusters;
  setup.aiv_cores = chip.aiv_cores;
  setup.window = limits.window;
  setup.fanin_per_task = limits.fanin_per_task;
  setup.access = &access_;
  setup.logger = chip.logger;
  SIMPLER_RETURN_IF_ERROR(planner_.reset(setup));
  const auto tensors = staging_.tensors();
  return planner_.build(
      callable, orchestration::ChipTaskArgs(tensors.data(), static_cast<uint32_t>(tensors.size()), args.scalars.data(),
                                            static_cast<uint32_t>(args.scalars.size())));
}

void RunContext::boot(uint32_t aic_cores, uint32_t aiv_cores) {
  scheduler_.boot(image_.graph(), aic_cores, aiv_cores);
}

}  // namespace simpler::chip
