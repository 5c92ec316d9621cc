// WakeWord: how a thread waits for something that another thread, or another process, will publish.
//
// A wait has three phases: spin about a microsecond, yield for some tens of microseconds, sleep on a shared futex.
// Spinning happens only while our runnable threads fit on the CPUs that we may use. Every yield is timed; one that took
// as long as a time slice means that a computing process got the CPU, and bans both early phases in this process for a
// while, longer each time that it happens again. An interruption is shorter than that and bans nothing.
//
// The poster pays one relaxed load. That is safe because the sleeper, after announcing itself in the word, makes every
// running thread of every registered process pass a memory barrier (membarrier) and only then looks again: either the
// poster's data is visible to that look, or the announcement is visible to the poster's load. A sleeper that will sleep
// often, because of a ban or by its nature, marks the word instead: posters then pay a fence, and one barrier after the
// mark was set is enough for all sleepers until it is taken away. Where the kernel refuses membarrier, the mark alone
// has to do.
//
// A WakeWord lives in private memory or in a shared mapping; all bytes zero is a valid word.
// A process that calls wait() or wake() holds a WakePolicy (or called register_membarrier) before it does.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/membarrier.h"

namespace simpler {

// Low bits are flags, the rest counts wake-ups. Pairs: the sleeper's announcement (wait) with the poster's load (wake).
struct alignas(128) WakeWord {
  std::atomic<uint32_t> value{0};

  static constexpr uint32_t kSleeper = 1;      // someone announced that it may sleep
  static constexpr uint32_t kPosterFence = 2;  // posters fence before they look
  static constexpr uint32_t kSettled = 4;      // a barrier has passed since that mark was set
  static constexpr uint32_t kStep = 8;         // one wake-up, or one change of the marks
};
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(WakeWord) == 128);

struct WakeOptions {
  uint32_t cpus = 0;              // 0: what affinity and the cgroup quota allow
  uint32_t runnable_threads = 2;  // threads of ours, in all processes of the tree, that may want a CPU at once
  Nanos spin = 1 * kMicrosecond;
  Nanos yield = 50 * kMicrosecond;
  Nanos bad_yield = 250 * kMicrosecond;  // a time slice is milliseconds, an interruption at most some tens of us
  Nanos first_ban = 10 * kMillisecond;
  Nanos longest_ban = 250 * kMillisecond;
  bool use_membarrier = true;                     // false: poster-fence mode, as if the kernel had refused
  bool (*barrier)() = membarrier_all_registered;  // tests look at the moment in which a sleeper is inside
  bool posters_fence = false;  // for words that are slept on more often than posted: they stay settled
};

// What one process knows about waiting. One object per process, shared by its threads; make a new one after a fork.
class WakePolicy {
 public:
  explicit WakePolicy(const WakeOptions& options = {});
  WakePolicy(const WakePolicy&) = delete;
  WakePolicy& operator=(const WakePolicy&) = delete;

  bool has_membarrier() const { return has_membarrier_; }
  bool barrier() const { return options_.barrier(); }
  uint32_t cpus() const { return cpus_; }

  // Called when the tree grows or shrinks; decides whether spinning is allowed.
  void set_runnable_threads(uint32_t threads) { runnable_threads_.store(threads, std::memory_order_relaxed); }
  bool may_spin() const { return runnable_threads_.load(std::memory_order_relaxed) <= cpus_; }

  // Polls before the first yield: about options.spin on this machine, 0 when spinning is not allowed now.
  uint32_t spin_budget() const { return may_spin() && !banned_hint() ? spin_polls_ : 0; }

  bool banned(Nanos now) const {
    const Nanos until = ban_until_.load(std::memory_order_relaxed);
    return until != 0 && now < until;
  }
  // Whether sleepers leave the fence to the posters now.
  bool prefers_poster_fence() const { return options_.posters_fence || banned_hint(); }
  // Tells how long one yield took; true when it was a good one.
  bool note_yield(Nanos now, Nanos took);
  Nanos yield_budget() const { return options_.yield; }

 private:
  bool banned_hint() const { return ban_until_.load(std::memory_order_relaxed) != 0 && banned(monotonic_now()); }

  WakeOptions options_;
  uint32_t cpus_;
  uint32_t spin_polls_;
  bool has_membarrier_;
  // Advice shared by the threads of this process; order nothing, and a lost update costs one more probe.
  std::atomic<uint32_t> runnable_threads_;
  std::atomic<Nanos> ban_until_{0};   // 0: no ban that still matters
  std::atomic<Nanos> ban_length_{0};  // of the last ban
};

namespace internal {

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

enum class Nap : uint8_t { kAgain, kExpired };

uint32_t announce_sleep(WakeWord& word, const WakePolicy& policy);
Nap sleep_on(WakeWord& word, uint32_t announced, Deadline deadline);
void wake_announced(WakeWord& word);
bool yield_once(WakePolicy& policy, Nanos started, Deadline deadline);  // true: worth another yield
bool early_phase_allowed(const WakePolicy& policy);

}  // namespace internal

// Waits until ready() is true; false when the deadline came first. ready() reads what posters publish (with acquire)
// and has no effects: it is called any number of times. A signal handler that runs in this thread causes one more look.
template <class Ready>
bool wait(WakeWord& word, WakePolicy& policy, Deadline deadline, Ready&& ready) {
  if (ready()) return true;
  for (uint32_t left = policy.spin_budget(); left > 0; --left) {
    internal::relax_cpu();
    if (ready()) return true;
  }
  if (internal::early_phase_allowed(policy)) {
    const Nanos started = monotonic_now();
    bool again = true;
    while (again) {
      again = internal::yield_once(policy, started, deadline);
      if (ready()) return true;
    }
  }
  while (true) {
    const uint32_t announced = internal::announce_sleep(word, policy);
    if (ready()) return true;
    if (internal::sleep_on(word, announced, deadline) == internal::Nap::kExpired) return ready();
    if (ready()) return true;
  }
}

// Wakes whoever announced itself on the word. The caller has already published, by a store that ready() reads.
inline void wake(WakeWord& word) {
  std::atomic_signal_fence(std::memory_order_seq_cst);  // the compiler keeps the published store before this load
  if ((word.value.load(std::memory_order_relaxed) & (WakeWord::kSleeper | WakeWord::kPosterFence)) != 0) [[unlikely]] {
    internal::wake_announced(word);
  }
}

}  // namespace simpler
