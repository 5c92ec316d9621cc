#include "engine/driver.h"

#include <future>
#include <memory>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "base/test_activity.h"
#include "engine/test_support.h"

namespace simpler::engine {
namespace {

using Tag = TensorArgType;

// A level with children that are threads. The bodies count; a task whose first tensor is at an odd cell of buffer 3
// fails.
class Rig {
 public:
  explicit Rig(uint32_t next_levels = 2, uint32_t subs = 1, DriverOptions options = {}, ThreadLane::Body body = {},
               const Clock* clock = nullptr, uint32_t runnable_threads = 16)
      : level_(options.engine.window), policy_(WakeOptions{.runnable_threads = runnable_threads}), options_(options) {
    driver_ = std::make_unique<Driver>(options, *level_.tables, *level_.arena, level_.heap.get(), doorbell_, policy_,
                                       clock != nullptr ? *clock : clock_);
    for (uint32_t i = 0; i < next_levels + subs; ++i) {
      const bool sub = i >= next_levels;
      lanes_.push_back(std::make_unique<ThreadLane>(sub ? WorkerType::kSub : WorkerType::kNextLevel,
                                                    sub ? i - next_levels : i, doorbell_, policy_,
                                                    [this, body](const wire::Dispatch& line) {
                                                      ran_.fetch_add(1, std::memory_order_relaxed);
                                                      return body ? body(line) : lane::Outcome::kSuccess;
                                                    }));
      EXPECT_TRUE(driver_->add_lane(*lanes_.back()).ok());
    }
    driver_->start();
  }
  ~Rig() {
    driver_->stop();
    for (auto& lane : lanes_) lane->stop();
  }

  RunRef begin() {
    auto run = driver_->begin_run(Deadline::never());
    EXPECT_TRUE(run.ok()) << run.status().describe();
    return *run;
  }
  Status submit(const RunRef& run, const std::vector<Argument>& arguments = {}, uint32_t worker = 0) {
    Request request(arguments, worker);
    return driver_->submit(run, request.request).status();
  }
  Status submit_group(const RunRef& run, uint32_t first, uint32_t second) {
    const Request parts[] = {Request({}, first), Request({}, second)};
    const MemberArgs members[] = {parts[0].member, parts[1].member};
    TaskRequest request;
    request.callable = 1;
    request.members = members;
    return driver_->submit(run, request).status();
  }
  Argument cell(uint32_t buffer, uint64_t index, Tag tag) { return {level_.view(level_.buffers[buffer], index), tag}; }
  void expect_clean() {
    EXPECT_TRUE(driver_->wait_idle(Deadline::never()).is_ok());
    driver_->with_engine([](Engine& engine) {
      EXPECT_EQ(engine.unfinished_runs(), 0U);
      EXPECT_TRUE(engine.check_consistency().is_ok());
    });
    EXPECT_EQ(level_.arena->live_blocks(), 0U);
  }

  Driver& driver() { return *driver_; }
  Level& level() { return level_; }
  ThreadLane& lane(size_t i) { return *lanes_[i]; }
  uint32_t ran() const { return ran_.load(std::memory_order_relaxed); }

 private:
  Level level_;
  WakeWord doorbell_;
  WakePolicy policy_;
  SteadyClock clock_;
  DriverOptions options_;
  std::atomic<uint32_t> ran_{0};
  std::unique_ptr<Driver> driver_;
  std::vector<std::unique_ptr<ThreadLane>> lanes_;
};

DriverOptions small_window(uint32_t window = 256) {
  DriverOptions options;
  options.engine.window = window;
  return options;
}

// With as many threads as want a processor, so that no wait spins, and as if each had one of its own.
class DriverWaits : public ::testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Every, DriverWaits, ::testing::Values(16U, 1U),
                         [](const auto& threads) { return threads.param == 1 ? "Spinning" : "AtOnce"; });

TEST_P(DriverWaits, ARunOfOneTaskEndsForItsWaiterEveryTime) {
  Rig rig(1, 0, small_window(), {}, nullptr, GetParam());
  for (uint32_t i = 0; i < 3000; ++i) {
    const RunRef run = rig.begin();
    ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}).is_ok());
    ASSERT_TRUE(rig.driver().close_run(run).is_ok());
    ASSERT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
    rig.driver().release(run);
  }
  EXPECT_EQ(rig.ran(), 3000U);
  rig.expect_clean();
}

