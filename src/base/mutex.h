// The project's lock and condition: std::mutex and std::condition_variable with clang's thread-safety attributes and a
// way to survive fork.
//
// `reset_after_fork` is for the child's side of a fork only: the copied lock may name a thread that does not exist
// here, and a copied condition may count waiters that do not exist here.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "base/thread_annotations.h"

namespace simpler {

class SIMPLER_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() SIMPLER_ACQUIRE() { mutex_.lock(); }
  void unlock() SIMPLER_RELEASE() { mutex_.unlock(); }
  bool try_lock() SIMPLER_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  void reset_after_fork() { std::construct_at(&mutex_); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SIMPLER_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SIMPLER_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() SIMPLER_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  // Both may return early; the caller's loop checks its condition.
  void wait(Mutex& mutex) SIMPLER_REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    condition_.wait(held);
    held.release();
  }
  // False once the deadline has passed.
  bool wait_until(Mutex& mutex, Deadline deadline) SIMPLER_REQUIRES(mutex) {
    if (deadline.is_never()) {
      wait(mutex);
      return true;
    }
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(held, deadline.time_point()) == std::cv_status::no_timeout;
    held.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

  void reset_after_fork() { std::construct_at(&condition_); }

 private:
  std::condition_variable condition_;
};

}  // namespace simpler
