// What the environment sets of a worker. An argument wins over a variable, a variable over the default.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/environment.h"
#include "base/log.h"
#include "chip/chip_worker.h"
#include "simpler/status.h"
#include "simpler/worker.h"

namespace simpler::worker {

struct Settings {
  LogLevel log_level = LogLevel::kWarn;
  Nanos watchdog = 0;
  std::uint64_t chip_task_window = 0;  // 0: the chip's own
  std::uint64_t chip_heap_bytes = 0;   // 0: the chip's own
  std::string trace_folder;            // empty: no trace unless the options ask for one
};

// kInvalidArgument naming the variable, its value and what would be right. The options are valid.
Result<Settings> settings_of(const WorkerOptions& options, const Environment& environment);

// The options of one simulated chip; threads, kernels and logger are left to the caller.
chip::ChipOptions chip_options_of(const WorkerOptions& options, const Settings& settings, int device_id);

}  // namespace simpler::worker
