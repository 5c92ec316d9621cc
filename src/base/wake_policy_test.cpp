#include "base/wake_policy.h"

#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/affinity_mask.h"
#include "base/wake_word.h"

namespace simpler {
namespace {

constexpr Nanos kQuick = 0;                    // a yield that ran nobody
constexpr Nanos kSwitch = 300 * kMicrosecond;  // one that ran somebody else, however slow system calls are here

class WakePolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    room = kFull;
    leaves = true;
    asked = 0;
    left = 0;
    joined.clear();
  }

  static WakeOptions on_a_busy_machine() {
    return {.cpus = 2,
            .online_cpus = 2,
            .runnable_threads = 1,
            .cpu_room =
                [] {
                  ++asked;
                  return room;
                },
            .leave_cpu =
                [] {
                  ++left;
                  return leaves;
                },
            .join_cpu =
                [](int cpu) {
                  joined.push_back(cpu);
                  return true;
                },
            .current_cpu = [] { return kHere; }};
  }
  static WakeOptions that_may_move() {
    WakeOptions options = on_a_busy_machine();
    options.move_after = 500 * kMicrosecond;
    return options;
  }

  static constexpr int kHere = 1 << 20;  // no CPU that there is
  static constexpr int kThere = 5;
  static constexpr CpuRoom kFree{.runnable = 2, .allowed = 2};
  static constexpr CpuRoom kFull{.runnable = 3, .allowed = 2};
  static CpuRoom room;
  static bool leaves;
  static int asked;
  static int left;
  static std::vector<int> joined;
};
CpuRoom WakePolicyTest::room;
bool WakePolicyTest::leaves;
int WakePolicyTest::asked;
int WakePolicyTest::left;
std::vector<int> WakePolicyTest::joined;

TEST_F(WakePolicyTest, SpinsOnlyWhileRunnableThreadsFitOnTheCpus) {
  WakePolicy policy({.cpus = 2, .runnable_threads = 2});
  EXPECT_GT(policy.spin_budget(), 0U);
  policy.set_runnable_threads(3);
  EXPECT_EQ(policy.spin_budget(), 0U);
}

TEST_F(WakePolicyTest, AYieldAsLongAsATimeSliceBansTheEarlyPhases) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_FALSE(policy.note_yield(kSecond, kMillisecond));
  EXPECT_TRUE(policy.banned(kSecond + 10 * kMillisecond - 1));
  EXPECT_FALSE(policy.banned(kSecond + 10 * kMillisecond));
}

TEST_F(WakePolicyTest, AYieldShorterThanATimeSliceBansNothing) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_TRUE(policy.note_yield(kSecond, 500 * kMicrosecond));
  EXPECT_FALSE(policy.banned(kSecond));
}

TEST_F(WakePolicyTest, BadYieldsSoonAfterABanMakeTheNextOneLongerUpToALimit) {
  WakePolicy policy(on_a_busy_machine());
  Nanos now = kSecond;
  for (const Nanos expected : {10, 20, 40, 80, 160, 250, 250}) {
    EXPECT_FALSE(policy.note_yield(now, kMillisecond));
    EXPECT_TRUE(policy.banned(now + expected * kMillisecond - 1)) << expected;
    now += expected * kMillisecond;
    EXPECT_FALSE(policy.banned(now)) << expected;
    EXPECT_TRUE(policy.note_yield(now, kMicrosecond)) << "a good yield alone does not end the growth";
  }
}

TEST_F(WakePolicyTest, OneTimeSliceBansOnceHoweverManyThreadsTellOfIt) {
  WakePolicy policy(on_a_busy_machine());
  for (int thread = 0; thread < 6; ++thread) {
    EXPECT_FALSE(policy.note_yield(kSecond + thread * kMicrosecond, 3 * kMillisecond));
  }
  EXPECT_FALSE(policy.banned(kSecond + 10 * kMillisecond));
}

TEST(GrowingPause, DoublesWhileTheLastOneIsRecentUpToALimit) {
  GrowingPause pause(10, 25);
  EXPECT_FALSE(pause.known());
  EXPECT_FALSE(pause.recent(100));
  pause.begin(100);
  EXPECT_TRUE(pause.holds(109));
  EXPECT_FALSE(pause.holds(110));
  EXPECT_TRUE(pause.recent(119));
  EXPECT_FALSE(pause.recent(120));
  pause.begin(119);
  EXPECT_EQ(pause.began(), 119);
  EXPECT_TRUE(pause.holds(138));
  pause.begin(139);
  EXPECT_TRUE(pause.holds(163));
  EXPECT_FALSE(pause.holds(164));
  pause.forget();
  EXPECT_FALSE(pause.known());
  EXPECT_FALSE(pause.recent(140));
  pause.begin(140);
  EXPECT_FALSE(pause.holds(150)) << "a forgotten one is not doubled";
}

