// Ends a set of children within one budget, whatever they do.
//
// The caller has already asked them to leave in its own way. Then all are waited for together; those still there are
// sent SIGTERM, then SIGKILL, each time all at once, so the time does not grow with the number of wedged children.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "process/child_process.h"

namespace simpler::process {

struct ReapOptions {
  // Shares of the budget, in percent: until when a child may leave by itself, and until when after SIGTERM. The rest is
  // for those that had to be killed. Zero skips the step: {0, 0} kills at once.
  int leave_percent = 60;
  int terminate_percent = 20;
};

struct ReapReport {
  struct Ended {
    Child child;
    ExitInfo info;
    bool terminated = false;  // SIGTERM was sent
    bool killed = false;      // SIGKILL was sent
  };
  std::vector<Ended> ended;
  std::vector<Child> survivors;  // not even SIGKILL ended them in time; a later call may try again

  // Success, or kTimeout naming the survivors.
  Status status() const;
};

// A deadline that has passed, or is closer than 100 ms, leaves 100 ms after SIGKILL; no deadline means 5 s.
ReapReport reap(std::span<const Child> children, Deadline deadline, const ReapOptions& options = {});

}  // namespace simpler::process
