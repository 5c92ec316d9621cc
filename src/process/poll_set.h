// PollSet: waits until one of several processes has ended or a descriptor is readable. Internal to the process library.
//
// A process without a pidfd cannot be waited for; its presence cuts every wait into slices after which the caller
// looks.
#pragma once

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace simpler::process {

inline constexpr Nanos kLookAgain = 10 * kMillisecond;  // slice where pidfds are refused

class PollSet {
 public:
  // Negative descriptors stand for processes without a pidfd.
  void add(int fd) {
    if (fd >= 0) {
      fds_.push_back({fd, POLLIN, 0});
    } else {
      sliced_ = true;
    }
  }

  // Returns when something is readable, at the deadline, after a slice, or when a signal came; the caller looks anyway.
  void wait(Deadline deadline) {
    if (sliced_) deadline = Deadline::earlier(deadline, Deadline::after(kLookAgain));
    const int result = ::poll(fds_.data(), fds_.size(), deadline.remaining_poll_ms());
    SIMPLER_CHECK(result >= 0 || errno == EINTR || errno == ENOMEM, errno);
  }

 private:
  std::vector<pollfd> fds_;
  bool sliced_ = false;
};

}  // namespace simpler::process