TEST_F(WakePolicyTest, ABanThatIsLongOverIsForgotten) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_FALSE(policy.note_yield(kSecond, kMillisecond));
  EXPECT_FALSE(policy.note_yield(kSecond + 10 * kMillisecond, kMillisecond));
  EXPECT_TRUE(policy.note_yield(2 * kSecond, kMicrosecond));
  EXPECT_FALSE(policy.note_yield(3 * kSecond, kMillisecond));
  EXPECT_FALSE(policy.banned(3 * kSecond + 10 * kMillisecond));
}

TEST_F(WakePolicyTest, ABadYieldIsForgivenOnceInAWhileWhenACpuIsFree) {
  room = kFree;
  WakePolicy policy(on_a_busy_machine());
  EXPECT_TRUE(policy.note_yield(kSecond, kMillisecond));
  EXPECT_FALSE(policy.banned(kSecond));
  EXPECT_FALSE(policy.note_yield(kSecond + 9 * kMillisecond, kMillisecond)) << "too soon after the last one";
  EXPECT_TRUE(policy.banned(kSecond + 9 * kMillisecond));
  EXPECT_FALSE(policy.note_yield(kSecond + 20 * kMillisecond, kMillisecond)) << "the ban has just ended";
  EXPECT_TRUE(policy.note_yield(3 * kSecond, kMillisecond));
}

TEST_F(WakePolicyTest, NothingIsForgivenWhileNoCpuIsFree) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_FALSE(policy.note_yield(kSecond, kMillisecond));
  EXPECT_TRUE(policy.banned(kSecond));
}

TEST_F(WakePolicyTest, DoesNotSpinWhileYieldsRunSomebodyElse) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_TRUE(policy.note_yield(kSecond, kSwitch));
  EXPECT_GT(policy.spin_budget(), 0U) << "one may be an interruption";
  EXPECT_TRUE(policy.note_yield(kSecond + kSwitch, kSwitch));
  EXPECT_EQ(policy.spin_budget(), 0U);
  EXPECT_TRUE(policy.note_yield(kSecond + 2 * kSwitch, kQuick));
  EXPECT_GT(policy.spin_budget(), 0U);
}

TEST_F(WakePolicyTest, MovesOnceEnoughIsLostInARowAndACpuIsFree) {
  room = kFree;
  WakePolicy policy(that_may_move());
  EXPECT_TRUE(policy.note_yield(kSecond, kSwitch));
  EXPECT_TRUE(policy.note_yield(kSecond + 1, kSwitch));
  EXPECT_EQ(left, 0) << "two long ones may be interruptions";
  EXPECT_TRUE(policy.note_yield(kSecond + 2, kSwitch));
  EXPECT_EQ(left, 1);
  EXPECT_GT(policy.spin_budget(), 0U) << "alone on its new CPU";
}

TEST_F(WakePolicyTest, WhatWasLostBeforeAMoveDoesNotCountForTheNext) {
  room = kFree;
  WakePolicy policy(that_may_move());
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond + i, kSwitch);
  ASSERT_EQ(left, 1);
  policy.note_yield(kSecond + kMillisecond, kQuick);
  const Nanos later = 2 * kSecond;
  for (int i = 0; i < 3; ++i) policy.note_yield(later + i, 100 * kMicrosecond);
  EXPECT_EQ(left, 1) << "300 of 500 us are lost";
  for (int i = 0; i < 3; ++i) policy.note_yield(later + 10 + i, 100 * kMicrosecond);
  EXPECT_EQ(left, 2);
}

TEST_F(WakePolicyTest, StaysWhereMostOtherCpusAreTaken) {
  room = {.runnable = 8, .allowed = 8};
  WakeOptions options = that_may_move();
  options.cpus = 8;
  WakePolicy policy(options);
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(left, 0) << "six strangers on seven CPUs";
  room = {.runnable = 5, .allowed = 8};
  policy.note_yield(2 * kSecond, kSwitch);
  EXPECT_EQ(left, 1) << "three strangers on seven CPUs";
}

