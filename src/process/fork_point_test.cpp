#include "process/fork_point.h"

#include <atomic>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "process/process_test_support.h"

namespace simpler::process {
namespace {

TEST(ProcessMark, RecognisesAForkThatUserCodeMade) {
  const ProcessMark mark;
  EXPECT_TRUE(mark.is_here());
  EXPECT_TRUE(mark.check("worker").is_ok());
  const pid_t child = ::fork();
  if (child == 0) {
    const Status refused = mark.check("worker");
    const ProcessMark own;
    const bool right = refused.code() == StatusCode::kWrongProcess && !mark.is_here() && own.is_here() &&
                       refused.message().find("worker belongs to process " + std::to_string(::getppid())) == 0;
    ::_exit(right ? 0 : 1);
  }
  EXPECT_EQ(collect(child), 0);
  EXPECT_TRUE(mark.is_here());
}

TEST(ForkPoint, RunsHooksUpTheRanksBeforeAndDownAfterOnBothSides) {
  std::string order;
  const auto note = [&](const char* what) { return [&order, what] { order += what; }; };
  ForkPoint& point = ForkPoint::of_process();
  const auto log = point.add(ForkRank::kLog, {note("c"), note("3"), note("z")});
  const auto turn = point.add(ForkRank::kSubmissionTurn, {note("a"), note("1"), note("x")});
  const auto engine = point.add(ForkRank::kEngine, {note("b"), note("2"), note("y")});
  const auto forked = point.fork();
  ASSERT_TRUE(forked.ok());
  if (*forked == 0) ::_exit(order == "abczyx" ? 0 : 1);
  EXPECT_EQ(order, "abc321");
  EXPECT_EQ(collect(*forked), 0);
}

TEST(ForkPoint, ForgetsAParticipantThatGaveUpItsRegistration) {
  int calls = 0;
  ForkPoint& point = ForkPoint::of_process();
  {
    auto first = point.add(ForkRank::kEngine, {[&] { ++calls; }, {}, {}});
    auto moved = std::move(first);
    const auto forked = point.fork();
    ASSERT_TRUE(forked.ok());
    if (*forked == 0) ::_exit(0);
    EXPECT_EQ(collect(*forked), 0);
  }
  const auto forked = point.fork();
  ASSERT_TRUE(forked.ok());
  if (*forked == 0) ::_exit(0);
  EXPECT_EQ(collect(*forked), 0);
  EXPECT_EQ(calls, 1);
}

TEST(ForkPoint, AChildCanTakeALockThatAnotherThreadKeepsTaking) {
  Mutex mutex;
  Guarded<int> guarded(0);
  ForkPoint& point = ForkPoint::of_process();
  const auto first = point.add_lock(ForkRank::kEngine, mutex);
  const auto second = point.add_lock(ForkRank::kRegistry, guarded);
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) {
      MutexLock held(mutex);
      ++*guarded.lock();
    }
  });
  for (int round = 0; round < 50; ++round) {
    const auto forked = point.fork();
    ASSERT_TRUE(forked.ok());
    if (*forked == 0) {
      MutexLock held(mutex);
      guarded.update([](int& value) { value = -1; });
      const bool seen = guarded.wait_until(Deadline::after(kWatchdog), [](int value) { return value == -1; });
      ::_exit(seen ? 0 : 1);
    }
    ASSERT_EQ(collect(*forked), 0);
  }
  stop = true;
  busy.join();
}

TEST(ForkPoint, CountsTheThreadsOfThisProcess) {
  const uint32_t before = ForkPoint::thread_count();
  Flag done;
  std::thread other([&] { EXPECT_TRUE(done.await()); });
  EXPECT_EQ(ForkPoint::thread_count(), before + 1);
  done.raise();
  other.join();
}

}  // namespace
}  // namespace simpler::process
