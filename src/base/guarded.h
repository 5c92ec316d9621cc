// Guarded<T>: a value together with the one lock that protects it.
//
//   Guarded<std::map<RunId, Outcome>> results;
//   results.lock()->emplace(run, outcome);                 // the lock lasts as long as the returned handle
//   results.update([&](auto& map) { map.erase(run); });    // wakes everyone in wait_until afterwards
//   bool found = results.wait_until(deadline, [&](const auto& map) { return map.contains(run); });
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "base/clock.h"

namespace simpler {

template <class T>
class Guarded {
 public:
  class [[nodiscard]] Handle {
   public:
    T* operator->() const { return value_; }
    T& operator*() const { return *value_; }
    explicit operator bool() const { return lock_.owns_lock(); }  // false only after a failed try_lock

   private:
    friend class Guarded;
    Handle(std::unique_lock<std::mutex> lock, T* value) : lock_(std::move(lock)), value_(value) {}
    std::unique_lock<std::mutex> lock_;
    T* value_;
  };

  template <class... Args>
  explicit Guarded(Args&&... args) : value_(std::forward<Args>(args)...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  Handle lock() { return Handle(std::unique_lock(mutex_), &value_); }
  Handle try_lock() { return Handle(std::unique_lock(mutex_, std::try_to_lock), &value_); }

  // Runs `change` on the value under the lock and wakes those who wait for a condition on it.
  template <class Change>
  decltype(auto) update(Change&& change) {
    struct Notify {
      std::condition_variable& changed;
      ~Notify() { changed.notify_all(); }
    } notify{changed_};
    std::lock_guard<std::mutex> held(mutex_);
    return std::forward<Change>(change)(value_);
  }

  // True once `condition(value)` holds, false if it still did not at the deadline. Only `update` wakes this.
  template <class Condition>
  bool wait_until(Deadline deadline, Condition&& condition) {
    std::unique_lock held(mutex_);
    const auto holds = [&] { return static_cast<bool>(condition(std::as_const(value_))); };
    if (deadline.is_never()) {
      changed_.wait(held, holds);
      return true;
    }
    return changed_.wait_until(held, deadline.time_point(), holds);
  }

  // The value without the lock: for the child's side of a fork and for single-threaded tear-down.
  T& unguarded() { return value_; }

  // For a fork point: the forking thread holds the lock over the fork and the child starts with a fresh one.
  std::mutex& mutex() { return mutex_; }
  void reset_after_fork() {
    std::construct_at(&mutex_);
    std::construct_at(&changed_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  T value_;
};

}  // namespace simpler
