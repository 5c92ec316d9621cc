#include "memory/space.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <sys/vfs.h>

namespace simpler::memory {
namespace {

constexpr int64_t kTmpfsMagic = 0x01021994;

uint64_t parse_number(std::string_view text, uint64_t fallback) {
  const auto start = text.find_first_of("0123456789");
  if (start == std::string_view::npos) return fallback;
  uint64_t value = fallback;
  std::from_chars(text.data() + start, text.data() + text.size(), value);
  return value;
}

// The number after `key` at the start of a line; `fallback` when the key is missing.
uint64_t field(std::string_view text, std::string_view key, uint64_t fallback) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.starts_with(key) && line.size() > key.size() && (line[key.size()] == ' ' || line[key.size()] == ':')) {
      return parse_number(line.substr(key.size()), fallback);
    }
    at = end + 1;
  }
  return fallback;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Space smaller(Space a, Space b) {
  return b.available_bytes < a.available_bytes ? std::move(b) : std::move(a);
}

// The folder of our cgroup below `root`: what follows `prefix` in /proc/self/cgroup.
std::string own_cgroup(std::string_view listing, std::string_view prefix) {
  std::istringstream lines{std::string(listing)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(prefix)) return line.substr(prefix.size());
    const auto controller = line.find(":memory:");
    if (prefix == ":memory:" && controller != std::string::npos) return line.substr(controller + prefix.size());
  }
  return {};
}

Space look_at_folder(const std::string& folder, bool v2) {
  if (v2) {
    return cgroup_space(read_text(folder + "/memory.max"), read_text(folder + "/memory.current"),
                        read_text(folder + "/memory.stat"));
  }
  return cgroup_space(read_text(folder + "/memory.limit_in_bytes"), read_text(folder + "/memory.usage_in_bytes"),
                      read_text(folder + "/memory.stat"));
}

// Our group and every group above it: the tightest counts. Inside a container the hierarchy's root is our own group,
// and the listed folder may not exist below it; a folder that is not there limits nothing.
Space look_upwards(const std::string& root, std::string group, bool v2) {
  Space space = look_at_folder(root, v2);
  while (group.size() > 1) {
    space = smaller(std::move(space), look_at_folder(root + group, v2));
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  return space;
}

class SystemSpace final : public SpaceProbe {
 public:
  Space look() const override {
    Space space = machine_space(read_text("/proc/meminfo"));
    const std::string listing = read_text("/proc/self/cgroup");
    space = smaller(std::move(space), look_upwards("/sys/fs/cgroup", own_cgroup(listing, "0::"), true));
    return smaller(std::move(space), look_upwards("/sys/fs/cgroup/memory", own_cgroup(listing, ":memory:"), false));
  }
};

}  // namespace

const SpaceProbe& system_space() {
  static const SystemSpace probe;
  return probe;
}

Space file_space(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return {};
  // A memfd lies on an internal tmpfs without a size; that shows as no blocks at all.
  if (static_cast<int64_t>(info.f_type) == kTmpfsMagic && info.f_blocks == 0) return {};
  return {static_cast<uint64_t>(info.f_bavail) * static_cast<uint64_t>(info.f_bsize),
          "the file system of the shared file",
          "enlarge that file system (for /dev/shm: the size option of its mount, or the container's shm size)"};
}

Status check_space(const Space& space, uint64_t bytes, std::string_view what) {
  if (bytes <= space.available_bytes) return Status::ok();
  return resource_exhausted(std::string(what) + " asks for " + std::to_string(bytes) + " bytes, " +
                            std::to_string(space.available_bytes) + " are available in " + space.place + "; " +
                            space.remedy);
}

Space cgroup_space(std::string_view memory_max, std::string_view memory_current, std::string_view memory_stat) {
  const uint64_t limit = parse_number(memory_max, UINT64_MAX);  // the word "max" has no digits
  if (limit >= UINT64_MAX / 4) return {};
  const uint64_t current = parse_number(memory_current, 0);
  // Page cache of files is given up under pressure; shared memory is counted elsewhere.
  const uint64_t cache = field(memory_stat, "inactive_file", 0) + field(memory_stat, "active_file", 0);
  const uint64_t used = current > cache ? current - cache : 0;
  return {limit > used ? limit - used : 0, "the memory limit of this cgroup",
          "raise the container's or service's memory limit"};
}

Space machine_space(std::string_view meminfo) {
  const uint64_t kib = field(meminfo, "MemAvailable", UINT64_MAX / 1024);
  return {kib * 1024, "the memory of this machine", "free memory or use a larger machine"};
}

}  // namespace simpler::memory
