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
  // Sleeps to learn where the poster is, and is woken by one on CPU `poster` when on CPU `here`.
  void try_and_wake(int poster, int here = kHere) {
    ASSERT_TRUE(place.asks_for_room(3, now));
    place.note_room(true, kHere, now);
    place.note_wake(poster, here, now);
  }
  // Wakes up, works, answers, waits. The CPU that it is told to join.
  int work(int poster = kThere, Nanos span = 20 * kMicrosecond, bool wakes_poster = true) {
    place.note_wake(poster, kHere, now);
    if (wakes_poster) place.note_woke_poster();
    const int target = place.note_idle(now += span);
    now += 50 * kMicrosecond;
    return target;
  }
  // How many such rounds until it is told to join; 0: not within 100.
  int rounds_until_told(Nanos span, bool wakes_poster = true) {
    for (int round = 1; round <= 100; ++round) {
      if (work(kThere, span, wakes_poster) == kThere) return round;
    }
    return 0;
  }
  PosterPlace place{25 * kMicrosecond, kFirstPause, kFirstBan, kLongest};
  Nanos now = kSecond;
};

TEST_F(PosterPlaceTest, ThreeTurnsInVainAreWorthAQuestion) {
  EXPECT_FALSE(place.asks_for_room(2, now));
  EXPECT_TRUE(place.asks_for_room(3, now));
}

TEST_F(PosterPlaceTest, WhereACpuIsFreeItAsksLessAndLessOften) {
  for (const int pause : {1, 2, 4, 8, 16, 32, 64, 128, 250, 250}) {
    ASSERT_TRUE(place.asks_for_room(3, now)) << pause;
    place.note_room(false, kHere, now);
    EXPECT_FALSE(place.asks_for_room(3, now + pause * kMillisecond - 1)) << pause;
    now += pause * kMillisecond;
  }
}

TEST_F(PosterPlaceTest, OnAFullMachineItTriesAgainSoonUntilItHasSlept) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    ASSERT_TRUE(place.asks_for_room(3, now)) << attempt;
    place.note_room(true, kHere, now);  // the post comes before the sleep
    EXPECT_FALSE(place.asks_for_room(3, now + kFirstPause - 1));
    now += kFirstPause;
  }
}

TEST_F(PosterPlaceTest, APosterFoundOnTheSameCpuEndsTheYieldsForAShortWhile) {
  EXPECT_FALSE(place.sleeps_at_once(now));
  EXPECT_FALSE(place.sleeps_often(now));
  for (const int pause : {10, 20, 20, 20}) {
    try_and_wake(kHere);
    EXPECT_TRUE(place.sleeps_at_once(now + pause * kMillisecond - 1)) << pause;
    now += pause * kMillisecond;
    EXPECT_FALSE(place.sleeps_at_once(now)) << pause;
    EXPECT_TRUE(place.sleeps_often(now)) << "it will try again soon";
  }
  EXPECT_FALSE(place.sleeps_often(now + kSecond));
}

TEST_F(PosterPlaceTest, OnlyASleepThatAskedTellsOfTurns) {
  place.note_wake(kHere, kHere, now);
  EXPECT_FALSE(place.sleeps_at_once(now));
  place.note_room(false, kHere, now);  // it went on yielding
  place.note_wake(kHere, kHere, now);
  EXPECT_FALSE(place.sleeps_at_once(now));
}

TEST_F(PosterPlaceTest, ATryThatNeededNoSleepEndsWithItsWait) {
  place.note_room(true, kHere, now);
  EXPECT_TRUE(place.is_worth_a_note());
  place.note_idle(now + kSecond);  // the next wait
  place.note_wake(kHere, kHere, now + kSecond);
  EXPECT_FALSE(place.sleeps_at_once(now + kSecond));
}

TEST_F(PosterPlaceTest, AWakeUpThatMovedTheThreadBesideItsPosterTellsNothingOfTheTurns) {
  try_and_wake(kThere, kThere);
  EXPECT_FALSE(place.sleeps_at_once(now));
}

TEST_F(PosterPlaceTest, APosterElsewhereBringsTheYieldsBackAtOnce) {
  try_and_wake(kHere);
  ASSERT_TRUE(place.sleeps_at_once(now + 1));
  place.note_wake(kThere, kHere, now + 1);
  EXPECT_FALSE(place.sleeps_at_once(now + 2));
}

TEST_F(PosterPlaceTest, APosterFoundElsewhereIsAskedForLessOften) {
  try_and_wake(kThere);
  EXPECT_FALSE(place.sleeps_at_once(now));
  EXPECT_FALSE(place.asks_for_room(3, now + 2 * kFirstPause - 1));
  EXPECT_TRUE(place.asks_for_room(3, now + 2 * kFirstPause));
}

TEST_F(PosterPlaceTest, WhoIsWokenFromAfarForLittleWorkAgainAndAgainHadBetterBeThere) {
  EXPECT_EQ(rounds_until_told(20 * kMicrosecond), 8);
}

TEST_F(PosterPlaceTest, WhoHasWorkStays) {
  EXPECT_EQ(rounds_until_told(30 * kMicrosecond), 0);
}

TEST_F(PosterPlaceTest, WhosePosterDoesNotSleepMeanwhileStays) {
  EXPECT_EQ(rounds_until_told(20 * kMicrosecond, false), 0);
}

TEST_F(PosterPlaceTest, TheRowIsFromOneCpu) {
  for (int round = 0; round < 50; ++round) EXPECT_LT(work(kThere + round / 5), 0);
}

TEST_F(PosterPlaceTest, MuchWorkOrAPosterAwakeOrNearEndsTheRow) {
  for (int kind = 0; kind < 6; ++kind) {
    for (int round = 0; round < 7; ++round) ASSERT_LT(work(), 0) << kind;
    if (kind % 3 == 0) work(kThere, kMillisecond);
    if (kind % 3 == 1) work(kThere, kMicrosecond, false);
    if (kind % 3 == 2) work(kHere);
  }
  EXPECT_FALSE(place.is_worth_a_note()) << "the last one was near";
}

TEST_F(PosterPlaceTest, WhoWasToldInVainIsToldLessAndLessOften) {
  int told = 0;
  for (const Nanos end = now + kSecond; now < end;) told += work(kThere, kMicrosecond) == kThere ? 1 : 0;
  EXPECT_GE(told, 6);
  EXPECT_LE(told, 8) << "10, 20, 40, 80, 160 and 250 ms apart";
}

TEST_F(PosterPlaceTest, WhoHasJustMovedAwayIsNotToldToComeBackAtOnce) {
  place.note_move(now);
  const Nanos moved = now;
  while (work(kThere, kMicrosecond) != kThere) ASSERT_LT(now, moved + kSecond);
  EXPECT_GE(now, moved + kFirstBan);
}

}  // namespace
}  // namespace simpler
