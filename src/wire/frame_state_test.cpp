#include "wire/frame_state.h"

#include <set>
#include <utility>

#include <gtest/gtest.h>

namespace simpler::wire {
namespace {

MailboxState state(unsigned value) {
  return static_cast<MailboxState>(value);
}

// Every pair of states that the child can span, by their numbers, worked out by hand from the frame protocol.
TEST(FrameState, TheChildSpansExactlyTheseOfAllPairs) {
  const std::set<std::pair<unsigned, unsigned>> expected = {
      {0, 6},  {0, 7},                       // start-up
      {1, 8},  {1, 9},  {1, 2},   {1, 10},   // TASK_READY: staged, launched, done, failed
      {12, 8}, {12, 9}, {12, 2},  {12, 10},  // PREPARE_READY
      {8, 9},  {8, 2},  {8, 10},             // FRAME_STAGED
      {11, 9}, {11, 2}, {11, 10},            // ACTIVATE
      {9, 2},  {9, 10},                      // TASK_LAUNCHED
      {4, 5},                                // control
  };
  for (unsigned from = 0; from < 256; ++from) {
    for (unsigned to = 0; to < 256; ++to) {
      EXPECT_EQ(child_may_bring(state(from), state(to)), expected.count({from, to}) == 1) << from << " to " << to;
    }
  }
}

TEST(FrameState, NoMoveIsListedTwiceOrLeadsNowhere) {
  std::set<std::pair<MailboxState, MailboxState>> seen;
  for (const FrameMove& move : kFrameMoves) {
    EXPECT_TRUE(seen.insert({move.from, move.to}).second);
    EXPECT_NE(move.from, move.to);
    EXPECT_NE(move.mover, Mover::kNobody);
  }
}

TEST(FrameState, EveryStateButShutdownAndInitFailedCanBeLeft) {
  for (unsigned from = 0; from < kFrameStates; ++from) {
    bool left = false;
    for (const FrameMove& move : kFrameMoves) left = left || move.from == state(from);
    EXPECT_EQ(left, state(from) != MailboxState::kShutdown && state(from) != MailboxState::kInitFailed) << from;
  }
}

TEST(FrameState, OnlyTheParentActivatesAndReusesALine) {
  EXPECT_EQ(mover(MailboxState::kFrameStaged, MailboxState::kActivate), Mover::kParent);
  EXPECT_EQ(mover(MailboxState::kTaskDone, MailboxState::kTaskReady), Mover::kParent);
  EXPECT_EQ(mover(MailboxState::kTaskReady, MailboxState::kActivate), Mover::kNobody);
}

}  // namespace
}  // namespace simpler::wire
