// What the tests of the process library share: memory that a child can write to, and bounded waits.
#pragma once

#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "base/wake_word.h"

namespace simpler::process {

inline constexpr Nanos kWatchdog = 20 * kSecond;

// A T that parent and children see alike.
template <class T>
class SharedForTest {
 public:
  SharedForTest() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    value_ = new (memory) T();
  }
  ~SharedForTest() { ::munmap(value_, sizeof(T)); }
  SharedForTest(const SharedForTest&) = delete;
  SharedForTest& operator=(const SharedForTest&) = delete;
  T* operator->() const { return value_; }
  T& operator*() const { return *value_; }

 private:
  T* value_;
};

// A flag that one process raises and another waits for.
struct Flag {
  WakeWord word;
  std::atomic<uint32_t> raised{0};  // release in raise, acquire in await

  void raise() {
    raised.store(1, std::memory_order_release);
    wake(word);
  }
  bool await(Nanos patience = kWatchdog) {
    WakePolicy policy;
    return wait(word, policy, Deadline::after(patience), [&] { return raised.load(std::memory_order_acquire) != 0; });
  }
};

// True once the process behind `pidfd` has ended.
inline bool await_end(const UniqueFd& pidfd) {
  pollfd look{pidfd.get(), POLLIN, 0};
  return ::poll(&look, 1, static_cast<int>(kWatchdog / kMillisecond)) == 1;
}

inline UniqueFd open_pidfd_for_test(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

// Collects a child that was made by plain fork; its exit status, or minus its signal.
inline int collect(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace simpler::process