TEST(Driver, RunsThatNobodyWaitsForAreFinished) {
  Rig rig(2, 0, small_window());
  for (uint32_t i = 0; i < 200; ++i) {
    const RunRef run = rig.begin();
    for (uint32_t k = 0; k < 20; ++k) ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, k % 2).is_ok());
    ASSERT_TRUE(rig.driver().close_run(run).is_ok());
    rig.driver().release(run);
  }
  rig.expect_clean();
  EXPECT_EQ(rig.ran(), 4000U);
}

TEST(Driver, ABuilderWithoutFreeSlotsWaitsForThem) {
  Rig rig(2, 0, small_window(64));
  const RunRef run = rig.begin();
  for (uint32_t i = 0; i < 5000; ++i) {
    ASSERT_TRUE(rig.submit(run, {rig.cell(0, i % 7, Tag::kInout)}, i % 2).is_ok());
  }
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
  EXPECT_EQ(rig.ran(), 5000U);
  rig.driver().release(run);
  rig.expect_clean();
}

TEST(Driver, TheSchedulerDrivesWhileABuilderStandsStill) {
  std::promise<void> second_ran;
  Rig rig(2, 0, small_window(), [&](const wire::Dispatch& line) {
    if (line.callable == 7) second_ran.set_value();
    return lane::Outcome::kSuccess;
  });
  const RunRef run = rig.begin();
  ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, 0).is_ok());
  Request second({rig.cell(0, 0, Tag::kInout)}, 1);
  second.request.callable = 7;
  ASSERT_TRUE(rig.driver().submit(run, second.request).ok());
  // The builder makes no call from here on; only the scheduler can notice the first answer and push the second task.
  second_ran.get_future().wait();
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
  rig.driver().release(run);
}

TEST_P(DriverWaits, ManyWaitersOfManyRunsAllReturn) {
  Rig rig(2, 1, small_window(), {}, nullptr, GetParam());
  for (uint32_t round = 0; round < 30; ++round) {
    std::vector<RunRef> runs;
    std::vector<std::thread> waiters;
    for (uint32_t i = 0; i < 4; ++i) {
      const RunRef run = rig.begin();
      runs.push_back(run);
      for (uint32_t k = 0; k < 30; ++k) ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, k % 2).is_ok());
      ASSERT_TRUE(rig.driver().close_run(run).is_ok());
      for (uint32_t w = 0; w < 3; ++w) {
        waiters.emplace_back([&rig, run] { EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok()); });
      }
    }
    for (std::thread& waiter : waiters) waiter.join();
    for (const RunRef& run : runs) rig.driver().release(run);
  }
  rig.expect_clean();
}

