// CPU time that a child spends inside kernels and user callables, published in its mailbox.
//
// Measuring costs two system calls a task, so it is on only where the worker was asked for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>

#include "wire/mailbox.h"

namespace simpler::worker {

inline std::uint64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// Where the figure lies: the first reserved word of the child's statistics. Written by the child only.
inline std::atomic_ref<std::uint64_t> user_cpu_word(wire::ChildStatistics& statistics) {
  return std::atomic_ref(statistics.reserved[0]);
}

class UserTime {
 public:
  UserTime(wire::ChildStatistics& statistics, bool enabled) : statistics_(&statistics), enabled_(enabled) {}

  template <class F>
  auto measure(F&& f) {
    if (!enabled_) [[likely]] {
      return f();
    }
    struct Stop {
      UserTime& self;
      std::uint64_t start = thread_cpu_ns();
      ~Stop() { self.add(thread_cpu_ns() - start); }
    } stop{*this};
    return f();
  }
  void add(std::uint64_t ns) {
    auto word = user_cpu_word(*statistics_);
    word.store(word.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
  }
  void set(std::uint64_t ns) { user_cpu_word(*statistics_).store(ns, std::memory_order_relaxed); }

 private:
  wire::ChildStatistics* statistics_;
  bool enabled_;
};

}  // namespace simpler::worker
