// WakePolicy: what one process has learnt about waiting on this machine, and what follows for its next wait.
//
// Threads spin only while our runnable threads fit on the CPUs that we may use. Every yield is timed:
// - One as long as a time slice means that a computing process got the CPU. It bans spinning and yielding for a while,
//   longer each time that it happens again. An interruption is shorter than that and bans nothing. Once in a while a
//   bad yield is forgiven when a CPU is free: then it was probably one of ours that ran, and somebody will move.
// - Yields in a row that each ran somebody else mean that this thread shares its CPU, probably with the one it waits
//   for. It does not spin then, and a thread that may (`move_after`) goes to another CPU once it has lost enough, if it
//   is likely to be alone there.
// - Where no CPU is free such a thread goes by where its poster runs (PosterPlace).
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/free_cpu.h"
#include "base/growing_pause.h"
#include "base/membarrier.h"
#include "base/poster_place.h"

namespace simpler {

namespace internal {

inline void relax_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace internal

struct WakeOptions {
  uint32_t cpus = 0;              // 0: what affinity and the cgroup quota allow
  uint32_t online_cpus = 0;       // of the whole machine; 0: as it is
  uint32_t runnable_threads = 2;  // threads of ours, in all processes of the tree, that may want a CPU at once
  Nanos spin = 1 * kMicrosecond;
  Nanos yield = 50 * kMicrosecond;
  Nanos yield_for_move = 250 * kMicrosecond;  // more for one that shares its CPU while another is free
  Nanos bad_yield = 600 * kMicrosecond;       // a time slice is 0.75 ms or more, a building parent often less
  Nanos first_ban = 10 * kMillisecond;
  Nanos longest_ban = 250 * kMillisecond;
  Nanos switch_time = 1 * kMicrosecond;  // a yield from here on ran somebody else; more where system calls are slow
  // Time lost in a row to others on this CPU before a waiting thread moves to another; 0: never, and then it does not
  // go by where its poster runs either. For threads of our own only, and for policies that one thread waits with.
  Nanos move_after = 0;
  Nanos little_work = 25 * kMicrosecond;          // between two far wake-ups of a thread that had better be there
  Nanos first_pause = 1 * kMillisecond;           // between two moves, or two questions for room; then doubled
  bool use_membarrier = true;                     // false: poster-fence mode, as if the kernel had refused
  bool (*barrier)() = membarrier_all_registered;  // tests look at the moment in which a sleeper is inside
  CpuRoom (*cpu_room)() = simpler::cpu_room;
  bool (*leave_cpu)() = leave_this_cpu;
  bool (*join_cpu)(int cpu) = join_that_cpu;
  int (*current_cpu)() = simpler::current_cpu;
  bool posters_fence = false;  // for words that are slept on more often than posted: they stay settled

  // For the one thread of a child of ours that waits for its parent.
  static WakeOptions of_a_child(uint32_t runnable_threads) {
    return {.runnable_threads = runnable_threads, .move_after = 50 * kMicrosecond};
  }
};

// One object per process, shared by its threads; make a new one after a fork.
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

  // Looks before the first yield: about options.spin on this machine, 0 when spinning is not allowed now.
  uint32_t spin_budget() const { return may_spin() && !shares_cpu() && !banned_hint() ? spin_looks_ : 0; }
  // Between two of these looks. A look takes the line from the poster's cache; one in the middle of a post delays it.
  void pause_between_looks() const {
    for (uint32_t left = pauses_of_a_look_; left > 0; --left) internal::relax_cpu();
  }

  bool banned(Nanos now) const { return ban_.holds(now); }
  // Whether sleepers leave the fence to the posters now: those that sleep often, or did a moment ago.
  bool prefers_poster_fence() const;
  // Tells how long one yield took; true when it was a good one. May move the calling thread.
  bool note_yield(Nanos now, Nanos took);
  Nanos yield_budget() const { return too_many_take_turns() ? 0 : options_.yield; }
  // Whether a wait begins with yields now.
  bool may_yield(Nanos now) const { return !banned(now) && !place_.sleeps_at_once(now); }
  bool ran_somebody(Nanos took) const { return took >= switch_time_; }
  // After that many yields in a row of one wait that ran somebody else and found nothing: whether to sleep instead, to
  // learn where the poster runs.
  bool decides_to_sleep(uint32_t turns, Nanos now);
  // A wait goes on after its first looks: nothing is to be done. May move the calling thread.
  void note_idle();
  // Woken from sleep by a poster on that CPU; less than 0 where it is not known.
  void note_wake(int poster_cpu);
  // This thread's answer woke the one that it waits for.
  void note_woke_poster() { place_.note_woke_poster(); }
  // What a wait that began beside somebody adds to its yields before it sleeps: while a CPU is free the one waited for
  // may be on its way there.
  Nanos patience(Nanos now);
  // Whether the last yields ran somebody else; one may be an interruption.
  bool shares_cpu() const { return switches_.load(std::memory_order_relaxed) >= 2; }

 private:
  // Yields on one CPU go round all that yield. Beyond three of us that costs more than to sleep and be woken there;
  // with more CPUs it does not, because to wake another one costs more than a round.
  bool too_many_take_turns() const { return cpus_ == 1 && runnable_threads_.load(std::memory_order_relaxed) > 3; }
  bool banned_hint() const { return ban_.known() && banned(monotonic_now()); }
  CpuRoom room() const;
  bool forgiven(Nanos now);
  void note_neighbour(Nanos now, Nanos took);
  void forget_neighbour();

  WakeOptions options_;
  uint32_t cpus_;
  uint32_t online_cpus_;
  uint32_t pauses_of_a_look_;
  uint32_t spin_looks_;
  Nanos switch_time_;
  bool has_membarrier_;
  // Advice shared by the threads of this process; order nothing.
  std::atomic<uint32_t> runnable_threads_;
  std::atomic<uint32_t> switches_{0};  // yields in a row that ran somebody else
  std::atomic<Nanos> lost_{0};         // what they took
  GrowingPause ban_;
  GrowingPause mercy_;  // between two bad yields that are forgiven
  GrowingPause moves_;  // between two tries to move
  GrowingPause hurry_;  // in which nobody is waited for any longer
  PosterPlace place_;
};

}  // namespace simpler