TEST_P(DriverWaits, SeveralThreadsBuildAndWaitAtOnce) {
  DriverOptions options = small_window(128);
  options.engine.max_runs = 3;
  Rig rig(2, 1, options, {}, nullptr, GetParam());
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&rig, t] {
      SeededRandom random(t);
      for (uint32_t i = 0; i < 100; ++i) {
        const RunRef run = rig.begin();
        const auto tasks = static_cast<uint32_t>(random.below(40));
        for (uint32_t k = 0; k < tasks; ++k) {
          EXPECT_TRUE(
              rig.submit(run, {rig.cell(0, random.below(3), Tag::kInout)}, static_cast<uint32_t>(random.below(2)))
                  .is_ok());
        }
        if (random.below(10) == 0) {
          rig.driver().fail_run(run, task_failed("the callback failed"));
          EXPECT_EQ(rig.driver().wait(run, Deadline::never()).code(), StatusCode::kTaskFailed);
        } else {
          EXPECT_TRUE(rig.driver().close_run(run).is_ok());
          if (random.below(3) != 0) {
            EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
          }
        }
        rig.driver().release(run);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rig.expect_clean();
}

TEST(Driver, AWaitThatExpiresChangesNothing) {
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  Rig rig(1, 0, small_window(), [gate](const wire::Dispatch&) {
    gate.wait();
    return lane::Outcome::kSuccess;
  });
  const RunRef run = rig.begin();
  ASSERT_TRUE(rig.submit(run).is_ok());
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  EXPECT_EQ(rig.driver().wait(run, Deadline::after(2 * kMillisecond)).code(), StatusCode::kTimeout);
  EXPECT_FALSE(rig.driver().done(run));
  go.set_value();
  EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
  EXPECT_TRUE(rig.driver().done(run));
  rig.driver().release(run);
}

TEST(Driver, CancelFromAnotherThreadEndsTheRun) {
  Rig rig(1, 0, small_window());
  for (uint32_t round = 0; round < 50; ++round) {
    const RunRef run = rig.begin();
    std::thread canceller([&] { rig.driver().cancel(run, cancelled("enough")); });
    for (uint32_t i = 0; i < 200; ++i) {
      if (!rig.submit(run, {rig.cell(0, 0, Tag::kInout)}).is_ok()) break;
    }
    const Status closed = rig.driver().close_run(run);
    EXPECT_TRUE(closed.is_ok());
    canceller.join();
    const Status status = rig.driver().wait(run, Deadline::never());
    EXPECT_TRUE(status.is_ok() || status.code() == StatusCode::kCancelled) << status.describe();
    rig.driver().release(run);
  }
  rig.expect_clean();
}

TEST(Driver, ALostLaneFailsItsTasksWhoeverHoldsTheEngine) {
  for (uint32_t round = 0; round < 20; ++round) {
    Rig rig(2, 0, small_window());
    const RunRef run = rig.begin();
    std::thread watcher([&] {
      rig.lane(1).stop();
      rig.driver().lane_lost(LaneId{1}, peer_lost("killed"));
    });
    for (uint32_t i = 0; i < 300; ++i) {
      if (!rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, i % 2).is_ok()) break;
    }
    EXPECT_TRUE(rig.driver().close_run(run).is_ok());
    watcher.join();
    const Status status = rig.driver().wait(run, Deadline::never());
    EXPECT_TRUE(status.is_ok() || status.code() == StatusCode::kPeerLost) << status.describe();
    rig.driver().release(run);
    rig.expect_clean();
  }
}

TEST(Driver, CompletionIsSeenByACallbackAndByAnEventfd) {
  Rig rig(1, 0, small_window());
  const int fd = ::eventfd(0, EFD_CLOEXEC);
  const RunRef run = rig.begin();
  std::promise<void> called;
  rig.driver().on_done(run, [&] { called.set_value(); });
  rig.driver().signal_eventfd(run, fd);
  ASSERT_TRUE(rig.submit(run).is_ok());
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  called.get_future().wait();
  uint64_t count = 0;
  EXPECT_EQ(::read(fd, &count, sizeof count), static_cast<ssize_t>(sizeof count));
  EXPECT_EQ(count, 1U);
  bool late = false;
  rig.driver().on_done(run, [&] { late = true; });
  EXPECT_TRUE(late);
  rig.driver().release(run);
  ::close(fd);
}

TEST(Driver, ARunThatTakesTooLongIsCancelledWithATimeout) {
  std::promise<void> go;
  std::shared_future<void> gate = go.get_future().share();
  Rig rig(1, 0, small_window(), [gate](const wire::Dispatch&) {
    gate.wait();
    return lane::Outcome::kSuccess;
  });
  std::promise<void> noticed;
  rig.driver().on_overdue([&](LaneId, TaskId) { noticed.set_value(); });
  const RunRef run = rig.begin();
  Request slow;
  slow.request.timeout = 5 * kMillisecond;
  ASSERT_TRUE(rig.driver().submit(run, slow.request).ok());
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  noticed.get_future().wait();
  go.set_value();
  EXPECT_EQ(rig.driver().wait(run, Deadline::never()).code(), StatusCode::kTimeout);
  rig.driver().release(run);
}

