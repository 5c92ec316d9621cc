// Checks of WorkerOptions: everything that can be refused before a process or a byte of shared memory exists.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/clock.h"
#include "simpler/status.h"
#include "simpler/worker.h"

namespace simpler::worker {

// kInvalidArgument naming the option, its value and what would be right.
Status validate(const WorkerOptions& options);

// The window that the engine gets: a power of two, and not so small that the tables around it are the larger part.
inline std::uint32_t window_of(const WorkerOptions& options) {
  return std::max<std::uint32_t>(std::bit_ceil(options.task_window), 64);
}

// A limit in seconds as the clock counts; more than a process lives is as good as the longest that fits.
inline Nanos nanos_of(double seconds) {
  constexpr double kLongest = 1e9;
  return std::max<Nanos>(static_cast<Nanos>(std::min(seconds, kLongest) * 1e9), 1);
}

}  // namespace simpler::worker
