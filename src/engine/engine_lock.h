// The lock of the engine together with the notes for its holder.
//
// A taker that has to wait is handed the lock by the leaver, so that a builder that comes back every few nanoseconds
// cannot starve it. To leave costs a plain store and a look at the notes; whoever leaves a note makes every thread of
// the process pass a memory barrier instead, and then tries the lock once more: either the leaver's look has seen the
// note, or the lock is seen free. Where the kernel refuses that barrier the leaver fences. Exclusion rests on neither.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/thread_annotations.h"
#include "base/wake_word.h"

namespace simpler::engine {

class SIMPLER_CAPABILITY("engine") EngineLock {
 public:
  enum Note : uint32_t {
    kPump = 1,  // somebody wanted to drive
    kLost = 2,  // a lane is lost: see the driver's list
  };

  explicit EngineLock(WakePolicy& policy);

  bool try_lock() SIMPLER_TRY_ACQUIRE(true) {
    uint32_t free = 0;
    return held_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  // Takes the lock, waiting for the holder if need be. Holds are bounded, so this is short.
  void lock() SIMPLER_ACQUIRE() {
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }
  // Takes the lock, or leaves `note` for a holder, who sees it before it is out. True: taken.
  bool lock_or_leave(uint32_t note) SIMPLER_TRY_ACQUIRE(true) { return try_lock() || leave_note(note); }
  // Leaves and returns 0 when there is no note; otherwise keeps the lock, clears the notes and returns them.
  uint32_t unlock_or_notes() SIMPLER_NO_THREAD_SAFETY_ANALYSIS {
    if ((waiters_.load(std::memory_order_relaxed) | notes_.load(std::memory_order_relaxed)) == 0 && !leaver_fences_)
        [[likely]] {
      held_.store(0, std::memory_order_release);
      // A waiter that counted itself just now polls before it sleeps, and its announcement orders it after this store.
      wake(contended_);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the store before this look
      if (notes_.load(std::memory_order_relaxed) == 0) [[likely]]
        return 0;
      if (!try_lock()) return 0;  // whoever has it now sees the note
    }
    return unlock_slowly();
  }

 private:
  void lock_slowly();
  bool leave_note(uint32_t note) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  uint32_t unlock_slowly() SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  bool take_grant();

  // The acquire of a taker pairs with the release of the leaver; a note's release pairs with the acquire of its taker.
  std::atomic<uint32_t> held_{0};
  std::atomic<uint32_t> notes_{0};
  std::atomic<uint32_t> waiters_{0};  // advice: threads inside lock_slowly
  std::atomic<uint32_t> grants_{0};   // 1: the held lock belongs to whoever takes this; paired like held_
  WakeWord contended_;
  WakePolicy& policy_;
  const bool leaver_fences_;
};

}  // namespace simpler::engine
