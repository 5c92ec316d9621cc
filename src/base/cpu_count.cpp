#include "base/cpu_count.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fstream>
#include <optional>
#include <unistd.h>

#include "base/affinity_mask.h"

namespace simpler {
namespace {

uint32_t cpus_of_affinity() {
  const std::optional<AffinityMask> mask = AffinityMask::of_this_thread();
  return mask ? mask->count() : 1;
}

std::string own_group() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "/";
}

bool parse(std::string_view text, uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

uint32_t online_cpus() {
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<uint32_t>(online) : 0;
}

uint32_t cpus_of_quota(std::string_view cpu_max) {
  while (!cpu_max.empty() && (cpu_max.back() == '\n' || cpu_max.back() == ' ')) cpu_max.remove_suffix(1);
  const size_t space = cpu_max.find(' ');
  if (space == std::string_view::npos) return 0;
  uint64_t quota = 0;
  uint64_t period = 0;
  if (!parse(cpu_max.substr(0, space), quota) || !parse(cpu_max.substr(space + 1), period)) return 0;
  if (quota == 0 || period == 0) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>((quota - 1) / period + 1, 1U << 20));
}

uint32_t smallest_quota(const std::string& mount, const std::string& group) {
  uint32_t smallest = 0;
  std::string path = group;
  while (true) {
    std::ifstream file(mount + path + "/cpu.max");
    std::string line;
    if (std::getline(file, line)) {
      const uint32_t cpus = cpus_of_quota(line);
      if (cpus != 0 && (smallest == 0 || cpus < smallest)) smallest = cpus;
    }
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return smallest;
    path.resize(slash);
  }
}

uint32_t usable_cpus() {
  const uint32_t affinity = std::max(cpus_of_affinity(), 1U);
  const uint32_t quota = smallest_quota("/sys/fs/cgroup", own_group());
  return quota == 0 ? affinity : std::min(affinity, quota);
}

}  // namespace simpler