TEST_F(WakePolicyTest, AQuotaCountsAsFewerCpus) {
  room = {.runnable = 3, .allowed = 8};
  WakePolicy two(that_may_move());
  for (int i = 0; i < 3; ++i) two.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(left, 0) << "a third thread on the quota of two CPUs";
  room = {.runnable = 1, .allowed = 8};
  WakeOptions options = that_may_move();
  options.cpus = 1;
  asked = 0;
  WakePolicy one(options);
  for (int i = 0; i < 3; ++i) one.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(one.patience(kSecond), 0);
  EXPECT_FALSE(one.note_yield(2 * kSecond, kMillisecond));
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, AYieldThatRanNobodyEndsTheRow) {
  room = kFree;
  WakePolicy policy(that_may_move());
  for (Nanos now = kSecond; now < kSecond + 50 * kMillisecond; now += kMillisecond) {
    for (int i = 0; i < 4; ++i) policy.note_yield(now + i, 100 * kMicrosecond);  // enough yields, not enough time
    policy.note_yield(now + 4, kQuick);
    for (int i = 5; i < 7; ++i) policy.note_yield(now + i, kSwitch);  // enough time, not enough yields
    policy.note_yield(now + 7, kQuick);
  }
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, LittleLostTimeMovesNobody) {
  room = kFree;
  WakeOptions options = that_may_move();
  options.move_after = kSecond;
  WakePolicy policy(options);
  for (int i = 0; i < 100; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, StaysWhenNoCpuIsFreeAndAsksLessAndLessOften) {
  WakePolicy policy(that_may_move());
  for (Nanos now = 0; now < 100 * kMillisecond; now += 100 * kMicrosecond) policy.note_yield(kSecond + now, kSwitch);
  EXPECT_EQ(left, 0);
  EXPECT_GE(asked, 5);
  EXPECT_LE(asked, 8) << "1, 2, 4, 8, 16, 32 and 64 ms apart";
}

TEST_F(WakePolicyTest, WaitsForANeighbourOnItsWayOnlyWhileACpuIsFree) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_EQ(policy.patience(kSecond), 0);
  room = kFree;
  EXPECT_EQ(policy.patience(kSecond + kMillisecond - 1), 0) << "not asked again so soon";
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(policy.patience(kSecond + kMillisecond), WakeOptions{}.yield_for_move);
}

TEST_F(WakePolicyTest, WhoDoesNotYieldWaitsForNoNeighbour) {
  room = kFree;
  WakeOptions options = on_a_busy_machine();
  options.yield = 0;
  WakePolicy policy(options);
  EXPECT_EQ(policy.patience(kSecond), 0);
}

TEST_F(WakePolicyTest, OnOneCpuMoreThanThreeDoNotTakeTurnsByYielding) {
  WakePolicy one({.cpus = 1, .runnable_threads = 3});
  EXPECT_GT(one.yield_budget(), 0);
  one.set_runnable_threads(4);
  EXPECT_EQ(one.yield_budget(), 0);
  EXPECT_TRUE(one.prefers_poster_fence()) << "they sleep often";
  WakePolicy two({.cpus = 2, .runnable_threads = 9});
  EXPECT_GT(two.yield_budget(), 0);
  EXPECT_FALSE(two.prefers_poster_fence());
}

