// The parent's end against a child that the test plays by hand, word by word.
#include "lane/mailbox_parent.h"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "wire/frame_state.h"

namespace simpler::lane {
namespace {

class MailboxParentTest : public testing::Test {
 protected:
  MailboxParentTest() : mailbox_(std::make_unique<wire::Mailbox>()) {
    wire::initialise(*mailbox_, kDepth, 0);
    lane_ = std::make_unique<MailboxParent>(LaneInfo{.worker_id = 5, .queue_depth = kDepth}, *mailbox_);
  }

  static constexpr uint32_t kDepth = 4;

  void push(uint32_t slot) {
    wire::Dispatch dispatch;
    dispatch.callable = 9;
    dispatch.slot = slot;
    dispatch.slot_generation = 70;
    lane_->push(dispatch);
  }
  uint64_t head(uint32_t line) const { return wire::load_head(mailbox_->lines[line]); }
  void answer(uint32_t line, MailboxState state, bool skipped = false) {
    wire::store_head(mailbox_->lines[line], wire::compose_answer(wire::parse_head(head(line)), state, skipped));
  }
  std::vector<Completion> poll() {
    std::vector<Completion> all(kDepth);
    all.resize(lane_->poll(all));
    return all;
  }

  std::unique_ptr<wire::Mailbox> mailbox_;
  std::unique_ptr<MailboxParent> lane_;
};

TEST_F(MailboxParentTest, APushIsOneLineWithTheNextSequenceAndNoWake) {
  push(3);
  const wire::Dispatch seen = wire::load_rest(mailbox_->lines[0], head(0));
  EXPECT_EQ(seen.sequence, 1U);
  EXPECT_EQ(seen.state, MailboxState::kTaskReady);
  EXPECT_EQ(seen.callable, 9);
  EXPECT_EQ(seen.slot, 3U);
  push(4);
  EXPECT_EQ(wire::parse_head(head(1)).sequence, 2U);
  EXPECT_EQ(mailbox_->child_wake.value.load(), 0U) << "nobody sleeps, so nobody was woken";
}

TEST_F(MailboxParentTest, AnswersAreReportedInOrderEvenWhenALaterLineEndsFirst) {
  push(1);
  push(2);
  answer(1, MailboxState::kTaskDone);
  EXPECT_TRUE(poll().empty());
  answer(0, MailboxState::kTaskDone);
  const std::vector<Completion> got = poll();
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].slot, 1U);
  EXPECT_EQ(got[1].slot, 2U);
}

TEST_F(MailboxParentTest, TheStepsOfAPreparedFrameAreNoAnswersYet) {
  push(1);
  for (const MailboxState step : {MailboxState::kFrameStaged, MailboxState::kTaskLaunched}) {
    answer(0, step);
    EXPECT_TRUE(poll().empty());
    EXPECT_TRUE(lane_->alive());
  }
  answer(0, MailboxState::kTaskDone);
  EXPECT_EQ(poll().size(), 1U);
}

TEST_F(MailboxParentTest, AStepBackCondemnsTheLane) {
  push(1);
  answer(0, MailboxState::kTaskLaunched);
  EXPECT_TRUE(poll().empty());
  answer(0, MailboxState::kFrameStaged);
  EXPECT_TRUE(poll().empty());
  EXPECT_FALSE(lane_->alive());
}

