// The lock of the engine: notes for its holder, and the hand-over to a taker that has to wait.
#include "engine/engine_lock.h"

#include "base/membarrier.h"

namespace simpler::engine {

EngineLock::EngineLock(WakePolicy& policy)
    : policy_(policy), leaver_fences_(!policy.has_membarrier() || !register_own_membarrier()) {}

// A note that is there already has a holder who will see it, or somebody who is about to try the lock below.
bool EngineLock::leave_note(uint32_t note) {
  if ((notes_.fetch_or(note, std::memory_order_seq_cst) & note) != 0) return try_lock();
  if (!leaver_fences_ && !membarrier_own_threads()) {  // refused after it was granted once
    lock();
    return true;
  }
  uint32_t free = 0;
  return held_.compare_exchange_strong(free, 1, std::memory_order_seq_cst);
}

bool EngineLock::take_grant() {
  uint32_t one = 1;
  return grants_.compare_exchange_strong(one, 0, std::memory_order_acquire, std::memory_order_relaxed);
}

void EngineLock::lock_slowly() {
  waiters_.fetch_add(1, std::memory_order_relaxed);
  wait(contended_, policy_, Deadline::never(), [this] { return take_grant() || try_lock(); });
  waiters_.fetch_sub(1, std::memory_order_relaxed);
}

uint32_t EngineLock::unlock_slowly() {
  while (true) {
    const uint32_t notes = notes_.exchange(0, std::memory_order_acq_rel);
    if (notes != 0) return notes;
    if (waiters_.load(std::memory_order_relaxed) != 0) {
      grants_.store(1, std::memory_order_release);
      wake(contended_);
      return 0;
    }
    held_.exchange(0, std::memory_order_seq_cst);
    wake(contended_);
    if (notes_.load(std::memory_order_seq_cst) == 0 || !try_lock()) return 0;
  }
}

}  // namespace simpler::engine
