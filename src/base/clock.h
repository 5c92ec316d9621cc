// Time as a value: nanoseconds of the monotonic clock, a clock that tests can turn by hand, and deadlines.
//
// Code that decides by time takes a Clock or a Nanos argument; only waits read the real clock themselves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>

namespace simpler {

using Nanos = int64_t;

inline constexpr Nanos kMicrosecond = 1'000;
inline constexpr Nanos kMillisecond = 1'000'000;
inline constexpr Nanos kSecond = 1'000'000'000;

// CLOCK_MONOTONIC, the clock of every futex and condition wait in simpler; comparable between processes of one host.
Nanos monotonic_now();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Nanos now() const override { return monotonic_now(); }
};

// Stands still until told otherwise. Safe to read from any thread.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Nanos start = 0) : now_(start) {}
  Nanos now() const override { return now_.load(std::memory_order_relaxed); }
  void advance(Nanos by) { now_.fetch_add(by, std::memory_order_relaxed); }

 private:
  std::atomic<Nanos> now_;  // a lone number; orders nothing else
};

// A point in time by which something must have happened. One deadline is passed down through every step of an
// operation, so that the steps share one budget.
class Deadline {
 public:
  static constexpr Deadline never() { return Deadline(kNever); }
  static constexpr Deadline at(Nanos when) { return Deadline(when); }
  static Deadline after(Nanos span) { return after(span, monotonic_now()); }
  static constexpr Deadline after(Nanos span, Nanos now) {
    if (span > 0 && now > kNever - span) return never();
    return Deadline(now + span);
  }
  static constexpr Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

  constexpr bool is_never() const { return when_ == kNever; }
  constexpr Nanos when() const { return when_; }
  constexpr bool expired(Nanos now) const { return now >= when_ && !is_never(); }
  bool expired() const { return !is_never() && expired(monotonic_now()); }
  // Never negative; the largest value when there is no deadline.
  constexpr Nanos remaining(Nanos now) const {
    if (is_never()) return kNever;
    return when_ > now ? when_ - now : 0;
  }
  Nanos remaining() const { return is_never() ? kNever : remaining(monotonic_now()); }
  // For poll(2): milliseconds rounded up, -1 without a deadline.
  int remaining_poll_ms() const;

  std::chrono::steady_clock::time_point time_point() const {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when_));
  }

 private:
  static constexpr Nanos kNever = std::numeric_limits<Nanos>::max();
  explicit constexpr Deadline(Nanos when) : when_(when) {}
  Nanos when_;
};

}  // namespace simpler