// Every state byte with every flag byte, for the line that was pushed.
TEST_F(MailboxParentTest, OnlyTheLegalAnswersOfALineAreBelieved) {
  for (unsigned state = 0; state < 256; ++state) {
    for (unsigned flags = 0; flags < 256; ++flags) {
      lane_ = std::make_unique<MailboxParent>(LaneInfo{.queue_depth = kDepth}, *mailbox_);
      push(1);
      const auto byte = static_cast<MailboxState>(state);
      wire::store_head(mailbox_->lines[0], wire::compose_head(1, byte, static_cast<uint8_t>(flags), 9));
      std::array<Completion, 1> got;
      const uint32_t count = lane_->poll(got);
      const bool unanswered = flags == 0 && (byte == MailboxState::kTaskReady || byte == MailboxState::kFrameStaged ||
                                             byte == MailboxState::kTaskLaunched);
      const bool done = flags == 0 && byte == MailboxState::kTaskDone;
      const bool failed = byte == MailboxState::kTaskFailed && (flags == 0 || flags == wire::kFlagSkipped);
      ASSERT_EQ(count, done || failed ? 1U : 0U) << state << " " << flags;
      ASSERT_EQ(lane_->alive(), unanswered || done || failed) << state << " " << flags;
    }
  }
}

TEST_F(MailboxParentTest, AForeignSequenceOrCallableCondemnsTheLane) {
  push(1);
  wire::store_head(mailbox_->lines[0], wire::compose_head(2, MailboxState::kTaskDone, 0, 9));
  EXPECT_TRUE(poll().empty());
  EXPECT_FALSE(lane_->alive());
  EXPECT_EQ(lane_->health().code(), StatusCode::kCorrupt);
  EXPECT_NE(lane_->health().message().find("worker 5"), std::string_view::npos);
}

TEST_F(MailboxParentTest, ACondemnedLaneEndsItsLinesOnlyWhenItIsLost) {
  push(1);
  push(2);
  wire::store_head(mailbox_->lines[0], wire::compose_head(1, MailboxState::kShutdown, 0, 9));
  answer(1, MailboxState::kTaskDone);
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(lane_->free_lines(), 0U);
  EXPECT_TRUE(poll().empty()) << "the child may still write";
  lane_->lose(peer_lost("was killed").with_pid(44).with_signal(9));
  const std::vector<Completion> got = poll();
  ASSERT_EQ(got.size(), 2U);
  for (const Completion& completion : got) {
    EXPECT_EQ(completion.outcome, Outcome::kEndpointFailure);
    const Status why = lane_->take_failure(completion);
    EXPECT_EQ(why.pid(), 44);
    EXPECT_NE(why.message().find("SHUTDOWN"), std::string_view::npos) << why.message();
    EXPECT_NE(why.message().find("was killed"), std::string_view::npos) << why.message();
  }
}

TEST_F(MailboxParentTest, AReportThatLiesIsAFailureAndNoCrash) {
  push(1);
  wire::Report& report = mailbox_->reports[0];
  report.sequence = 1;
  report.code = static_cast<uint16_t>(StatusCode::kTaskFailed);
  report.type_len = report.message_len = report.traceback_len = 0xFFFF;
  answer(0, MailboxState::kTaskFailed);
  const std::vector<Completion> got = poll();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(lane_->take_failure(got[0]).code(), StatusCode::kCorrupt);
}

TEST_F(MailboxParentTest, TheReasonOfALossNamesTheNoteThatTheChildLeft) {
  push(1);
  wire::write_report(mailbox_->reports[0], nullptr, 1,
                     {.code = StatusCode::kCorrupt, .type_name = {}, .message = "line 0 is wrong", .traceback = {}});
  lane_->lose(peer_lost("ended with exit status 3"));
  EXPECT_NE(lane_->health().message().find("line 0 is wrong"), std::string_view::npos) << lane_->health().message();
}

TEST_F(MailboxParentTest, StatisticsCountTheStretchThatIsGoingOn) {
  mailbox_->statistics.busy_ns = 500;
  mailbox_->statistics.tasks = 3;
  EXPECT_EQ(lane_->statistics().busy_ns, 500);
  mailbox_->statistics.started_ns = static_cast<uint64_t>(monotonic_now() - kMillisecond);
  EXPECT_GE(lane_->statistics().busy_ns, kMillisecond + 500);
  EXPECT_EQ(lane_->statistics().tasks, 3U);
}

}  // namespace
}  // namespace simpler::lane
