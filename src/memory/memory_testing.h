// Helpers of the memory tests: a probe with a set answer, and a forked child whose verdict is its exit status.
#pragma once

#include <functional>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "memory/space.h"

namespace simpler::memory::testing {

class FixedSpace final : public SpaceProbe {
 public:
  explicit FixedSpace(uint64_t available) : available_(available) {}
  Space look() const override { return {available_, "the test's limit", "raise the test's limit"}; }
  void set(uint64_t available) { available_ = available; }

 private:
  uint64_t available_;
};

// Forks; the child runs `body` and exits 0 when it returned true. Returns the wait status.
inline int in_child(const std::function<bool()>& body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

}  // namespace simpler::memory::testing
