#include "base/wake_policy.h"

#include <algorithm>
#include <cmath>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cpu_count.h"

namespace simpler {
namespace {

// A look asks for the poster's line; one that comes while the line is under way, or being written, makes it travel once
// more. With 13 ns between looks the bare lane took 254 ns a hop at best, with 40 ns 224, with 52 ns 201; the engine,
// whose looks take longer themselves, does best at 40 (2026-11-30).
constexpr Nanos kBetweenLooks = 40;
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

// Of the processor's hint for spinning loops; differs from model to model.
double ns_of_a_pause() {
  constexpr uint32_t kSample = 256;
  const Nanos best = best_of_three([] {
    for (uint32_t i = 0; i < kSample; ++i) internal::relax_cpu();
  });
  return static_cast<double>(best) / kSample;
}

uint32_t pauses_for(Nanos span) {
  return static_cast<uint32_t>(std::clamp(std::round(static_cast<double>(span) / ns_of_a_pause()), 1.0, 1'000.0));
}

uint32_t looks_for(Nanos span) {
  return static_cast<uint32_t>(std::clamp<Nanos>(span / kBetweenLooks, 1, 10'000));
}

Nanos shortest_switch(Nanos least) {
  return std::max(least, kSystemCallsOfASwitch * best_of_three([] { ::syscall(SYS_getppid); }));
}

}  // namespace

WakePolicy::WakePolicy(const WakeOptions& options)
    : options_(options),
      cpus_(options.cpus != 0 ? options.cpus : usable_cpus()),
      online_cpus_(options.online_cpus != 0 ? options.online_cpus : online_cpus()),
      pauses_of_a_look_(pauses_for(kBetweenLooks)),
      spin_looks_(looks_for(options.spin)),
      switch_time_(shortest_switch(options.switch_time)),
      has_membarrier_(register_membarrier() && options.use_membarrier && membarrier_all_registered()),
      runnable_threads_(options.runnable_threads),
      ban_(options.first_ban, options.longest_ban),
      mercy_(options.first_ban, options.longest_ban),
      moves_(options.first_pause, options.longest_ban),
      hurry_(options.first_pause, options.longest_ban),
      place_(options.little_work, options.first_pause, options.first_ban, options.longest_ban) {}

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
  room.online = online_cpus_;
  room.allowed = std::min(room.allowed, cpus_);
  return room;
}

void WakePolicy::forget_neighbour() {
  switches_.store(0, std::memory_order_relaxed);
  lost_.store(0, std::memory_order_relaxed);
}

void WakePolicy::note_neighbour(Nanos now, Nanos took) {
  const uint32_t switches = switches_.load(std::memory_order_relaxed) + 1;
  if (!ran_somebody(took)) {
    if (switches > 1) forget_neighbour();
    return;
  }
  const Nanos lost = lost_.load(std::memory_order_relaxed) + took;
  switches_.store(switches, std::memory_order_relaxed);
  lost_.store(lost, std::memory_order_relaxed);
  if (options_.move_after == 0 || lost < options_.move_after || switches < kSwitchesOfANeighbour) return;
  if (moves_.holds(now)) return;
  moves_.begin(now);
  if (!room().has_mostly_free_cpus() || !options_.leave_cpu()) return;
  place_.note_move(now);  // not back at once
  forget_neighbour();
}

bool WakePolicy::prefers_poster_fence() const {
  if (options_.posters_fence || too_many_take_turns()) return true;
  const Nanos now = monotonic_now();
  return ban_.recent(now) || place_.sleeps_often(now);
}

bool WakePolicy::decides_to_sleep(uint32_t turns, Nanos now) {
  if (options_.move_after == 0 || !shares_cpu() || !place_.asks_for_room(turns, now)) return false;
  const bool full = room().is_full();
  place_.note_room(full, options_.current_cpu(), now);
  return full;
}

void WakePolicy::note_idle() {
  if (!place_.is_worth_a_note()) return;
  const Nanos now = monotonic_now();
  const int target = place_.note_idle(now);
  if (target == PosterPlace::kNowhere || !room().is_full()) return;
  moves_.begin(now);  // not away again at once
  options_.join_cpu(target);
}

void WakePolicy::note_wake(int poster_cpu) {
  if (options_.move_after == 0 || poster_cpu < 0) return;
  place_.note_wake(poster_cpu, options_.current_cpu(), monotonic_now());
}

}  // namespace simpler
