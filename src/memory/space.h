// How much memory may still be taken here, and where the limit comes from.
//
// Shared memory is refused by killing the process that touches it, so we look before we take: the smallest of what the
// cgroup leaves, what the machine has available and, for files, what their file system has free.
#pragma once

#include <cstdint>
#include <string>

#include "simpler/status.h"

namespace simpler::memory {

struct Space {
  uint64_t available_bytes = UINT64_MAX;
  std::string place;   // what limits, e.g. "the cgroup's memory.max"
  std::string remedy;  // the setting to change
};

class SpaceProbe {
 public:
  virtual ~SpaceProbe() = default;
  virtual Space look() const = 0;
};

// Reads the cgroup and /proc/meminfo at each look.
const SpaceProbe& system_space();
// What the file system of an open file has free; unlimited for a memfd.
Space file_space(int fd);

// Ok when `bytes` fit; else kResourceExhausted naming `what`, both byte counts, the place and the remedy.
Status check_space(const Space& space, uint64_t bytes, std::string_view what);

// The pieces of system_space(), on text that the caller read; for tests.
Space cgroup_space(std::string_view memory_max, std::string_view memory_current, std::string_view memory_stat);
Space machine_space(std::string_view meminfo);

}  // namespace simpler::memory
