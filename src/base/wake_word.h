// WakeWord: how a thread waits for something that another thread, or another process, will publish.
//
// A wait has three phases: spin about a microsecond, yield for some tens of microseconds, sleep on a shared futex.
// How long each phase lasts and when it is left out is the WakePolicy's business.
//
// The poster pays one relaxed load. That is safe because the sleeper, after announcing itself in the word, makes every
// running thread of every registered process pass a memory barrier (membarrier) and only then looks again: either the
// poster's data is visible to that look, or the announcement is visible to the poster's load. A sleeper that will sleep
// often, because of a ban or by its nature, marks the word instead: posters then pay a fence, and one barrier after the
// mark was set is enough for all sleepers until it is taken away. Where the kernel refuses membarrier, the mark alone
// has to do.
//
// Linux may leave out a processor from that barrier although it runs a thread of a registered process: one on which the
// process had run before it registered and nobody else has since (observed on 6.18; src/base/README.md). So every
// sleeper looks a second time 20 ms after its announcement: what was missed is late, never lost. Once a mark has stood
// that long no post of before it can still be under way; the word is proven then, and its sleepers look once.
//
// A WakeWord lives in private memory or in a shared mapping; all bytes zero is a valid word.
// A process that calls wait() or wake() holds a WakePolicy (or called register_membarrier) before it does.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/wake_policy.h"

namespace simpler {

// Low bits are flags, the rest counts wake-ups. Pairs: the sleeper's announcement (wait) with the poster's load (wake).
struct alignas(128) WakeWord {
  std::atomic<uint32_t> value{0};

  static constexpr uint32_t kSleeper = 1;      // someone announced that it may sleep
  static constexpr uint32_t kPosterFence = 2;  // posters fence before they look
  static constexpr uint32_t kSettled = 4;      // a barrier has passed since that mark was set
  static constexpr uint32_t kProven = 8;       // that mark has stood so long that no earlier post is under way
  static constexpr uint32_t kStep = 16;        // one wake-up, or one removal of the marks

  // A time between the barrier of the last settling, or a later one, and its mark kSettled; only ever raised.
  std::atomic<Nanos> settled_at{0};
  // Where the last poster ran that woke a sleeper, plus one; advice.
  std::atomic<int32_t> poster_cpu{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<Nanos>::is_always_lock_free);
static_assert(sizeof(WakeWord) == 128);

namespace internal {

enum class Nap : uint8_t { kWoken, kAgain, kExpired };  // kAgain: refused, or a signal

// A barrier may have passed by a poster (see above). Its post was under way when the sleeper announced itself, so it is
// visible long before this; the sleeper looks once more then. Longer than the kernel's tick (1 to 10 ms), because on a
// busy CPU a timer that would be the first to expire is programmed at every sleep, and taken back at every wake-up:
// with 2 ms a hop beside a computing process cost twice as much (12 instead of 7 us on one virtual CPU).
constexpr Nanos kSecondLook = 20 * kMillisecond;

uint32_t announce_sleep(WakeWord& word, const WakePolicy& policy);  // returns what to sleep on
// Marks the word as proven if it has been settled for long; true when it is proven. `announced` changes with it.
bool prove_by_age(WakeWord& word, uint32_t& announced);
// Marks it as proven if the announcement stands as it has stood for kSecondLook; returns what to sleep on.
uint32_t prove_by_sleep(WakeWord& word, uint32_t announced);
Nap sleep_on(WakeWord& word, uint32_t announced, Deadline deadline);
bool wake_announced(WakeWord& word);
void unmark(WakeWord& word, const WakePolicy& policy);
bool early_phase_allowed(const WakePolicy& policy);

// The yields of one wait.
class YieldPhase {
 public:
  YieldPhase(WakePolicy& policy, Deadline deadline);
  bool once();  // true: worth another one

 private:
  WakePolicy& policy_;
  const Deadline deadline_;
  const bool beside_;  // it began on a CPU that somebody else uses too
  bool extended_ = false;
  uint32_t turns_ = 0;  // yields in a row that ran somebody else
  Nanos until_;
};

}  // namespace internal

// A wait has ended without a sleep. If the posters still fence for a reason that is gone, they need not any longer.
inline void note_early_end(WakeWord& word, const WakePolicy& policy) {
  if ((word.value.load(std::memory_order_relaxed) & WakeWord::kPosterFence) != 0) [[unlikely]] {
    internal::unmark(word, policy);
  }
}

// The first phase of a wait alone: true as soon as ready() is, false when a microsecond or so has passed.
template <class Ready>
bool wait_spinning(WakeWord& word, WakePolicy& policy, Ready&& ready) {
  if (ready()) return true;
  for (uint32_t left = policy.spin_budget(); left > 0; --left) {
    policy.pause_between_looks();
    if (ready()) {
      note_early_end(word, policy);
      return true;
    }
  }
  return false;
}

// The other phases, for somebody who has just spun.
template <class Ready>
bool wait_longer(WakeWord& word, WakePolicy& policy, Deadline deadline, Ready&& ready) {
  policy.note_idle();
  if (internal::early_phase_allowed(policy)) {
    internal::YieldPhase yields(policy, deadline);
    for (bool again = true; again;) {
      again = yields.once();
      if (ready()) {
        note_early_end(word, policy);
        return true;
      }
    }
  }
  while (true) {
    uint32_t announced = internal::announce_sleep(word, policy);
    if (ready()) return true;
    bool looks_again = !internal::prove_by_age(word, announced);
    const Deadline second_look = looks_again ? Deadline::after(internal::kSecondLook) : Deadline::never();
    looks_again = looks_again && second_look.when() < deadline.when();
    internal::Nap nap = internal::sleep_on(word, announced, looks_again ? second_look : deadline);
    if (nap == internal::Nap::kExpired && looks_again) {
      if (ready()) return true;
      announced = internal::prove_by_sleep(word, announced);  // nothing was missed: this announcement serves for good
      nap = internal::sleep_on(word, announced, deadline);
    }
    if (nap == internal::Nap::kWoken) policy.note_wake(word.poster_cpu.load(std::memory_order_relaxed) - 1);
    if (ready()) return true;
    if (deadline.expired()) return false;
  }
}

// Waits until ready() is true; false when the deadline came first. ready() reads what posters publish (with acquire)
// and has no effects: it is called any number of times. A signal handler that runs in this thread causes one more look.
template <class Ready>
bool wait(WakeWord& word, WakePolicy& policy, Deadline deadline, Ready&& ready) {
  return wait_spinning(word, policy, ready) || wait_longer(word, policy, deadline, ready);
}

// Wakes whoever announced itself on the word; true if somebody had. The caller has already published, by a store that
// ready() reads.
inline bool wake(WakeWord& word) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the published store before this load
  if ((word.value.load(std::memory_order_relaxed) & (WakeWord::kSleeper | WakeWord::kPosterFence)) != 0) [[unlikely]] {
    return internal::wake_announced(word);
  }
  return false;
}

}  // namespace simpler