TEST(Driver, AnAllocationWaitsForRunningTasksAndNamesADeadEnd) {
  DriverOptions options = small_window();
  Rig rig(1, 0, options);
  const RunRef run = rig.begin();
  const uint64_t most = rig.level().heap->region_bytes();
  for (uint32_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(rig.driver().scope_begin(run).is_ok());
    auto allocation = rig.driver().alloc(run, most * 6 / 10);
    ASSERT_TRUE(allocation.ok()) << allocation.status().describe();
    ASSERT_TRUE(rig.submit(run, {{rig.level().view(allocation->buffer), Tag::kOutput}}).is_ok());
    ASSERT_TRUE(rig.driver().scope_end(run).is_ok());
  }
  auto first = rig.driver().alloc(run, most * 6 / 10);
  ASSERT_TRUE(first.ok());
  const auto second = rig.driver().alloc(run, most * 6 / 10);
  EXPECT_EQ(second.status().code(), StatusCode::kResourceExhausted) << second.status().describe();
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
  rig.driver().release(run);
  rig.expect_clean();
}

// A body whose first call on any lane waits until the gate opens.
struct Gate {
  std::promise<void> go;
  std::shared_future<void> open = go.get_future().share();
  std::atomic<uint32_t> calls{0};
  ThreadLane::Body body() {
    return [this](const wire::Dispatch&) {
      if (calls.fetch_add(1, std::memory_order_relaxed) == 0) open.wait();
      return lane::Outcome::kSuccess;
    };
  }
};

// S1-029
TEST(Driver, EveryThreadSleepsUntilItIsCalled) {
  constexpr int64_t kWindow = 400 * kMillisecond;
  constexpr uint64_t kFew = 8;  // of a window; looking around every 50 ms would be seen
  const auto switches = [] {
    testing::pass(kWindow / 4);  // what went before dies down; also measured time, see the second look
    const auto before = testing::activity_of(::getpid());
    testing::pass(kWindow);
    return testing::grown(before, testing::activity_of(::getpid())).switches;
  };
  Gate gate;
  Rig rig(2, 1, small_window(), gate.body());
  EXPECT_LE(switches(), kFew) << "without a run";
  const RunRef run = rig.begin();
  ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, 0).is_ok());
  ASSERT_TRUE(rig.submit_group(run, 0, 1).is_ok());
  ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInput)}, 1).is_ok());
  ASSERT_TRUE(rig.driver().close_run(run).is_ok());
  EXPECT_LE(switches(), kFew) << "while a task runs, a group waits for its worker, and nobody waits for the run";
  std::thread waiter([&] { EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok()); });
  EXPECT_LE(switches(), kFew) << "the same with a waiter";
  gate.go.set_value();
  waiter.join();
  rig.driver().release(run);
  // An answer alone calls the scheduler, and so does work that it makes ready.
  const RunRef unattended = rig.begin();
  std::promise<void> over;
  rig.driver().on_done(unattended, [&] { over.set_value(); });
  for (uint32_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(rig.submit(unattended, {rig.cell(0, 0, Tag::kInout)}, i % 2).is_ok());
  }
  ASSERT_TRUE(rig.driver().close_run(unattended).is_ok());
  over.get_future().wait();
  rig.driver().release(unattended);
  rig.expect_clean();
}

// The scheduler does not look by itself here: it has to be called.
TEST_P(DriverWaits, WhoeverDroveHandsTheNextRunOver) {
  DriverOptions options = small_window();
  options.first_look = options.last_look = options.doze = 3600 * kSecond;
  for (uint32_t round = 0; round < 50; ++round) {
    Gate gate;
    Rig rig(1, 0, options, gate.body(), nullptr, GetParam());
    const RunRef first = rig.begin();
    ASSERT_TRUE(rig.submit(first).is_ok());
    ASSERT_TRUE(rig.driver().close_run(first).is_ok());
    const RunRef second = rig.begin();
    std::promise<void> over;
    rig.driver().on_done(second, [&] { over.set_value(); });
    ASSERT_TRUE(rig.submit(second).is_ok());
    ASSERT_TRUE(rig.driver().close_run(second).is_ok());
    gate.go.set_value();
    while (rig.lane(0).answered() == 0) std::this_thread::yield();
    EXPECT_TRUE(rig.driver().wait(first, Deadline::never()).is_ok());
    over.get_future().wait();
    rig.driver().release(first);
    rig.driver().release(second);
  }
}

