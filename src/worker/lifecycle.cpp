#include "worker/lifecycle.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace simpler::worker {
namespace {

const char* name_of(WorkerState state) {
  switch (state) {
    case WorkerState::kNew:
      return "NEW";
    case WorkerState::kInitializing:
      return "INITIALIZING";
    case WorkerState::kReady:
      return "READY";
    case WorkerState::kFailed:
      return "FAILED";
    case WorkerState::kClosed:
      return "CLOSED";
  }
  return "?";
}

bool contains(const std::vector<std::thread::id>& threads, std::thread::id thread) {
  return std::find(threads.begin(), threads.end(), thread) != threads.end();
}

}  // namespace

Lifecycle::Lease& Lifecycle::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Lease old(std::move(*this));
    owner_ = std::exchange(other.owner_, nullptr);
  }
  return *this;
}

Lifecycle::Lease::~Lease() {
  if (owner_ != nullptr) {
    owner_->release(std::this_thread::get_id());
  }
}

WorkerState Lifecycle::state() const {
  MutexLock lock(mutex_);
  return state_;
}

Status Lifecycle::begin_init() {
  MutexLock lock(mutex_);
  if (state_ != WorkerState::kNew) {
    return failed_precondition(
        fmt::format("init: the worker is {}; a worker is initialised once, in state NEW", name_of(state_)));
  }
  state_ = WorkerState::kInitializing;
  initializing_ = true;
  init_thread_ = std::this_thread::get_id();
  return Status::ok();
}

Status Lifecycle::commit_ready() {
  MutexLock lock(mutex_);
  if (state_ != WorkerState::kInitializing) {
    return cancelled("init: the worker was closed while it started");
  }
  state_ = WorkerState::kReady;
  initializing_ = false;
  changed_.notify_all();
  return Status::ok();
}

void Lifecycle::fail_init(const Status& cause) {
  MutexLock lock(mutex_);
  if (state_ == WorkerState::kInitializing) {
    state_ = WorkerState::kFailed;
  }
  cause_ = cause;
  initializing_ = false;
  changed_.notify_all();
}

bool Lifecycle::init_cancelled() const {
  MutexLock lock(mutex_);
  return initializing_ && state_ != WorkerState::kInitializing;
}

Status Lifecycle::not_ready(const char* call) const {
  if (state_ == WorkerState::kFailed) {
    return failed_precondition(
        fmt::format("{} needs an initialised (READY) worker; its start failed: {}", call, cause_.message()));
  }
  const char* advice = state_ == WorkerState::kNew ? "; call init() first" : "";
  return failed_precondition(
      fmt::format("{} needs an initialised (READY) worker; this one is {}{}", call, name_of(state_), advice));
}

Result<Lifecycle::Lease> Lifecycle::lease(const char* call) {
  MutexLock lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  if (state_ != WorkerState::kReady && !contains(leases_, self)) {
    return not_ready(call);
  }
  leases_.push_back(self);
  return Lease(this);
}

Result<Lifecycle::Lease> Lifecycle::lease_or_new(const char* call) {
  {
    MutexLock lock(mutex_);
    if (initializing_ && init_thread_ == std::this_thread::get_id()) {
      return reentrant(fmt::format("{}: called from inside init() of the same worker", call));
    }
    while (initializing_) {
      changed_.wait(mutex_);
    }
    if (state_ == WorkerState::kNew) {
      return Lease();
    }
  }
  return lease(call);
}

bool Lifecycle::leased() const {
  MutexLock lock(mutex_);
  return !leases_.empty();
}

Lifecycle::Closing::~Closing() {
  if (owner_ != nullptr) {
    owner_->end_closing(std::this_thread::get_id());
  }
}

void Lifecycle::end_closing(std::thread::id thread) {
  MutexLock lock(mutex_);
  closers_.erase(std::find(closers_.begin(), closers_.end(), thread));
}

void Lifecycle::release(std::thread::id thread) {
  MutexLock lock(mutex_);
  const auto found = std::find(leases_.begin(), leases_.end(), thread);
  leases_.erase(found);
  changed_.notify_all();
}

Result<Lifecycle::Closing> Lifecycle::begin_close(Deadline deadline) {
  MutexLock lock(mutex_);
  const std::thread::id self = std::this_thread::get_id();
  if (contains(closers_, self)) {
    return reentrant("close: called from inside another close of the same worker, for example a callback of a run");
  }
  if (contains(leases_, self)) {
    return reentrant("close: called from inside another call on the same worker, for example its graph function");
  }
  if (initializing_ && init_thread_ == self) {
    return reentrant("close: called from inside init() of the same worker");
  }
  state_ = WorkerState::kClosed;
  while (initializing_ || !leases_.empty()) {
    if (!changed_.wait_until(mutex_, deadline)) {
      return timed_out(fmt::format("close: {} still running after its time limit; close again to go on",
                                   initializing_ ? "init() is" : "calls on the worker are"));
    }
  }
  closers_.push_back(self);
  return Closing(this);
}

}  // namespace simpler::worker
