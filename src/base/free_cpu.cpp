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

namespace {

// Lets the calling thread run for a moment on `there` only, then on `allowed` again. A control group that has meanwhile
// lost all of `allowed` leaves what it still has.
bool move_to(const AffinityMask& there, const AffinityMask& allowed) {
  if (!there.apply_to_this_thread()) return false;
  if (allowed.apply_to_this_thread()) return true;
  AffinityMask all = allowed;
  all.fill();
  return all.apply_to_this_thread();
}

}  // namespace

bool leave_this_cpu() {
  const std::optional<AffinityMask> allowed = AffinityMask::of_this_thread();
  const int here = current_cpu();
  if (!allowed || here < 0) return false;
  AffinityMask others = *allowed;
  others.remove(here);
  return others.count() != 0 && move_to(others, *allowed);
}

bool join_that_cpu(int cpu) {
  const std::optional<AffinityMask> allowed = AffinityMask::of_this_thread();
  if (!allowed || cpu < 0 || !allowed->has(cpu)) return false;
  AffinityMask only = *allowed;
  only.keep_only(cpu);
  return move_to(only, *allowed);
}

int current_cpu() {
  return ::sched_getcpu();
}

}  // namespace simpler
