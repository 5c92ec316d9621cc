#include "base/wake_policy.h"

#include <gtest/gtest.h>

namespace simpler {
namespace {

constexpr Nanos kQuick = 0;                    // a yield that ran nobody
constexpr Nanos kSwitch = 300 * kMicrosecond;  // one that ran somebody else, however slow system calls are here

class WakePolicyTest : public testing::Test {
 protected:
  void SetUp() override {
    cpu_is_free = false;
    leaves = true;
    asked = 0;
    left = 0;
  }

  static WakeOptions on_a_busy_machine() {
    return {.cpus = 2,
            .runnable_threads = 1,
            .cpu_is_free =
                [] {
                  ++asked;
                  return cpu_is_free;
                },
            .leave_cpu =
                [] {
                  ++left;
                  return leaves;
                }};
  }
  static WakeOptions that_may_move() {
    WakeOptions options = on_a_busy_machine();
    options.move_after = 500 * kMicrosecond;
    return options;
  }

  static bool cpu_is_free;
  static bool leaves;
  static int asked;
  static int left;
};
bool WakePolicyTest::cpu_is_free;
bool WakePolicyTest::leaves;
int WakePolicyTest::asked;
int WakePolicyTest::left;

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

TEST_F(WakePolicyTest, ABanThatIsLongOverIsForgotten) {
  WakePolicy policy(on_a_busy_machine());
  EXPECT_FALSE(policy.note_yield(kSecond, kMillisecond));
  EXPECT_FALSE(policy.note_yield(kSecond + 10 * kMillisecond, kMillisecond));
  EXPECT_TRUE(policy.note_yield(2 * kSecond, kMicrosecond));
  EXPECT_FALSE(policy.note_yield(3 * kSecond, kMillisecond));
  EXPECT_FALSE(policy.banned(3 * kSecond + 10 * kMillisecond));
}

TEST_F(WakePolicyTest, ABadYieldIsForgivenOnceInAWhileWhenACpuIsFree) {
  cpu_is_free = true;
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
  cpu_is_free = true;
  WakePolicy policy(that_may_move());
  EXPECT_TRUE(policy.note_yield(kSecond, kSwitch));
  EXPECT_TRUE(policy.note_yield(kSecond + 1, kSwitch));
  EXPECT_EQ(left, 0) << "two long ones may be interruptions";
  EXPECT_TRUE(policy.note_yield(kSecond + 2, kSwitch));
  EXPECT_EQ(left, 1);
  EXPECT_GT(policy.spin_budget(), 0U) << "alone on its new CPU";
}

TEST_F(WakePolicyTest, AYieldThatRanNobodyEndsTheRow) {
  cpu_is_free = true;
  WakePolicy policy(that_may_move());
  for (Nanos now = kSecond; now < kSecond + 50 * kMillisecond; now += kMillisecond) {
    policy.note_yield(now, kSwitch);
    policy.note_yield(now + 1, kSwitch);
    policy.note_yield(now + 2, kQuick);
  }
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, LittleLostTimeMovesNobody) {
  cpu_is_free = true;
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
  cpu_is_free = true;
  EXPECT_EQ(policy.patience(kSecond + kMillisecond - 1), 0) << "not asked again so soon";
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(policy.patience(kSecond + kMillisecond), WakeOptions{}.yield_for_move);
}

TEST_F(WakePolicyTest, WhoDoesNotYieldWaitsForNoNeighbour) {
  cpu_is_free = true;
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
  WakePolicy two({.cpus = 2, .runnable_threads = 9});
  EXPECT_GT(two.yield_budget(), 0);
}

TEST_F(WakePolicyTest, WhoMayNotMoveAsksNobody) {
  cpu_is_free = true;
  WakePolicy policy(on_a_busy_machine());
  for (int i = 0; i < 100; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(left, 0);
}

TEST_F(WakePolicyTest, ACpuThatCannotBeLeftIsShared) {
  cpu_is_free = true;
  leaves = false;
  WakePolicy policy(that_may_move());
  for (int i = 0; i < 3; ++i) policy.note_yield(kSecond + i, kSwitch);
  EXPECT_EQ(left, 1);
  EXPECT_EQ(policy.spin_budget(), 0U);
}

}  // namespace
}  // namespace simpler