// S4-021
TEST(Driver, ARunIsNotDoneWhileItsEndIsStillBeingWorkedOutAndAskingNeverWaits) {
  for (uint32_t round = 0; round < 100; ++round) {
    Gate gate;
    Rig rig(1, 0, small_window(), gate.body());
    const RunRef run = rig.begin();
    ASSERT_TRUE(rig.submit(run, {rig.cell(1, 0, Tag::kInout)}).is_ok());
    ASSERT_TRUE(rig.driver().close_run(run).is_ok());
    std::thread waiter([&] { EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok()); });
    rig.driver().with_engine([&](Engine&) {
      gate.go.set_value();
      while (rig.lane(0).answered() == 0) std::this_thread::yield();
      // The last answer is there and a waiter wants it, but nobody could take it yet.
      EXPECT_FALSE(rig.driver().done(run));
      EXPECT_EQ(rig.level().tables->retire_buffer(rig.level().buffers[1]).code(), StatusCode::kFailedPrecondition);
    });
    while (!rig.driver().done(run)) std::this_thread::yield();
    // Whoever sees it done finds all of its end behind it.
    rig.driver().with_engine([&](Engine& engine) {
      EXPECT_EQ(engine.unfinished_runs(), 0U);
      EXPECT_TRUE(rig.level().tables->retire_buffer(rig.level().buffers[1]).is_ok());
    });
    EXPECT_TRUE(rig.driver().wait(run, Deadline::at(0)).is_ok());
    waiter.join();
    rig.driver().release(run);
  }
}

// B084
TEST(Driver, AGroupWhoseMemberIsMinutesLateRaisesNoAlarmWhileTheOthersIdle) {
  for (const bool started : {true, false}) {
    ManualClock clock(monotonic_now());
    Gate gate;
    Rig rig(3, 0, small_window(), gate.body(), &clock);
    std::atomic<uint32_t> alarms{0};
    rig.driver().on_warning([&](const std::string&) { alarms.fetch_add(1); });
    rig.driver().on_overdue([&](LaneId, TaskId) { alarms.fetch_add(1); });
    rig.driver().on_condemned([&](LaneId, const Status&) { alarms.fetch_add(1); });
    const RunRef run = rig.begin();
    // Either a member of the group is late, or a task that keeps the group from its start.
    if (!started) {
      ASSERT_TRUE(rig.submit(run, {}, 0).is_ok());
    }
    ASSERT_TRUE(rig.submit_group(run, 0, 1).is_ok());
    ASSERT_TRUE(rig.submit(run, {}, 2).is_ok());
    ASSERT_TRUE(rig.driver().close_run(run).is_ok());
    for (uint32_t second = 0; second < 120; ++second) {
      clock.advance(kSecond);
      const RunRef other = rig.begin();  // its end makes the driver tell the time
      ASSERT_TRUE(rig.driver().close_run(other).is_ok());
      rig.driver().release(other);
    }
    EXPECT_EQ(alarms.load(), 0U);
    EXPECT_FALSE(rig.driver().done(run));
    gate.go.set_value();
    EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
    rig.driver().release(run);
    rig.expect_clean();
  }
}

// B068
TEST(Driver, EndingRightAfterAShortRunTouchesNothingThatIsGone) {
  for (uint32_t round = 0; round < 150; ++round) {
    Rig rig(2, 1, small_window(64));
    const RunRef run = rig.begin();
    for (uint32_t k = 0; k < 1 + round % 5; ++k) {
      ASSERT_TRUE(rig.submit(run, {rig.cell(0, 0, Tag::kInout)}, k % 2).is_ok());
    }
    std::promise<void> over;
    rig.driver().on_done(run, [&] { over.set_value(); });
    ASSERT_TRUE(rig.driver().close_run(run).is_ok());
    switch (round % 3) {
      case 0:
        EXPECT_TRUE(rig.driver().wait(run, Deadline::never()).is_ok());
        break;
      case 1:
        while (!rig.driver().done(run)) std::this_thread::yield();
        break;
      default:
        EXPECT_TRUE(rig.driver().wait_idle(Deadline::never()).is_ok());
    }
    over.get_future().wait();
    rig.driver().release(run);
    EXPECT_EQ(rig.ran(), 1 + round % 5);
  }
}

}  // namespace
}  // namespace simpler::engine
