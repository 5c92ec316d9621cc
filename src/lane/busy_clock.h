// How long a child has been busy, without a clock read per task.
//
// Owned by the child end. A stretch runs from the first line after an idle moment to the next idle moment, where idle
// means that nothing came for as long as a wait spins (about a microsecond); shorter gaps count as busy. Inside a
// stretch no clock is read. The processor's counter is used for its price and compared with the system clock now and
// then.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace simpler::lane {

inline uint64_t processor_ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks = 0;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return static_cast<uint64_t>(monotonic_now());
#endif
}

class BusyClock {
 public:
  BusyClock() : first_ns_(monotonic_now()), first_ticks_(processor_ticks()) {}

  bool busy() const { return busy_; }
  // Begins a stretch; its start on the system clock.
  Nanos begin() {
    busy_ = true;
    began_ = processor_ticks();
    return first_ns_ + to_ns(began_ - first_ticks_);
  }
  // Ends the stretch; all stretches so far, in ns.
  Nanos end() {
    busy_ = false;
    const uint64_t now = processor_ticks();
    if (now > began_) total_ticks_ += now - began_;
    if (now - calibrated_ > kRecalibrate) {
      calibrated_ = now;
      ns_per_tick_ = static_cast<double>(monotonic_now() - first_ns_) / static_cast<double>(now - first_ticks_);
    }
    return to_ns(total_ticks_);
  }

 private:
  static constexpr uint64_t kRecalibrate = 1'000'000;

  Nanos to_ns(uint64_t ticks) const { return static_cast<Nanos>(static_cast<double>(ticks) * ns_per_tick_); }

  Nanos first_ns_;
  uint64_t first_ticks_;
  uint64_t calibrated_ = 0;
  double ns_per_tick_ = 1.0;
  uint64_t began_ = 0;
  uint64_t total_ticks_ = 0;
  bool busy_ = false;
};

}  // namespace simpler::lane
