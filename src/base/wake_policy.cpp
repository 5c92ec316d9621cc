#include "base/wake_policy.h"

#include <algorithm>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu_count.h"
#include "base/wake_word.h"

namespace simpler {
namespace {

constexpr uint32_t kSwitchesOfANeighbour = 3;  // yields in a row that ran somebody else before a move is thought of
constexpr Nanos kSystemCallsOfASwitch = 6;     // a yield that runs nobody takes two to three of the cheapest here

template <class Step>
Nanos best_of_three(Step&& step) {
  Nanos best = kSecond;
  for (int round = 0; round < 3; ++round) {
    const Nanos started = monotonic_now();
    step();
    best = std::min(best, monotonic_now() - started);
  }
  return std::max<Nanos>(best, 1);
}

uint32_t polls_for(Nanos span) {
  constexpr uint32_t kSample = 256;
  const Nanos best = best_of_three([] {
    for (uint32_t i = 0; i < kSample; ++i) internal::relax_cpu();
  });
  return static_cast<uint32_t>(std::clamp<Nanos>(span * kSample / best, 1, 10'000));
}

Nanos shortest_switch(Nanos least) {
  return std::max(least, kSystemCallsOfASwitch * best_of_three([] { ::syscall(SYS_getppid); }));
}

}  // namespace

void GrowingPause::begin(Nanos now) {
  const Nanos length = recent(now) ? std::min(length_.load(std::memory_order_relaxed) * 2, longest_) : first_;
  length_.store(length, std::memory_order_relaxed);
  until_.store(now + length, std::memory_order_relaxed);
}

WakePolicy::WakePolicy(const WakeOptions& options)
    : options_(options),
      cpus_(options.cpus != 0 ? options.cpus : usable_cpus()),
      spin_polls_(polls_for(options.spin)),
      switch_time_(shortest_switch(options.switch_time)),
      has_membarrier_(register_membarrier() && options.use_membarrier && membarrier_all_registered()),
      runnable_threads_(options.runnable_threads),
      ban_(options.first_ban, options.longest_ban),
      mercy_(options.first_ban, options.longest_ban),
      moves_(options.first_pause, options.longest_ban),
      hurry_(options.first_pause, options.longest_ban) {}

bool WakePolicy::note_yield(Nanos now, Nanos took) {
  note_neighbour(now, took);
  if (took <= options_.bad_yield) {
    if (ban_.known() && !ban_.recent(now)) ban_.forget();
    return true;
  }
  // Another thread has told of the same time slice: this yield began before the ban did.
  if (ban_.known() && now - took < ban_.began()) return false;
  if (forgiven(now)) return true;
  ban_.begin(now);
  return false;
}

bool WakePolicy::forgiven(Nanos now) {
  if (ban_.recent(now) || mercy_.holds(now) || !room().has_a_free_cpu()) return false;
  mercy_.begin(now);
  return true;
}

Nanos WakePolicy::patience(Nanos now) {
  if (options_.yield == 0 || hurry_.holds(now)) return 0;
  if (room().has_a_free_cpu()) return options_.yield_for_move;
  hurry_.begin(now);
  return 0;
}

// A quota below the mask means that a second CPU would be paid for with a pause later.
CpuRoom WakePolicy::room() const {
  if (cpus_ < 2) return {};
  CpuRoom room = options_.cpu_room();
  room.allowed = std::min(room.allowed, cpus_);
  return room;
}

void WakePolicy::forget_neighbour() {
  switches_.store(0, std::memory_order_relaxed);
  lost_.store(0, std::memory_order_relaxed);
}

void WakePolicy::note_neighbour(Nanos now, Nanos took) {
  const uint32_t switches = switches_.load(std::memory_order_relaxed) + 1;
  if (took < switch_time_) {
    if (switches > 1) forget_neighbour();
    return;
  }
  const Nanos lost = lost_.load(std::memory_order_relaxed) + took;
  switches_.store(switches, std::memory_order_relaxed);
  lost_.store(lost, std::memory_order_relaxed);
  if (options_.move_after == 0 || lost < options_.move_after || switches < kSwitchesOfANeighbour) return;
  if (moves_.holds(now)) return;
  moves_.begin(now);
  if (room().has_mostly_free_cpus() && options_.leave_cpu()) forget_neighbour();
}

}  // namespace simpler