TEST_F(WakePolicyTest, WhoMayNotMoveAsksNobody) {
  room = kFree;
  WakePolicy policy(on_a_busy_machine());
  for (int i = 0; i < 100; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, ACpuThatCannotBeLeftIsShared) {
  room = kFree;
  leaves = false;
  WakePolicy policy(that_may_move());
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(left, 1);
  EXPECT_EQ(policy.spin_budget(), 0U);
}

// A wait that began beside somebody asks once for a free CPU when its yields are used up; any other does not.
TEST_F(WakePolicyTest, OnlyAWaitThatBeganBesideSomebodyIsProlonged) {
  WakeOptions options = on_a_busy_machine();
  options.yield = 1;  // used up by the first yield
  options.bad_yield = kSecond;
  WakePolicy policy(options);
  internal::YieldPhase alone(policy, Deadline::never());
  EXPECT_FALSE(alone.once());
  EXPECT_EQ(asked, 0);
  for (int i = 0; i < 2; ++i) policy.note_yield(monotonic_now(), kSwitch);
  internal::YieldPhase beside(policy, Deadline::never());
  EXPECT_FALSE(beside.once()) << "no CPU is free";
  EXPECT_EQ(asked, 1);
}

TEST_F(WakePolicyTest, AProlongedWaitEndsAndIsNotProlongedAgain) {
  room = kFree;
  WakeOptions options = on_a_busy_machine();
  options.yield = 1;
  options.yield_for_move = 5 * kMillisecond;
  options.bad_yield = kSecond;
  WakePolicy policy(options);
  for (int i = 0; i < 2; ++i) policy.note_yield(monotonic_now(), kSwitch);
  const Nanos started = monotonic_now();
  internal::YieldPhase beside(policy, Deadline::never());
  while (beside.once()) {
  }
  EXPECT_GE(monotonic_now() - started, options.yield_for_move);
  EXPECT_EQ(asked, 1);
}

TEST_F(WakePolicyTest, TurnsOnAFullMachineEndInASleepThatTellsWhereThePosterIs) {
  WakeOptions options = that_may_move();
  options.first_ban = options.longest_ban = 3600 * kSecond;
  WakePolicy policy(options);
  EXPECT_FALSE(policy.decides_to_sleep(3, monotonic_now())) << "its yields ran nobody";
  for (int i = 0; i < 3; ++i) policy.note_yield(monotonic_now(), kSwitch);
  asked = 0;
  EXPECT_FALSE(policy.decides_to_sleep(2, monotonic_now()));
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(policy.decides_to_sleep(3, monotonic_now()));
  policy.note_wake(kHere);
  EXPECT_FALSE(policy.may_yield(monotonic_now()));
  EXPECT_TRUE(policy.prefers_poster_fence()) << "who sleeps often leaves the fence to the posters";
  policy.note_wake(kThere);
  EXPECT_TRUE(policy.may_yield(monotonic_now()));
  EXPECT_FALSE(policy.prefers_poster_fence());
}

TEST_F(WakePolicyTest, TurnsWhereACpuIsFreeGoOn) {
  WakePolicy policy(that_may_move());
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond, kSwitch);
  room = kFree;
  asked = 0;
  EXPECT_FALSE(policy.decides_to_sleep(3, kSecond));
  EXPECT_FALSE(policy.decides_to_sleep(3, kSecond + 1));
  EXPECT_EQ(asked, 1);
}

// Woken eight times from afar for next to no work, each time waking the poster in turn.
void be_woken_from(int cpu, WakePolicy& policy) {
  for (int wake = 0; wake < 8; ++wake) {
    policy.note_wake(cpu);
    policy.note_woke_poster();
    policy.note_idle();
  }
}

TEST_F(WakePolicyTest, JoinsAFarPosterOnAFullMachineOnly) {
  for (const bool full : {false, true}) {
    room = full ? kFull : kFree;
    WakePolicy policy(that_may_move());
    // A time slice of a stranger in one of the rounds makes it look like work.
    for (int attempt = 0; attempt < 100 && joined.empty() && (full || asked == 0); ++attempt) {
      be_woken_from(kThere, policy);
    }
    EXPECT_GT(asked, 0);
    asked = 0;
    EXPECT_EQ(joined.size(), full ? 1U : 0U);
  }
  EXPECT_EQ(joined.at(0), kThere);
}

TEST_F(WakePolicyTest, WhoHasJustMovedAwayDoesNotJoinAtOnce) {
  WakeOptions options = that_may_move();
  options.first_ban = options.longest_ban = 3600 * kSecond;
  WakePolicy policy(options);
  room = kFree;
  for (int i = 0; i < 3; ++i) policy.note_yield(monotonic_now(), kSwitch);
  ASSERT_EQ(left, 1);
  room = kFull;
  for (int row = 0; row < 20; ++row) be_woken_from(kThere, policy);
  EXPECT_TRUE(joined.empty());
}

