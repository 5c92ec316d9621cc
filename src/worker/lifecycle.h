// The states of one worker and the leases of the calls that need it ready.
//
// NEW -> INITIALIZING -> READY | FAILED, and each of them -> CLOSED, which is final. A call on the live tree holds a
// lease; close() waits until none is left. One lock guards all of it; nothing is called under it.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
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

   private:
    Lifecycle* owner_ = nullptr;
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
  // Publishes CLOSED. kReentrant when the calling thread holds a lease, kFailedPrecondition from the thread that runs
  // init(). Waits for a running init() to give up and for the leases of other threads, both until `deadline`.
  Status begin_close(Deadline deadline);

 private:
  void release(std::thread::id thread);
  Status not_ready(const char* call) const SIMPLER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  CondVar changed_;
  WorkerState state_ SIMPLER_GUARDED_BY(mutex_) = WorkerState::kNew;
  bool initializing_ SIMPLER_GUARDED_BY(mutex_) = false;
  Status cause_ SIMPLER_GUARDED_BY(mutex_);
  std::thread::id init_thread_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::thread::id> leases_ SIMPLER_GUARDED_BY(mutex_);
};

}  // namespace simpler::worker
