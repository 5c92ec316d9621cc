#include "base/free_cpu.h"

#include <array>
#include <charconv>
#include <fcntl.h>
#include <optional>
#include <sched.h>
#include <unistd.h>

#include "base/affinity_mask.h"
#include "base/unique_fd.h"

namespace simpler {

// Three averages, then "runnable/all": 0.10 0.20 0.30 2/77 18078
uint32_t runnable_threads_of(std::string_view loadavg) {
  for (int field = 0; field < 3; ++field) {
    const size_t space = loadavg.find(' ');
    if (space == std::string_view::npos) return 0;
    loadavg.remove_prefix(space + 1);
  }
  uint32_t runnable = 0;
  const auto [end, error] = std::from_chars(loadavg.data(), loadavg.data() + loadavg.size(), runnable);
  return error == std::errc() && end != loadavg.data() + loadavg.size() && *end == '/' ? runnable : 0;
}

CpuRoom cpu_room() {
  const std::optional<AffinityMask> allowed = AffinityMask::of_this_thread();
  const UniqueFd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  if (!allowed || !file.valid()) return {};
  std::array<char, 128> text{};
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  if (bytes <= 0) return {};
  return {.runnable = runnable_threads_of({text.data(), static_cast<size_t>(bytes)}), .allowed = allowed->count()};
}

bool leave_this_cpu() {
  const std::optional<AffinityMask> allowed = AffinityMask::of_this_thread();
  const int here = current_cpu();
  if (!allowed || here < 0) return false;
  std::optional<AffinityMask> others = AffinityMask::of_this_thread();
  if (!others) return false;
  others->remove(here);
  if (others->count() == 0 || !others->apply_to_this_thread()) return false;
  return allowed->apply_to_this_thread();
}

bool join_that_cpu(int cpu) {
  const std::optional<AffinityMask> allowed = AffinityMask::of_this_thread();
  if (!allowed || cpu < 0 || !allowed->has(cpu)) return false;
  std::optional<AffinityMask> only = AffinityMask::of_this_thread();
  if (!only) return false;
  only->keep_only(cpu);
  return only->apply_to_this_thread() && allowed->apply_to_this_thread();
}

int current_cpu() {
  return ::sched_getcpu();
}

}  // namespace simpler