TEST_F(WakePolicyTest, WhoHasJustJoinedDoesNotMoveAwayAtOnce) {
  WakeOptions options = that_may_move();
  options.first_pause = options.longest_ban = 3600 * kSecond;
  WakePolicy policy(options);
  for (int row = 0; row < 100 && joined.empty(); ++row) be_woken_from(kThere, policy);
  ASSERT_EQ(joined.size(), 1U);
  room = kFree;
  for (int i = 0; i < 10; ++i) policy.note_yield(monotonic_now(), kSwitch);
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, WhatRunsElsewhereOnTheMachineDoesNotFillIt) {
  WakeOptions options = that_may_move();
  options.online_cpus = 64;
  WakePolicy policy(options);
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond, kSwitch);
  room = {.runnable = 30, .allowed = 2};
  EXPECT_FALSE(policy.decides_to_sleep(3, kSecond));
  room.runnable = 65;
  EXPECT_TRUE(policy.decides_to_sleep(3, kSecond + kMillisecond));
}

TEST_F(WakePolicyTest, WhoMayNotMoveIgnoresWhereItsPosterIs) {
  WakePolicy policy(on_a_busy_machine());
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond, kSwitch);
  EXPECT_FALSE(policy.decides_to_sleep(100, kSecond));
  be_woken_from(kThere, policy);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(joined.empty());
}

TEST_F(WakePolicyTest, AnUnknownPosterIsNowhere) {
  WakePolicy policy(that_may_move());
  be_woken_from(-1, policy);
  EXPECT_EQ(asked, 0);
  EXPECT_TRUE(joined.empty());
}

void compute(Nanos span) {
  for (const Nanos until = monotonic_now() + span; monotonic_now() < until;) {
  }
}

// A waiter in a thread of its own, and a poster that posts when the waiter has announced that it sleeps, most often
// some time after.
class WaiterAndPoster : public WakePolicyTest {
 protected:
  // `between` runs in the poster's thread before each look at the waiter; `after` in the waiter's, false: enough.
  void meet(WakePolicy& policy, const std::function<void()>& between, const std::function<bool()>& after) {
    std::atomic<int> posted{0};
    std::atomic<bool> over{false};
    std::thread waiter([&] {
      for (int post = 1; post <= 1000; ++post) {
        if (!wait(word, policy, Deadline::after(20 * kSecond), [&] { return posted.load() >= post; })) break;
        if (!after()) break;
      }
      over = true;
    });
    while (!over) {
      between();
      if ((word.value.load() & WakeWord::kSleeper) == 0) continue;
      ++posted;
      wake(word);
    }
    waiter.join();
  }
  WakeWord word;
};

// The poster computes beside the waiter and lets it run between two pieces of work.
TEST_F(WaiterAndPoster, AmongOthersThatYieldTheWaiterLearnsToSleep) {
  WakeOptions options = that_may_move();
  options.yield = 20 * kSecond;
  options.bad_yield = 20 * kSecond;
  options.first_ban = options.longest_ban = 3600 * kSecond;
  options.first_pause = kMicrosecond;
  options.current_cpu = simpler::current_cpu;
  WakePolicy policy(options);
  const AffinityMask before = *AffinityMask::of_this_thread();
  AffinityMask one = before;
  one.keep_only(current_cpu());
  ASSERT_TRUE(one.apply_to_this_thread());  // the waiter inherits it
  bool learnt = false;
  meet(
      policy,
      [] {
        compute(50 * kMicrosecond);
        std::this_thread::yield();
      },
      [&] {
        learnt = !policy.may_yield(monotonic_now());
        return !learnt;
      });
  EXPECT_TRUE(learnt);
  before.apply_to_this_thread();
}

// Each of them wakes the other, as the waiter sees it, from another CPU.
TEST_F(WaiterAndPoster, TheWaiterJoinsAPosterThatIsAlwaysElsewhere) {
  WakeOptions options = that_may_move();
  options.yield = 0;
  options.little_work = kSecond;
  WakePolicy policy(options);  // it is on kHere, which is no CPU of the poster
  meet(
      policy, [] { compute(50 * kMicrosecond); },
      [&] {
        policy.note_woke_poster();
        return joined.empty();
      });
  ASSERT_EQ(joined.size(), 1U);
}

TEST_F(WaiterAndPoster, AWaiterThatWorksJoinsNobody) {
  WakeOptions options = that_may_move();
  options.yield = 0;
  WakePolicy policy(options);
  int pieces = 0;
  meet(
      policy, [] { compute(50 * kMicrosecond); },
      [&] {
        compute(50 * kMicrosecond);
        policy.note_woke_poster();
        return ++pieces < 100;
      });
  EXPECT_EQ(pieces, 100);
  EXPECT_TRUE(joined.empty());
}

}  // namespace
}  // namespace simpler
