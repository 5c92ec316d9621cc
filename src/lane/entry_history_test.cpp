#include "lane/entry_history.h"

#include <deque>

#include <gtest/gtest.h>

namespace simpler::lane {
namespace {

TEST(EntryHistory, AMaskThatNamesNothingNeverBlocks) {
  EntryHistory history;
  history.record(false);
  EXPECT_FALSE(history.blocks(0));
  EXPECT_TRUE(history.covers(0));
}

TEST(EntryHistory, BitZeroNamesTheEntryJustBefore) {
  EntryHistory history;
  history.record(false);
  EXPECT_TRUE(history.blocks(0b01));
  history.record(true);
  EXPECT_FALSE(history.blocks(0b01));
  EXPECT_TRUE(history.blocks(0b10));
}

TEST(EntryHistory, AMaskMayNotReachBeforeTheFirstEntry) {
  EntryHistory history;
  EXPECT_FALSE(history.covers(0b1));
  history.record(true);
  EXPECT_TRUE(history.covers(0b1));
  EXPECT_FALSE(history.covers(0b10));
  for (int i = 0; i < 31; ++i) history.record(true);
  EXPECT_TRUE(history.covers(0xFFFFFFFF));
}

// Every sequence of 12 outcomes against a list that remembers everything.
TEST(EntryHistory, AgreesWithAFullRecordOnEveryShortSequence) {
  for (uint32_t outcomes = 0; outcomes < (1U << 12); ++outcomes) {
    EntryHistory history;
    std::deque<bool> record;  // newest first
    for (uint32_t entry = 0; entry < 12; ++entry) {
      const bool succeeded = ((outcomes >> entry) & 1U) != 0;
      history.record(succeeded);
      record.push_front(succeeded);
      for (uint32_t bit = 0; bit < record.size(); ++bit) {
        ASSERT_EQ(history.blocks(1U << bit), !record[bit]) << outcomes << " " << entry << " " << bit;
      }
    }
  }
}

TEST(EntryHistory, ForgetsWhatLiesMoreThanThirtyTwoEntriesBack) {
  EntryHistory history;
  history.record(false);
  for (int i = 0; i < 31; ++i) history.record(true);
  EXPECT_TRUE(history.blocks(0x80000000));
  history.record(true);
  EXPECT_FALSE(history.blocks(0xFFFFFFFF));
}

}  // namespace
}  // namespace simpler::lane
