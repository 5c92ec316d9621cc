#include "worker/settings.h"

#include <limits>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/options.h"

namespace simpler::worker {
namespace {

constexpr double kDefaultWatchdog = 10;  // seconds
constexpr std::uint64_t kMostMilliseconds = std::numeric_limits<Nanos>::max() / kMillisecond;

Result<std::uint64_t> first_of_four(const Environment& environment, Variable variable) {
  SIMPLER_ASSIGN_OR_RETURN(const auto values, environment.four_numbers(variable));
  return values ? values->front() : 0;
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
      return invalid_argument(fmt::format(
          "environment variable SIMPLER_LOG_LEVEL has '{}': debug, info, timing, warn, error, nul or a number",
          *level));
    }
  }
  SIMPLER_ASSIGN_OR_RETURN(settings.watchdog, watchdog_of(options, environment));
  SIMPLER_ASSIGN_OR_RETURN(settings.chip_task_window, first_of_four(environment, Variable::kRingTaskWindow));
  SIMPLER_ASSIGN_OR_RETURN(settings.chip_heap_bytes, first_of_four(environment, Variable::kRingHeap));
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
