// The far side of a yardstick: forked processes that sleep between batches, and the plain system calls they need.
//
// A peer runs `body(kind, count)` for every batch that `start` announces and sleeps on a futex otherwise, so that arms
// which are not being timed use no processor. It dies with the process that made it.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <linux/futex.h>
#include <new>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace simpler::bench {

inline void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield");
#endif
}

inline void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, expected, nullptr, nullptr, 0);
}
inline void futex_wake(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

// pid 0: the calling thread.
inline void pin_to_cpu(int cpu, pid_t pid = 0) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  ::sched_setaffinity(pid, sizeof(set), &set);
}
inline void unpin(pid_t pid = 0) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const long cpus = ::sysconf(_SC_NPROCESSORS_CONF);
  for (long cpu = 0; cpu < cpus; ++cpu) CPU_SET(static_cast<size_t>(cpu), &set);
  ::sched_setaffinity(pid, sizeof(set), &set);
}

// Pins the calling thread for a scope.
class Pinned {
 public:
  explicit Pinned(int cpu) { pin_to_cpu(cpu); }
  ~Pinned() { unpin(); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

// One zeroed object in memory shared with every process forked later.
template <class T>
class Shared {
 public:
  Shared() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    object_ = ::new (memory) T{};
  }
  ~Shared() { ::munmap(object_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }

 private:
  T* object_;
};

class Peer {
 public:
  using Body = std::function<void(uint32_t kind, uint32_t count)>;

  // cpu < 0 leaves the peer unpinned.
  Peer(int cpu, const Body& body) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) serve(parent, cpu, body);
  }
  ~Peer() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Returns once the peer is inside its body.
  void start(uint32_t kind, uint32_t count) {
    control_->kind = kind;
    control_->count = count;
    control_->order.fetch_add(1, std::memory_order_release);
    futex_wake(control_->order);
    const uint32_t wanted = control_->order.load(std::memory_order_relaxed);
    for (uint32_t spins = 0; control_->entered.load(std::memory_order_acquire) != wanted; ++spins) {
      if (spins > 100) ::sched_yield();
    }
  }
  // Returns once the body has returned.
  void join() const {
    const uint32_t wanted = control_->order.load(std::memory_order_relaxed);
    while (control_->left.load(std::memory_order_acquire) != wanted) ::sched_yield();
  }
  pid_t pid() const { return pid_; }

 private:
  struct Control {
    std::atomic<uint32_t> order;
    uint32_t kind;
    uint32_t count;
    alignas(128) std::atomic<uint32_t> entered;
    std::atomic<uint32_t> left;
  };

  [[noreturn]] void serve(pid_t parent, int cpu, const Body& body) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    if (cpu >= 0) pin_to_cpu(cpu);
    for (uint32_t done = 0;;) {
      while (control_->order.load(std::memory_order_acquire) == done) futex_wait(control_->order, done);
      ++done;
      control_->entered.store(done, std::memory_order_release);
      body(control_->kind, control_->count);
      control_->left.store(done, std::memory_order_release);
    }
  }

  Shared<Control> control_;
  pid_t pid_ = -1;
};

}  // namespace simpler::bench
