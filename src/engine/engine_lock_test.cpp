#include "engine/engine_lock.h"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/membarrier.h"

namespace simpler::engine {
namespace {

// Taken and left on purpose in ways that the thread-safety analysis would not let pass.
class UncheckedLock {
 public:
  explicit UncheckedLock(WakePolicy& policy) : lock_(policy) {}
  void lock() SIMPLER_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  bool try_lock() SIMPLER_NO_THREAD_SAFETY_ANALYSIS { return lock_.try_lock(); }
  bool lock_or_leave(uint32_t note) SIMPLER_NO_THREAD_SAFETY_ANALYSIS { return lock_.lock_or_leave(note); }
  uint32_t unlock_or_notes() { return lock_.unlock_or_notes(); }

 private:
  EngineLock lock_;
};

// With the barrier of the kernel, and as if it had refused.
class EngineLockTest : public ::testing::TestWithParam<bool> {
 protected:
  void leave() {
    while (lock_.unlock_or_notes() != 0) {
    }
  }
  WakePolicy policy_{WakeOptions{.runnable_threads = 4, .use_membarrier = GetParam()}};
  UncheckedLock lock_{policy_};
};

TEST_P(EngineLockTest, ANoteKeepsTheLockAndIsToldOnce) {
  lock_.lock();
  EXPECT_FALSE(lock_.lock_or_leave(EngineLock::kPump));
  EXPECT_FALSE(lock_.lock_or_leave(EngineLock::kPump));
  EXPECT_FALSE(lock_.lock_or_leave(EngineLock::kLost));
  EXPECT_EQ(lock_.unlock_or_notes(), EngineLock::kPump | EngineLock::kLost);
  EXPECT_FALSE(lock_.try_lock());
  EXPECT_EQ(lock_.unlock_or_notes(), 0U);
  EXPECT_TRUE(lock_.lock_or_leave(EngineLock::kPump));
  EXPECT_EQ(lock_.unlock_or_notes(), 0U);
}

TEST_P(EngineLockTest, OneAtATimeWhicheverWayItIsTaken) {
  constexpr int kTurns = 20000;
  uint64_t counted = 0;  // guarded by the lock
  std::atomic<uint64_t> taken{0};
  std::atomic<uint64_t> noted{0};
  std::atomic<uint64_t> told{0};
  const auto locker = [&] {
    for (int i = 0; i < kTurns; ++i) {
      lock_.lock();
      ++counted;
      while (lock_.unlock_or_notes() != 0) told.fetch_add(1, std::memory_order_relaxed);
    }
  };
  const auto noter = [&] {
    for (int i = 0; i < kTurns; ++i) {
      if (lock_.lock_or_leave(EngineLock::kPump)) {
        ++counted;
        taken.fetch_add(1, std::memory_order_relaxed);
        while (lock_.unlock_or_notes() != 0) told.fetch_add(1, std::memory_order_relaxed);
      } else {
        noted.fetch_add(1, std::memory_order_relaxed);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(locker);
  for (int i = 0; i < 2; ++i) threads.emplace_back(noter);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counted, uint64_t{2} * kTurns + taken.load());
  EXPECT_EQ(taken.load() + noted.load(), uint64_t{2} * kTurns);
  EXPECT_TRUE(noted.load() == 0 || told.load() != 0);
  lock_.lock();
  EXPECT_EQ(lock_.unlock_or_notes(), 0U);  // nothing is left that was told to nobody
}

// In each round one thread leaves the lock at about the moment at which the other wants it.
TEST_P(EngineLockTest, ANoteIsToldOrTheLockIsTaken) {
  constexpr int kRounds = 100000;
  std::array<std::atomic<int>, 2> begun{};
  std::array<std::atomic<int>, 2> ended{};
  const auto meet = [](std::array<std::atomic<int>, 2>& at, size_t me, int round) {
    at[me].store(round, std::memory_order_release);
    while (at[1 - me].load(std::memory_order_acquire) < round) std::this_thread::yield();
  };
  std::atomic<int> told{0};
  int lost = 0;
  int met = 0;
  std::thread leaver([&] {
    for (int round = 1; round <= kRounds; ++round) {
      lock_.lock();
      meet(begun, 0, round);
      for (int i = round % 64; i > 0; --i) internal::relax_cpu();
      while (lock_.unlock_or_notes() != 0) told.store(round, std::memory_order_relaxed);
      meet(ended, 0, round);
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    meet(begun, 1, round);
    for (int i = (round / 64) % 64; i > 0; --i) internal::relax_cpu();
    const bool taken = lock_.lock_or_leave(EngineLock::kPump);
    if (taken) leave();
    meet(ended, 1, round);
    met += taken ? 0 : 1;
    if (!taken && told.load(std::memory_order_relaxed) != round) ++lost;
  }
  leaver.join();
  EXPECT_EQ(lost, 0) << "of " << met << " notes";
}

INSTANTIATE_TEST_SUITE_P(Every, EngineLockTest, ::testing::Bool(),
                         [](const auto& kind) { return kind.param ? "Barrier" : "Fence"; });

std::atomic<uint32_t> sleepers{0};
bool count_sleeper() {
  sleepers.fetch_add(1, std::memory_order_release);
  return membarrier_all_registered();
}

// The holder that leaves does not get it back before the one that waits has had it.
TEST(EngineLock, IsHandedToATakerThatWaits) {
  if (!register_membarrier()) GTEST_SKIP() << "the moment before a sleep cannot be seen";
  for (int round = 0; round < 50; ++round) {
    WakePolicy policy(WakeOptions{.runnable_threads = 4, .barrier = count_sleeper});
    UncheckedLock lock(policy);
    sleepers.store(0, std::memory_order_relaxed);
    std::atomic<bool> leave{false};
    lock.lock();
    std::thread taker([&] {
      lock.lock();
      while (!leave.load(std::memory_order_relaxed)) std::this_thread::yield();
      lock.unlock_or_notes();
    });
    while (sleepers.load(std::memory_order_acquire) == 0) std::this_thread::yield();
    EXPECT_EQ(lock.unlock_or_notes(), 0U);
    const bool again = lock.try_lock();
    EXPECT_FALSE(again);
    if (again) lock.unlock_or_notes();
    leave.store(true, std::memory_order_relaxed);
    taker.join();
  }
}

}  // namespace
}  // namespace simpler::engine
