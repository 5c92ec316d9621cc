// The lock of the engine: notes for its holder, and the hand-over to a taker that has to wait.
#include "engine/driver.h"

namespace simpler::engine {

bool EngineLock::lock_or_leave(uint32_t note) {
  uint32_t seen = word_.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t wanted = seen == 0 ? uint32_t{kHeld} : seen | note;
    if (word_.compare_exchange_weak(seen, wanted, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      return seen == 0;
    }
  }
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
    const uint32_t seen = word_.load(std::memory_order_relaxed);
    if ((seen & ~kHeld) != 0) return word_.exchange(kHeld, std::memory_order_acq_rel) & ~kHeld;
    if (waiters_.load(std::memory_order_relaxed) != 0) {
      grants_.store(1, std::memory_order_release);
      wake(contended_);
      return 0;
    }
    uint32_t held = kHeld;
    if (word_.compare_exchange_strong(held, 0, std::memory_order_acq_rel, std::memory_order_relaxed)) {
      wake(contended_);
      return 0;
    }
  }
}

}  // namespace simpler::engine
