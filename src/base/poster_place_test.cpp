#include "base/poster_place.h"

#include <gtest/gtest.h>

namespace simpler {
namespace {

constexpr int kHere = 3;
constexpr int kThere = 5;
constexpr Nanos kFirstPause = kMillisecond;
constexpr Nanos kFirstBan = 10 * kMillisecond;
constexpr Nanos kLongest = 250 * kMillisecond;

class PosterPlaceTest : public testing::Test {
 protected:
  // Sleeps to learn where the poster is, and is woken from there.
  void try_and_wake(int poster, Nanos now) {
    ASSERT_TRUE(place.is_worth_a_sleep(3, now));
    place.note_room(true, now);
    place.note_wake(poster, kHere, now);
  }
  // Wakes up far away, works, sleeps; how often until told to join, at most `most` times.
  int far_wakes_until_told(Nanos& now, Nanos work, int most) {
    for (int wake = 1; wake <= most; ++wake) {
      if (place.note_wake(kThere, kHere, now)) return wake;
      place.note_sleep(now += work);
      now += 50 * kMicrosecond;
    }
    return 0;
  }
  PosterPlace place{kFirstPause, kFirstBan, kLongest};
};

TEST_F(PosterPlaceTest, ThreeTurnsInVainAreWorthAQuestion) {
  EXPECT_FALSE(place.is_worth_a_sleep(2, kSecond));
  EXPECT_TRUE(place.is_worth_a_sleep(3, kSecond));
}

TEST_F(PosterPlaceTest, WhereACpuIsFreeItAsksLessAndLessOften) {
  Nanos now = kSecond;
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 250, 250}) {
    ASSERT_TRUE(place.is_worth_a_sleep(3, now)) << pause;
    place.note_room(false, now);
    EXPECT_FALSE(place.is_worth_a_sleep(3, now + pause * kMillisecond - 1)) << pause;
    now += pause * kMillisecond;
  }
}

TEST_F(PosterPlaceTest, APosterFoundOnTheSameCpuEndsTheYieldsForAWhile) {
  EXPECT_FALSE(place.sleeps_at_once(kSecond));
  Nanos now = kSecond;
  for (const int pause : {10, 20, 40, 80, 160, 250, 250}) {
    try_and_wake(kHere, now);
    EXPECT_TRUE(place.sleeps_at_once(now + pause * kMillisecond - 1)) << pause;
    now += pause * kMillisecond;
    EXPECT_FALSE(place.sleeps_at_once(now)) << pause;
  }
}

TEST_F(PosterPlaceTest, OnlyASleepThatAskedTellsOfTurns) {
  place.note_wake(kHere, kHere, kSecond);
  EXPECT_FALSE(place.sleeps_at_once(kSecond));
  place.note_room(false, kSecond);  // it went on yielding
  place.note_wake(kHere, kHere, kSecond);
  EXPECT_FALSE(place.sleeps_at_once(kSecond));
}

TEST_F(PosterPlaceTest, APosterElsewhereBringsTheYieldsBackAtOnce) {
  try_and_wake(kHere, kSecond);
  ASSERT_TRUE(place.sleeps_at_once(kSecond + 1));
  place.note_wake(kThere, kHere, kSecond + 1);
  EXPECT_FALSE(place.sleeps_at_once(kSecond + 2));
}

TEST_F(PosterPlaceTest, APosterFoundElsewhereIsAskedForLessOften) {
  try_and_wake(kThere, kSecond);
  EXPECT_FALSE(place.sleeps_at_once(kSecond));
  EXPECT_FALSE(place.is_worth_a_sleep(3, kSecond + 2 * kFirstPause - 1));
  EXPECT_TRUE(place.is_worth_a_sleep(3, kSecond + 2 * kFirstPause));
}

TEST_F(PosterPlaceTest, WhoIsWokenFromAfarForLittleWorkAgainAndAgainHadBetterBeThere) {
  Nanos now = kSecond;
  EXPECT_EQ(far_wakes_until_told(now, 20 * kMicrosecond, 20), 8);
}

TEST_F(PosterPlaceTest, WhoHasWorkStays) {
  Nanos now = kSecond;
  EXPECT_EQ(far_wakes_until_told(now, 30 * kMicrosecond, 100), 0);
}

TEST_F(PosterPlaceTest, MuchWorkOrANearPosterEndsTheRow) {
  Nanos now = kSecond;
  for (int round = 0; round < 5; ++round) {
    ASSERT_EQ(far_wakes_until_told(now, 20 * kMicrosecond, 7), 0);
    if (round % 2 == 0) {
      place.note_sleep(now + kMillisecond);
    } else {
      EXPECT_FALSE(place.note_wake(kHere, kHere, now));
      EXPECT_FALSE(place.was_far());
    }
  }
}

TEST_F(PosterPlaceTest, WhoWasToldInVainIsToldLessAndLessOften) {
  Nanos now = kSecond;
  int told = 0;
  for (const Nanos end = now + 100 * kMillisecond; now < end;) {
    if (far_wakes_until_told(now, kMicrosecond, 1) != 0) ++told;
    now += 50 * kMicrosecond;
  }
  EXPECT_GE(told, 6);
  EXPECT_LE(told, 8) << "1, 2, 4, 8, 16, 32 and 64 ms apart";
}

}  // namespace
}  // namespace simpler
