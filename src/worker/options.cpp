#include "worker/options.h"

#include <cmath>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "spec/registry.h"

namespace simpler::worker {
namespace {

constexpr int kMaxSubWorkers = 1024;
constexpr std::uint64_t kMinHeapBytes = 4096;
constexpr std::uint32_t kMaxTaskWindow = 1U << 20;
constexpr std::uint32_t kMaxPendingRuns = 64;
constexpr int kMaxChipThreads = 1024;

Status check_seconds(const char* name, double value) {
  if (std::isfinite(value) && value > 0) {
    return Status::ok();
  }
  return invalid_argument(fmt::format("{}={}: must be a finite number of seconds above 0", name, value));
}

Status check_devices(const WorkerOptions& options) {
  if (options.level == 2 && !options.device_ids.empty()) {
    return invalid_argument(fmt::format("device_ids has {} entries at level 2: a level-2 worker takes one device_id",
                                        options.device_ids.size()));
  }
  if (options.level != 2 && options.device_id != 0) {
    return invalid_argument(fmt::format("device_id={}: only a level-2 worker takes one; write device_ids=[{}]",
                                        options.device_id, options.device_id));
  }
  if (options.level == 2 && options.device_id < 0) {
    return invalid_argument(fmt::format("device_id={}: must be 0 or more", options.device_id));
  }
  std::set<int> seen;
  for (const int id : options.device_ids) {
    if (id < 0) {
      return invalid_argument(fmt::format("device_ids contains {}: ids are 0 or more", id));
    }
    if (!seen.insert(id).second) {
      return invalid_argument(fmt::format("device_ids contains {} twice: each chip has one process", id));
    }
  }
  return Status::ok();
}

Status check_platform(const WorkerOptions& options) {
  const bool has_chips = options.level == 2 || !options.device_ids.empty();
  if (!has_chips) {
    return Status::ok();
  }
  if (options.platform.empty()) {
    return invalid_argument(fmt::format("platform is missing: devices need one of {}", spec::platform_names()));
  }
  if (spec::find_platform(options.platform) == nullptr) {
    return invalid_argument(
        fmt::format("platform='{}' is not known; known platforms: {}", options.platform, spec::platform_names()));
  }
  if (options.runtime != "host_build_graph") {
    return unsupported(fmt::format("runtime='{}': this release has 'host_build_graph' only", options.runtime));
  }
  return Status::ok();
}

Status check_counts(const WorkerOptions& options) {
  if (options.num_sub_workers < 0 || options.num_sub_workers > kMaxSubWorkers) {
    return invalid_argument(
        fmt::format("num_sub_workers={}: must be between 0 and {}", options.num_sub_workers, kMaxSubWorkers));
  }
  if (options.level == 2 && options.num_sub_workers != 0) {
    return invalid_argument(fmt::format("num_sub_workers={} at level 2: a level-2 worker has no children, use level=3",
                                        options.num_sub_workers));
  }
  if (options.chip_threads < 0 || options.chip_threads > kMaxChipThreads) {
    return invalid_argument(
        fmt::format("chip_threads={}: must be 0 (automatic) or at most {}", options.chip_threads, kMaxChipThreads));
  }
  if (options.task_window < 1 || options.task_window > kMaxTaskWindow) {
    return invalid_argument(
        fmt::format("task_window={}: must be between 1 and {}", options.task_window, kMaxTaskWindow));
  }
  if (options.max_pending_runs < 1 || options.max_pending_runs > kMaxPendingRuns) {
    return invalid_argument(
        fmt::format("max_pending_runs={}: must be between 1 and {}", options.max_pending_runs, kMaxPendingRuns));
  }
  if (options.heap_ring_size && *options.heap_ring_size < kMinHeapBytes) {
    return invalid_argument(
        fmt::format("heap_ring_size={}: must be {} bytes or more", *options.heap_ring_size, kMinHeapBytes));
  }
  return Status::ok();
}

}  // namespace

Status validate(const WorkerOptions& options) {
  if (options.level < 2) {
    return invalid_argument(fmt::format("level={}: workers exist from level 2 (one chip) on", options.level));
  }
  if (options.level > 3) {
    return unsupported(fmt::format("level={}: this release has levels 2 (chip) and 3 (node)", options.level));
  }
  SIMPLER_RETURN_IF_ERROR(check_devices(options));
  SIMPLER_RETURN_IF_ERROR(check_counts(options));
  SIMPLER_RETURN_IF_ERROR(check_platform(options));
  SIMPLER_RETURN_IF_ERROR(check_seconds("startup_timeout_s", options.startup_timeout_s));
  SIMPLER_RETURN_IF_ERROR(check_seconds("control_timeout_s", options.control_timeout_s));
  SIMPLER_RETURN_IF_ERROR(check_seconds("close_timeout_s", options.close_timeout_s));
  if (options.watchdog_s) {
    SIMPLER_RETURN_IF_ERROR(check_seconds("watchdog_s", *options.watchdog_s));
  }
  if (options.heap_wait_timeout_s) {
    SIMPLER_RETURN_IF_ERROR(check_seconds("heap_wait_timeout_s", *options.heap_wait_timeout_s));
  }
  return Status::ok();
}

}  // namespace simpler::worker
