// What a RunHandle points to. One body per level; both keep the outcome after the worker is closed.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/clock.h"
#include "simpler/run.h"
#include "simpler/status.h"

namespace simpler {

struct RunHandle::State {
  virtual ~State() = default;

  virtual std::uint64_t id() const = 0;
  virtual bool done() = 0;
  // The outcome, or kTimeout.
  virtual Status wait(Deadline deadline) = 0;
  virtual std::vector<Status> errors() = 0;
  virtual void cancel(Status why) = 0;
  // Called once when the run is over, from a thread of the worker's; at once when it already is.
  virtual void on_done(std::function<void()> callback) = 0;
};

}  // namespace simpler
