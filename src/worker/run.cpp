#include "simpler/run.h"

#include <fmt/format.h>

#include "worker/raise.h"
#include "worker/run_state.h"

namespace simpler {
namespace {

RunHandle::State& require(const std::shared_ptr<RunHandle::State>& state) {
  if (state == nullptr) {
    worker::raise(failed_precondition("this RunHandle names no run; use what submit returned"));
  }
  return *state;
}

Deadline deadline_of(std::optional<std::chrono::nanoseconds> timeout) {
  if (!timeout) {
    return Deadline::never();
  }
  if (timeout->count() < 0) {
    worker::raise(invalid_argument(fmt::format("wait: timeout of {} ns is negative", timeout->count())));
  }
  return Deadline::after(timeout->count());
}

}  // namespace

bool RunHandle::done() const {
  return require(state_).done();
}

void RunHandle::wait(std::optional<std::chrono::nanoseconds> timeout) const {
  worker::raise_if_error(outcome(timeout));
}

Status RunHandle::outcome(std::optional<std::chrono::nanoseconds> timeout) const {
  State& state = require(state_);
  return state.wait(deadline_of(timeout));
}

std::vector<Status> RunHandle::errors() const {
  return require(state_).errors();
}

void RunHandle::cancel() const {
  require(state_).cancel(cancelled("the run was cancelled"));
}

std::uint64_t RunHandle::id() const {
  return require(state_).id();
}

}  // namespace simpler
