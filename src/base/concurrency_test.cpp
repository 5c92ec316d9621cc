#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/cpu_count.h"
#include "base/guarded.h"
#include "base/mutex.h"
#include "base/thread_role.h"

namespace simpler {
namespace {

constexpr Nanos kWatchdog = 20 * kSecond;

TEST(Deadline, NeverDoesNotOverflowAndAPastOneIsExpired) {
  EXPECT_TRUE(Deadline::after(std::numeric_limits<Nanos>::max(), 5).is_never());
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_EQ(Deadline::never().remaining_poll_ms(), -1);
  const Deadline deadline = Deadline::after(10, 100);
  EXPECT_FALSE(deadline.expired(109));
  EXPECT_TRUE(deadline.expired(110));
  EXPECT_EQ(deadline.remaining(104), 6);
  EXPECT_EQ(deadline.remaining(200), 0);
  EXPECT_EQ(Deadline::earlier(deadline, Deadline::never()).when(), 110);
}

TEST(Deadline, PollTimeoutsAreRoundedUpSoThatTheyDoNotComeEarly) {
  EXPECT_EQ(Deadline::at(monotonic_now() - kSecond).remaining_poll_ms(), 0);
  EXPECT_GE(Deadline::after(1).remaining_poll_ms(), 0);
  EXPECT_GT(Deadline::after(10 * kSecond).remaining_poll_ms(), 9'000);
}

TEST(ManualClock, StandsStillUntilItIsTurned) {
  ManualClock clock(5);
  EXPECT_EQ(clock.now(), 5);
  clock.advance(kMillisecond);
  EXPECT_EQ(clock.now(), 5 + kMillisecond);
}

TEST(Guarded, AWaitSeesWhatAnotherThreadUpdates) {
  Guarded<std::map<int, int>> results;
  std::thread writer([&] { results.update([](auto& map) { map[1] = 7; }); });
  EXPECT_TRUE(results.wait_until(Deadline::after(kWatchdog), [](const auto& map) { return map.contains(1); }));
  writer.join();
  EXPECT_EQ(results.lock()->at(1), 7);
}

TEST(Guarded, AWaitGivesUpAtItsDeadlineAndAHeldLockCannotBeTaken) {
  Guarded<int> value(3);
  EXPECT_FALSE(value.wait_until(Deadline::after(kMillisecond), [](int v) { return v == 4; }));
  const auto held = value.lock();
  std::thread other([&] { EXPECT_FALSE(value.try_lock()); });
  other.join();
  EXPECT_EQ(*held, 3);
}

TEST(Mutex, CountsOfManyThreadsAddUp) {
  struct Counter {
    Mutex mutex;
    int count SIMPLER_GUARDED_BY(mutex) = 0;
  } counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 5'000; ++n) {
        MutexLock held(counter.mutex);
        ++counter.count;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  MutexLock held(counter.mutex);
  EXPECT_EQ(counter.count, 20'000);
}

TEST(CondVar, WakesAWaiterAndTimesOut) {
  Mutex mutex;
  CondVar changed;
  bool done = false;
  std::thread other([&] {
    MutexLock held(mutex);
    done = true;
    changed.notify_all();
  });
  {
    MutexLock held(mutex);
    const Deadline deadline = Deadline::after(kWatchdog);
    while (!done && changed.wait_until(mutex, deadline)) {
    }
    EXPECT_TRUE(done);
    EXPECT_FALSE(changed.wait_until(mutex, Deadline::after(kMillisecond)) &&
                 changed.wait_until(mutex, Deadline::at(1)));
  }
  other.join();
}

TEST(ThreadRole, IsPlayedByOneThreadAtATime) {
  ThreadRole role;
  {
    RoleScope scope(role);
    role.assert_held();
    std::thread other([&] { EXPECT_FALSE(role.held_here()); });
    other.join();
  }
  std::thread next([&] {
    RoleScope scope(role);
    EXPECT_TRUE(role.held_here());
  });
  next.join();
}

TEST(ThreadRoleDeathTest, ASecondPlayerEndsTheProcess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  ThreadRole role;
  EXPECT_DEATH(
      {
        RoleScope scope(role);
        std::thread([&] { RoleScope second(role); }).join();
      },
      "compare_exchange");
}

TEST(CpuCount, ReadsAQuotaRoundedUpAndIgnoresWhatItDoesNotUnderstand) {
  EXPECT_EQ(cpus_of_quota("max 100000\n"), 0U);
  EXPECT_EQ(cpus_of_quota("200000 100000\n"), 2U);
  EXPECT_EQ(cpus_of_quota("150000 100000"), 2U);
  EXPECT_EQ(cpus_of_quota("1000 100000"), 1U);
  EXPECT_EQ(cpus_of_quota(""), 0U);
  EXPECT_EQ(cpus_of_quota("100000 0"), 0U);
  EXPECT_EQ(cpus_of_quota("-5 100000"), 0U);
  EXPECT_GE(usable_cpus(), 1U);
}

TEST(CpuCount, TheTightestGroupOnTheWayToTheRootDecides) {
  const std::filesystem::path mount = std::filesystem::path(testing::TempDir()) / "simpler_cpu_count";
  std::filesystem::create_directories(mount / "a/b");
  std::ofstream(mount / "cpu.max") << "800000 100000\n";
  std::ofstream(mount / "a/cpu.max") << "300000 100000\n";
  std::ofstream(mount / "a/b/cpu.max") << "max 100000\n";
  EXPECT_EQ(smallest_quota(mount.string(), "/a/b"), 3U);
  EXPECT_EQ(smallest_quota(mount.string(), "/"), 8U);
  EXPECT_EQ(smallest_quota((mount / "absent").string(), "/"), 0U);
  std::filesystem::remove_all(mount);
}

}  // namespace
}  // namespace simpler
