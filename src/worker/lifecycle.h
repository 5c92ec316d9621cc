// The states of one worker and the leases of the calls that need it ready.
//
// NEW -> INITIALIZING -> READY | FAILED, and each of them -> CLOSED, which is final. A call on the live tree holds a
// lease; close() waits until none is left. One lock guards all of it; nothing is called under it.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "simpler/status.h"
#include "simpler/worker.h"

namespace simpler::worker {

class Lifecycle {
 public:
  // Held by one public call on the live tree. Counted per thread, so that a call made inside another one nests.
  class Lease {
   public:
    Lease() = default;
    explicit Lease(Lifecycle* owner) : owner_(owner) {}
    Lease(Lease&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    bool held() const { return owner_ != nullptr; }

   private:
    Lifecycle* owner_ = nullptr;
  };

  // Held by one close() from its begin to its end, so that a close inside of it can be told apart.
  class Closing {
   public:
    explicit Closing(Lifecycle* owner) : owner_(owner) {}
    Closing(Closing&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Closing& operator=(Closing&&) = delete;
    ~Closing();

   private:
    Lifecycle* owner_;
  };

  WorkerState state() const;
  // NEW -> INITIALIZING; kFailedPrecondition in any other state.
  Status begin_init();
  // INITIALIZING -> READY, or kCancelled when a close() came in between.
  Status commit_ready();
  // INITIALIZING -> FAILED with the cause that later calls repeat.
  void fail_init(const Status& cause);
  bool init_cancelled() const;

  // kFailedPrecondition unless READY; the text carries the cause of a failed start.
  Result<Lease> lease(const char* call);
  // As lease(), but NEW is good too and gives an empty lease. Waits while another thread runs init(), which has a
  // deadline of its own.
  Result<Lease> lease_or_new(const char* call);
  // Publishes CLOSED. kReentrant when the calling thread holds a lease, runs init() or is inside another close. Waits
  // for a running init() to give up and for the leases of other threads, both until `deadline`.
  Result<Closing> begin_close(Deadline deadline);
  // Some call of another thread holds a lease.
  bool leased() const;

 private:
  void release(std::thread::id thread);
  void end_closing(std::thread::id thread);
  Status not_ready(const char* call) const SIMPLER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  WorkerState state_ SIMPLER_GUARDED_BY(mutex_) = WorkerState::kNew;
  bool initializing_ SIMPLER_GUARDED_BY(mutex_) = false;
  Status cause_ SIMPLER_GUARDED_BY(mutex_);
  std::thread::id init_thread_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::thread::id> leases_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::thread::id> closers_ SIMPLER_GUARDED_BY(mutex_);
};

}  // namespace simpler::worker
