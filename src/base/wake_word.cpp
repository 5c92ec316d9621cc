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
#include "base/cpu_count.h"
#include "base/membarrier.h"

namespace simpler {
namespace {

// In poster-fence mode a poster that was already past its look when the mark was set has not fenced. Such a post can
// only happen around the first sleep on a word; bounding every sleep of this mode makes it late instead of lost.
constexpr Nanos kLongestUnfencedNap = 20 * kMillisecond;

uint32_t polls_for(Nanos span) {
  constexpr uint32_t kSample = 256;
  Nanos best = kSecond;
  for (int round = 0; round < 3; ++round) {
    const Nanos started = monotonic_now();
    for (uint32_t i = 0; i < kSample; ++i) internal::relax_cpu();
    best = std::min(best, monotonic_now() - started);
  }
  const Nanos polls = span * kSample / std::max<Nanos>(best, 1);
  return static_cast<uint32_t>(std::clamp<Nanos>(polls, 1, 10'000));
}

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

WakePolicy::WakePolicy(const WakeOptions& options)
    : options_(options),
      cpus_(options.cpus != 0 ? options.cpus : usable_cpus()),
      spin_polls_(polls_for(options.spin)),
      has_membarrier_(register_membarrier() && options.use_membarrier && membarrier_all_registered()),
      runnable_threads_(options.runnable_threads),
      next_ban_(options.first_ban) {}

bool WakePolicy::note_yield(Nanos now, Nanos took) {
  if (took <= options_.bad_yield) {
    if (ban_until_.load(std::memory_order_relaxed) != 0) {
      ban_until_.store(0, std::memory_order_relaxed);
      next_ban_.store(options_.first_ban, std::memory_order_relaxed);
    }
    return true;
  }
  const Nanos length = next_ban_.load(std::memory_order_relaxed);
  ban_until_.store(now + length, std::memory_order_relaxed);
  next_ban_.store(std::min(length * 2, options_.longest_ban), std::memory_order_relaxed);
  return false;
}

namespace internal {

bool early_phase_allowed(const WakePolicy& policy) {
  return policy.yield_budget() > 0 && !policy.banned(monotonic_now());
}

bool yield_once(WakePolicy& policy, Nanos started, Deadline deadline) {
  const Nanos before = monotonic_now();
  ::sched_yield();
  const Nanos after = monotonic_now();
  return policy.note_yield(after, after - before) && after - started < policy.yield_budget() &&
         !deadline.expired(after);
}

uint32_t announce_sleep(WakeWord& word, const WakePolicy& policy) {
  if (policy.has_membarrier()) {
    const uint32_t seen = word.value.fetch_or(WakeWord::kSleeper, std::memory_order_seq_cst);
    if (membarrier_all_registered()) return seen | WakeWord::kSleeper;
  }
  constexpr uint32_t kFlags = WakeWord::kSleeper | WakeWord::kPosterFence;
  const uint32_t seen = word.value.fetch_or(kFlags, std::memory_order_seq_cst);
  full_fence();
  return seen | kFlags;
}

Nap sleep_on(WakeWord& word, uint32_t announced, Deadline deadline) {
  Deadline until = deadline;
  if ((announced & WakeWord::kPosterFence) != 0) until = Deadline::earlier(until, Deadline::after(kLongestUnfencedNap));
  timespec when{};
  if (!until.is_never()) {
    const Nanos at = std::max<Nanos>(until.when(), 0);
    when.tv_sec = at / kSecond;
    when.tv_nsec = at % kSecond;
  }
  const long result = ::syscall(SYS_futex, futex_address(word), FUTEX_WAIT_BITSET, announced,
                                until.is_never() ? nullptr : &when, nullptr, FUTEX_BITSET_MATCH_ANY);
  if (result != 0) SIMPLER_CHECK(errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT, errno);
  return deadline.expired() ? Nap::kExpired : Nap::kAgain;
}

void wake_announced(WakeWord& word) {
  uint32_t seen = word.value.load(std::memory_order_relaxed);
  if ((seen & WakeWord::kPosterFence) != 0) {
    full_fence();
    seen = word.value.load(std::memory_order_relaxed);
  }
  while ((seen & WakeWord::kSleeper) != 0) {
    const uint32_t next = (seen + WakeWord::kStep) & ~WakeWord::kSleeper;
    if (word.value.compare_exchange_weak(seen, next, std::memory_order_seq_cst, std::memory_order_relaxed)) {
      ::syscall(SYS_futex, futex_address(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
      return;
    }
  }
}

}  // namespace internal
}  // namespace simpler
