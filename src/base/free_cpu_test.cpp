#include "base/free_cpu.h"

#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "base/affinity_mask.h"

namespace simpler {
namespace {

TEST(FreeCpu, ReadsTheRunnableThreadsOfALoadAverage) {
  EXPECT_EQ(runnable_threads_of("0.10 0.20 0.30 2/77 18078\n"), 2U);
  EXPECT_EQ(runnable_threads_of("100.00 90.50 12.34 317/4096 1"), 317U);
}

TEST(FreeCpu, WhatIsNoLoadAverageCountsNobody) {
  for (const char* text : {"", "0.10", "0.10 0.20 0.30", "0.10 0.20 0.30 ", "0.10 0.20 0.30 2", "0.10 0.20 0.30 x/77 1",
                           "0.00 0.00 0.00 0/0 0", "0.10 0.20 0.30 -1/77 1", "0.10 0.20 0.30 99999999999/1 1"}) {
    EXPECT_EQ(runnable_threads_of(text), 0U) << text;
  }
}

TEST(FreeCpu, IsFreeWhenNoMoreAreRunnableThanAllowed) {
  EXPECT_FALSE((CpuRoom{.runnable = 0, .allowed = 4}).has_a_free_cpu()) << "not known";
  EXPECT_TRUE((CpuRoom{.runnable = 4, .allowed = 4}).has_a_free_cpu());
  EXPECT_FALSE((CpuRoom{.runnable = 5, .allowed = 4}).has_a_free_cpu());
}

TEST(FreeCpu, IsFullWhenMoreAreRunnableThanTheMachineHasCpus) {
  EXPECT_FALSE((CpuRoom{.runnable = 5, .allowed = 4, .online = 0}).is_full()) << "not known";
  EXPECT_FALSE((CpuRoom{.runnable = 0, .allowed = 4, .online = 4}).is_full()) << "not known";
  EXPECT_FALSE((CpuRoom{.runnable = 4, .allowed = 4, .online = 4}).is_full());
  EXPECT_TRUE((CpuRoom{.runnable = 5, .allowed = 4, .online = 4}).is_full());
  EXPECT_FALSE((CpuRoom{.runnable = 30, .allowed = 4, .online = 64}).is_full()) << "they may all run elsewhere";
}

TEST(FreeCpu, MostOthersAreFreeWhenStrangersTakeHalfOfThemAtMost) {
  EXPECT_FALSE((CpuRoom{.runnable = 0, .allowed = 2}).has_mostly_free_cpus()) << "not known";
  EXPECT_TRUE((CpuRoom{.runnable = 1, .allowed = 2}).has_mostly_free_cpus());
  EXPECT_TRUE((CpuRoom{.runnable = 2, .allowed = 2}).has_mostly_free_cpus());
  EXPECT_FALSE((CpuRoom{.runnable = 3, .allowed = 2}).has_mostly_free_cpus());
  EXPECT_TRUE((CpuRoom{.runnable = 5, .allowed = 8}).has_mostly_free_cpus());
  EXPECT_FALSE((CpuRoom{.runnable = 6, .allowed = 8}).has_mostly_free_cpus());
}

// In a thread of its own, whose mask nobody else needs.
template <class Body>
void in_a_thread(Body&& body) {
  std::thread(body).join();
}

TEST(FreeCpu, TheRoomOfThisMachineCountsAtLeastTheReader) {
  in_a_thread([] {
    const CpuRoom room = cpu_room();
    EXPECT_EQ(room.allowed, AffinityMask::of_this_thread()->count());
    std::ifstream file("/proc/loadavg");
    std::string text;
    std::getline(file, text);
    if (runnable_threads_of(text) == 0) GTEST_SKIP() << "nobody counts here: " << text;
    EXPECT_GE(room.runnable, 1U);
  });
}

TEST(FreeCpu, AThreadLeavesItsCpuAndKeepsItsMask) {
  in_a_thread([] {
    const std::optional<AffinityMask> before = AffinityMask::of_this_thread();
    ASSERT_TRUE(before.has_value());
    if (before->count() < 2) GTEST_SKIP() << "one CPU";
    // The kernel may move a thread between any two instructions here, so one success of some tries is asked for.
    bool moved = false;
    for (int attempt = 0; attempt < 100 && !moved; ++attempt) {
      const int here = current_cpu();
      ASSERT_TRUE(leave_this_cpu());
      moved = current_cpu() != here;
      const std::optional<AffinityMask> after = AffinityMask::of_this_thread();
      ASSERT_TRUE(after.has_value());
      EXPECT_TRUE(*after == *before);
    }
    EXPECT_TRUE(moved);
  });
}

TEST(FreeCpu, AThreadJoinsAnotherCpuAndKeepsItsMask) {
  in_a_thread([] {
    const AffinityMask before = *AffinityMask::of_this_thread();
    if (before.count() < 2) GTEST_SKIP() << "one CPU";
    // The kernel may move a thread between any two instructions here, so one success of some tries is asked for.
    bool joined = false;
    for (int attempt = 0; attempt < 100 && !joined; ++attempt) {
      const int first = current_cpu();
      AffinityMask only = before;
      only.keep_only(first);
      ASSERT_TRUE(only.apply_to_this_thread());
      ASSERT_TRUE(before.apply_to_this_thread());
      int other = first == 0 ? 1 : 0;
      while (!before.has(other) || other == first) ++other;
      ASSERT_TRUE(join_that_cpu(other));
      joined = current_cpu() == other;
      EXPECT_TRUE(*AffinityMask::of_this_thread() == before);
    }
    EXPECT_TRUE(joined);
  });
}

TEST(FreeCpu, AThreadJoinsNoCpuThatItMayNotUse) {
  in_a_thread([] {
    AffinityMask mask = *AffinityMask::of_this_thread();
    const int here = current_cpu();
    const int other = here == 0 ? 1 : 0;
    mask.keep_only(here);
    ASSERT_TRUE(mask.apply_to_this_thread());
    for (const int cpu : {other, -1, 1 << 20}) EXPECT_FALSE(join_that_cpu(cpu)) << cpu;
    EXPECT_TRUE(*AffinityMask::of_this_thread() == mask);
  });
}

TEST(FreeCpu, AThreadThatMayRunOnOneCpuOnlyStays) {
  in_a_thread([] {
    AffinityMask mask = *AffinityMask::of_this_thread();
    mask.keep_only(current_cpu());
    ASSERT_TRUE(mask.apply_to_this_thread());
    EXPECT_FALSE(leave_this_cpu());
    EXPECT_EQ(AffinityMask::of_this_thread()->count(), 1U);
  });
}

}  // namespace
}  // namespace simpler
