// A pause that is twice as long when the last one ended only just before.
//
// May be shared by threads; advice, so a lost update costs one more probe.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/clock.h"

namespace simpler {

class GrowingPause {
 public:
  GrowingPause(Nanos first, Nanos longest) : first_(first), longest_(longest) {}

  bool known() const { return until_.load(std::memory_order_relaxed) != 0; }
  bool holds(Nanos now) const { return now < until_.load(std::memory_order_relaxed); }
  Nanos began() const { return until_.load(std::memory_order_relaxed) - length_.load(std::memory_order_relaxed); }
  // Whether it holds, or ended less than its own length ago.
  bool recent(Nanos now) const {
    return known() && now < until_.load(std::memory_order_relaxed) + length_.load(std::memory_order_relaxed);
  }
  void begin(Nanos now) {
    const Nanos length = recent(now) ? std::min(length_.load(std::memory_order_relaxed) * 2, longest_) : first_;
    length_.store(length, std::memory_order_relaxed);
    until_.store(now + length, std::memory_order_relaxed);
  }
  void forget() { until_.store(0, std::memory_order_relaxed); }

 private:
  const Nanos first_;
  const Nanos longest_;
  std::atomic<Nanos> until_{0};  // 0: none that still matters
  std::atomic<Nanos> length_{0};
};

}  // namespace simpler
