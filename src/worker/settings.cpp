#include "worker/settings.h"

#include <bit>
#include <limits>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/options.h"

namespace simpler::worker {
namespace {

constexpr double kDefaultWatchdog = 10;  // seconds
constexpr std::uint64_t kMostMilliseconds = std::numeric_limits<Nanos>::max() / kMillisecond;

// 0 when the variable is not set. What a chip would refuse is refused here, where the variable's name is known.
Result<std::uint64_t> window_of(const Environment& environment) {
  SIMPLER_ASSIGN_OR_RETURN(const auto values, environment.four_numbers(Variable::kRingTaskWindow));
  if (!values) {
    return 0;
  }
  const std::uint64_t window = values->front();
  if (!std::has_single_bit(window) || window < chip::kMinTaskWindow || window > chip::kMaxTaskWindow) {
    return invalid_argument(
        fmt::format("environment variable PTO2_RING_TASK_WINDOW has '{}': a power of two from 4 to {}", window,
                    chip::kMaxTaskWindow));
  }
  return window;
}

Result<std::uint64_t> heap_of(const Environment& environment) {
  SIMPLER_ASSIGN_OR_RETURN(const auto values, environment.four_numbers(Variable::kRingHeap));
  if (!values) {
    return 0;
  }
  const std::uint64_t bytes = values->front();
  if (bytes < chip::kMinHeapBytes || bytes > chip::kMaxHeapBytes) {
    return invalid_argument(fmt::format("environment variable PTO2_RING_HEAP has '{}': bytes, from {} to {}", bytes,
                                        chip::kMinHeapBytes, chip::kMaxHeapBytes));
  }
  return bytes;
}

Result<Nanos> watchdog_of(const WorkerOptions& options, const Environment& environment) {
  if (options.watchdog_s) {
    return nanos_of(*options.watchdog_s);
  }
  SIMPLER_ASSIGN_OR_RETURN(const auto milliseconds, environment.number(Variable::kSchedulerTimeoutMs));
  if (!milliseconds) {
    return nanos_of(kDefaultWatchdog);
  }
  if (*milliseconds == 0 || *milliseconds > kMostMilliseconds) {
    return invalid_argument(fmt::format("environment variable SIMPLER_SCHEDULER_TIMEOUT_MS has '{}': between 1 and {}",
                                        *milliseconds, kMostMilliseconds));
  }
  return static_cast<Nanos>(*milliseconds) * kMillisecond;
}

}  // namespace

Result<Settings> settings_of(const WorkerOptions& options, const Environment& environment) {
  Settings settings;
  if (const std::optional<std::string> level = environment.text(Variable::kLogLevel)) {
    if (!parse_log_level(*level, settings.log_level)) {
      return invalid_argument(
          fmt::format("environment variable SIMPLER_LOG_LEVEL has '{}', which is none of debug, info, timing, warn, "
                      "error, nul (nothing at all) and no number",
                      *level));
    }
  }
  SIMPLER_ASSIGN_OR_RETURN(settings.watchdog, watchdog_of(options, environment));
  SIMPLER_ASSIGN_OR_RETURN(settings.chip_task_window, window_of(environment));
  SIMPLER_ASSIGN_OR_RETURN(settings.chip_heap_bytes, heap_of(environment));
  settings.trace_folder = environment.text(Variable::kTrace).value_or("");
  return settings;
}

chip::ChipOptions chip_options_of(const WorkerOptions& options, const Settings& settings, int device_id) {
  chip::ChipOptions out;
  out.platform = options.platform;
  out.runtime = options.runtime;
  out.device_id = device_id;
  out.watchdog = settings.watchdog;
  out.task_window = settings.chip_task_window;
  out.heap_bytes = settings.chip_heap_bytes;
  return out;
}

}  // namespace simpler::worker
