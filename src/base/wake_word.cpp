#include "base/wake_word.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/membarrier.h"

namespace simpler {
namespace {

uint32_t* futex_address(WakeWord& word) {
  return reinterpret_cast<uint32_t*>(&word.value);
}

// gcc warns that its thread sanitizer does not model fences; the sanitizer sees the acquire and release pairs of the
// published data itself, which is all it needs here.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wtsan"
#endif
void full_fence() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace

namespace internal {

bool early_phase_allowed(const WakePolicy& policy) {
  return policy.yield_budget() > 0 && policy.may_yield(monotonic_now());
}

YieldPhase::YieldPhase(WakePolicy& policy, Deadline deadline)
    : policy_(policy),
      deadline_(deadline),
      beside_(policy.shares_cpu()),
      until_(monotonic_now() + policy.yield_budget()) {}

bool YieldPhase::once() {
  const Nanos before = monotonic_now();
  ::sched_yield();
  const Nanos after = monotonic_now();
  if (!policy_.note_yield(after, after - before) || deadline_.expired(after)) return false;
  turns_ = policy_.ran_somebody(after - before) ? turns_ + 1 : 0;
  if (policy_.decides_to_sleep(turns_, after)) return false;
  if (after < until_) return true;
  if (!beside_ || extended_) return false;
  extended_ = true;
  until_ = after + policy_.patience(after);
  return after < until_;
}

namespace {

constexpr uint32_t kFenceFlags = WakeWord::kPosterFence | WakeWord::kSettled | WakeWord::kProven;

void raise(std::atomic<Nanos>& time, Nanos to) {
  Nanos seen = time.load(std::memory_order_relaxed);
  while (seen < to && !time.compare_exchange_weak(seen, to, std::memory_order_relaxed)) {
  }
}

// Posters fence from here on. Once a barrier has passed after the mark was set, every poster has either seen the mark
// or published before the barrier; then the word is settled and further sleepers need no barrier.
uint32_t announce_to_fencing_posters(WakeWord& word, const WakePolicy& policy) {
  constexpr uint32_t kFlags = WakeWord::kSleeper | WakeWord::kPosterFence;
  const uint32_t announced = word.value.fetch_or(kFlags, std::memory_order_seq_cst) | kFlags;
  full_fence();
  if ((announced & WakeWord::kSettled) != 0 || !policy.has_membarrier() || !policy.barrier()) return announced;
  raise(word.settled_at, monotonic_now());
  // Only if nothing changed meanwhile: the mark may have been taken away and set again after the barrier. Otherwise the
  // old value goes to the futex, which refuses it, so that a sleeper whose announcement is gone announces itself again.
  uint32_t expected = announced;
  const uint32_t settled = announced | WakeWord::kSettled;
  return word.value.compare_exchange_strong(expected, settled, std::memory_order_seq_cst) ? settled : announced;
}

// Takes the mark away, as a change that a sleeper and whoever settles the word notices.
uint32_t announce_to_plain_posters(WakeWord& word) {
  uint32_t seen = word.value.load(std::memory_order_relaxed);
  uint32_t next;
  do {
    next = seen | WakeWord::kSleeper;
    if ((seen & kFenceFlags) != 0) next = (next & ~kFenceFlags) + WakeWord::kStep;
  } while (!word.value.compare_exchange_weak(seen, next, std::memory_order_seq_cst, std::memory_order_relaxed));
  return next;
}

}  // namespace

uint32_t announce_sleep(WakeWord& word, const WakePolicy& policy) {
  if (policy.has_membarrier() && !policy.prefers_poster_fence()) {
    const uint32_t announced = announce_to_plain_posters(word);
    if (policy.barrier()) return announced;
  }
  return announce_to_fencing_posters(word, policy);
}

uint32_t prove_by_sleep(WakeWord& word, uint32_t announced) {
  if ((announced & (WakeWord::kPosterFence | WakeWord::kProven)) != WakeWord::kPosterFence) return announced;
  // Only as it was announced: then the mark has been there all the time, for every removal adds a step.
  uint32_t expected = announced;
  const uint32_t proven = announced | WakeWord::kProven;
  return word.value.compare_exchange_strong(expected, proven, std::memory_order_seq_cst) ? proven : announced;
}

bool prove_by_age(WakeWord& word, uint32_t& announced) {
  if ((announced & WakeWord::kProven) != 0) return true;
  if ((announced & WakeWord::kSettled) == 0) return false;
  // The announcement has read the mark kSettled, so this is not older than the time that belongs to it.
  const Nanos settled_at = word.settled_at.load(std::memory_order_relaxed);
  if (monotonic_now() - settled_at < kSecondLook) return false;
  announced = prove_by_sleep(word, announced);  // where it no longer stands the futex refuses it
  return true;
}

// A poster that reads the word without the mark reads it as it was after this, with everybody who has announced itself.
void unmark(WakeWord& word, const WakePolicy& policy) {
  if (!policy.has_membarrier() || policy.prefers_poster_fence()) return;
  uint32_t seen = word.value.load(std::memory_order_relaxed);
  while ((seen & WakeWord::kPosterFence) != 0) {
    const uint32_t next = (seen & ~kFenceFlags) + WakeWord::kStep;
    if (word.value.compare_exchange_weak(seen, next, std::memory_order_seq_cst, std::memory_order_relaxed)) return;
  }
}

Nap sleep_on(WakeWord& word, uint32_t announced, Deadline deadline) {
  timespec when{};
  if (!deadline.is_never()) {
    const Nanos at = std::max<Nanos>(deadline.when(), 0);
    when.tv_sec = at / kSecond;
    when.tv_nsec = at % kSecond;
  }
  const long result = ::syscall(SYS_futex, futex_address(word), FUTEX_WAIT_BITSET, announced,
                                deadline.is_never() ? nullptr : &when, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result == 0) return Nap::kWoken;
  SIMPLER_CHECK(errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT, errno);
  return errno == ETIMEDOUT ? Nap::kExpired : Nap::kAgain;
}

bool wake_announced(WakeWord& word) {
  uint32_t seen = word.value.load(std::memory_order_relaxed);
  if ((seen & WakeWord::kPosterFence) != 0) {
    full_fence();
    seen = word.value.load(std::memory_order_relaxed);
  }
  if ((seen & WakeWord::kSleeper) != 0) word.poster_cpu.store(current_cpu() + 1, std::memory_order_relaxed);
  while ((seen & WakeWord::kSleeper) != 0) {
    const uint32_t next = (seen + WakeWord::kStep) & ~WakeWord::kSleeper;
    if (word.value.compare_exchange_weak(seen, next, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      ::syscall(SYS_futex, futex_address(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return true;
    }
  }
  return false;
}

}  // namespace internal
}  // namespace simpler
