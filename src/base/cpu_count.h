// How many CPUs this process may really use: the affinity mask, cut by the quota of its control groups.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace simpler {

// At least 1. Reads the mask and the control-group files now; nothing is cached.
uint32_t usable_cpus();

// CPUs of the whole machine that are in use now; 0 where that is not known.
uint32_t online_cpus();

// Whole CPUs granted by the text of a cgroup v2 `cpu.max` file, rounded up; 0 when it sets no limit or is not
// understood.
uint32_t cpus_of_quota(std::string_view cpu_max);

// The smallest quota on the way from `group` (a path of /proc/self/cgroup, "/" first) up to the root of `mount`; 0:
// none.
uint32_t smallest_quota(const std::string& mount, const std::string& group);

}  // namespace simpler
