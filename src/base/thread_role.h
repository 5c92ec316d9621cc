// ThreadRole: "only the thread that plays this role may do that", as something clang checks at compile time and the
// program checks at run time.
//
//   ThreadRole builder;
//   void append(Node) SIMPLER_REQUIRES(builder);
//   { RoleScope scope(builder); append(node); }         // one thread at a time; a second one is a broken invariant
#pragma once

#include <atomic>
#include <thread>

#include "base/check.h"
#include "base/thread_annotations.h"

namespace simpler {

class SIMPLER_CAPABILITY("role") ThreadRole {
 public:
  ThreadRole() = default;
  ThreadRole(const ThreadRole&) = delete;
  ThreadRole& operator=(const ThreadRole&) = delete;

  void enter() SIMPLER_ACQUIRE() {
    std::thread::id nobody{};
    SIMPLER_CHECK(holder_.compare_exchange_strong(nobody, std::this_thread::get_id(), std::memory_order_acquire));
  }
  void leave() SIMPLER_RELEASE() {
    assert_held();
    holder_.store(std::thread::id{}, std::memory_order_release);
  }
  // Ends the process unless the calling thread plays the role.
  void assert_held() const SIMPLER_ASSERT_CAPABILITY(this) {
    SIMPLER_CHECK(holder_.load(std::memory_order_relaxed) == std::this_thread::get_id());
  }
  bool held_here() const { return holder_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

 private:
  std::atomic<std::thread::id> holder_{};  // leave's release pairs with the next enter's acquire
};

class SIMPLER_SCOPED_CAPABILITY RoleScope {
 public:
  explicit RoleScope(ThreadRole& role) SIMPLER_ACQUIRE(role) : role_(role) { role_.enter(); }
  ~RoleScope() SIMPLER_RELEASE() { role_.leave(); }
  RoleScope(const RoleScope&) = delete;
  RoleScope& operator=(const RoleScope&) = delete;

 private:
  ThreadRole& role_;
};

}  // namespace simpler
