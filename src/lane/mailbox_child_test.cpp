// The child's end against a parent that the test plays by hand; `serve` runs on the test's own thread and ends because
// a handler asks for shutdown or because something is refused.
#include "lane/mailbox_child.h"

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace simpler::lane {
namespace {

class RecordingHandler final : public Handler {
 public:
  Status run(const Task& task) override {
    slots.push_back(task.dispatch.slot);
    return each ? each(task) : Status::ok();
  }
  std::function<Status(const Task&)> each;
  std::vector<uint32_t> slots;
};

class MailboxChildTest : public testing::Test {
 protected:
  MailboxChildTest() : mailbox_(std::make_unique<wire::Mailbox>()) { wire::initialise(*mailbox_, 8, 0); }

  wire::Dispatch entry(uint32_t slot) const {
    wire::Dispatch dispatch;
    dispatch.sequence = slot;
    dispatch.state = MailboxState::kTaskReady;
    dispatch.callable = 1;
    dispatch.slot = slot;
    dispatch.run = 1;
    return dispatch;
  }
  // Slot n travels in line n - 1 with sequence n.
  void put(const wire::Dispatch& dispatch) { wire::store(mailbox_->lines[dispatch.slot - 1], wire::compose(dispatch)); }
  Status serve() { return MailboxChild(*mailbox_, doorbell_, policy_).serve(handler_); }
  // Serves until the task with that slot has run.
  Status serve_until(uint32_t last) {
    const auto each = handler_.each;
    handler_.each = [this, last, each](const Task& task) {
      if (task.dispatch.slot == last) mailbox_->parent.shutdown = 1;
      return each ? each(task) : Status::ok();
    };
    return serve();
  }
  wire::LineHead head(uint32_t slot) const { return wire::parse_head(wire::load_head(mailbox_->lines[slot - 1])); }

  std::unique_ptr<wire::Mailbox> mailbox_;
  WakeWord doorbell_;
  WakePolicy policy_;
  RecordingHandler handler_;
};

TEST_F(MailboxChildTest, RunsPushedLinesWithoutWaitingBetweenThem) {
  for (uint32_t slot = 1; slot <= 5; ++slot) put(entry(slot));
  EXPECT_TRUE(serve_until(5).is_ok());
  EXPECT_EQ(handler_.slots, (std::vector<uint32_t>{1, 2, 3, 4, 5}));
  for (uint32_t slot = 1; slot <= 5; ++slot) EXPECT_EQ(head(slot).state, MailboxState::kTaskDone);
  EXPECT_EQ(mailbox_->statistics.tasks, 5U);
  EXPECT_EQ(doorbell_.value.load(), 0U) << "nobody sleeps, so nobody was woken";
}

// The child sleeps before each task, its answer finds a sleeping parent or not, and the parent posts from afar.
class ChildOnAFullMachine : public MailboxChildTest {
 protected:
  static constexpr uint32_t kMostTasks = 400;
  void play(bool parent_sleeps) {
    joined = 0;
    WakePolicy policy({.cpus = 2,
                       .online_cpus = 2,
                       .yield = 0,
                       .move_after = kSecond,
                       .little_work = kSecond,
                       .cpu_room = [] { return CpuRoom{.runnable = 3, .allowed = 2}; },
                       .join_cpu = [](int) { return ++joined > 0; },
                       .current_cpu = [] { return 1 << 20; }});
    handler_.each = [&](const Task&) {
      if (parent_sleeps) doorbell_.value.fetch_or(WakeWord::kSleeper);
      return Status::ok();
    };
    std::thread parent([&] {
      for (uint32_t slot = 1; slot <= kMostTasks && joined == 0; ++slot) {
        // Announced, and most often asleep a moment later.
        for (int looks = 0; looks < 2; ++looks) {
          while ((mailbox_->child_wake.value.load() & WakeWord::kSleeper) == 0) std::this_thread::yield();
          for (const Nanos until = monotonic_now() + 50 * kMicrosecond; monotonic_now() < until;) {
          }
        }
        wire::store(mailbox_->lines[(slot - 1) % 8], wire::compose(entry(slot)));
        wake(mailbox_->child_wake);
        while (wire::parse_head(wire::load_head(mailbox_->lines[(slot - 1) % 8])).state != MailboxState::kTaskDone) {
          std::this_thread::yield();
        }
      }
      std::atomic_ref(mailbox_->parent.shutdown).store(1U, std::memory_order_release);
      wake(mailbox_->child_wake);
    });
    EXPECT_TRUE(MailboxChild(*mailbox_, doorbell_, policy).serve(handler_).is_ok());
    parent.join();
  }
  static std::atomic<int> joined;
};
std::atomic<int> ChildOnAFullMachine::joined;

TEST_F(ChildOnAFullMachine, GoesToAParentThatSleepsUntilItAnswers) {
  play(true);
  EXPECT_EQ(joined, 1);
}

TEST_F(ChildOnAFullMachine, StaysWhereItsParentDoesNotWaitForIt) {
  play(false);
  EXPECT_EQ(joined, 0);
  EXPECT_EQ(handler_.slots.size(), kMostTasks);
}

TEST_F(MailboxChildTest, ShutdownLeavesLaterLinesUnanswered) {
  for (uint32_t slot = 1; slot <= 3; ++slot) put(entry(slot));
  EXPECT_TRUE(serve_until(2).is_ok());
  EXPECT_EQ(head(3).state, MailboxState::kTaskReady);
}

// Every state byte where the first line should stand; IDLE is what an unused line holds.
TEST_F(MailboxChildTest, RefusesEveryStateButTaskReady) {
  for (unsigned state = 0; state < 256; ++state) {
    if (static_cast<MailboxState>(state) == MailboxState::kTaskReady) continue;
    wire::Dispatch dispatch = entry(1);
    dispatch.state = static_cast<MailboxState>(state);
    put(dispatch);
    const Status status = serve();
    ASSERT_EQ(status.code(), StatusCode::kCorrupt) << state;
    ASSERT_TRUE(handler_.slots.empty());
    ASSERT_EQ(wire::read_report(mailbox_->reports[0], nullptr, 1).message, status.message());
  }
}

TEST_F(MailboxChildTest, RefusesASequenceThatIsNotTheNextOne) {
  for (const uint32_t sequence : {0U, 2U, 9U, 0xFFFFFFFFU}) {
    wire::Dispatch dispatch = entry(1);
    dispatch.sequence = sequence;
    put(dispatch);
    EXPECT_EQ(serve().code(), StatusCode::kCorrupt) << sequence;
  }
}

TEST_F(MailboxChildTest, RefusesEntriesThatCannotRun) {
  std::vector<wire::Dispatch> bad(5, entry(1));
  bad[0].callable = 0;
  bad[1].flags = 3;  // an entry kind that does not exist
  bad[2].flags = 0x40;
  bad[3].tensors = 2;     // without a block to hold them
  bad[4].after_mask = 1;  // nothing came before
  for (const wire::Dispatch& dispatch : bad) {
    put(dispatch);
    EXPECT_EQ(serve().code(), StatusCode::kCorrupt) << dispatch.callable << " " << int{dispatch.flags};
    EXPECT_TRUE(handler_.slots.empty());
  }
}

TEST_F(MailboxChildTest, RefusesAControlRequestOutOfTurn) {
  for (const uint64_t request : {wire::compose_head(2, MailboxState::kControlRequest, 0, 0),
                                 wire::compose_head(1, MailboxState::kTaskReady, 0, 0), uint64_t{0xDEADBEEF}}) {
    mailbox_->request.head = request;
    EXPECT_EQ(serve().code(), StatusCode::kCorrupt);
  }
}

TEST_F(MailboxChildTest, RefusesAMailboxOfAnotherVersion) {
  mailbox_->header.version = 99;
  EXPECT_EQ(serve().code(), StatusCode::kCorrupt);
}

TEST_F(MailboxChildTest, AControlRequestThatClaimsTooMuchIsAnsweredWithAFailure) {
  mailbox_->request.payload_len = wire::kControlPayloadBytes + 1;
  mailbox_->request.head = wire::compose_head(1, MailboxState::kControlRequest, 0, 0);
  put(entry(1));
  EXPECT_TRUE(serve_until(1).is_ok());
  EXPECT_EQ(mailbox_->reply.code, static_cast<uint32_t>(StatusCode::kCorrupt));
}

TEST_F(MailboxChildTest, TheSixteenNewestCancelledRunsAreRemembered) {
  for (uint32_t run = 100; run < 120; ++run) {
    mailbox_->parent.cancelled[mailbox_->parent.cancel_count % wire::kCancelWords] = run;
    ++mailbox_->parent.cancel_count;
  }
  const std::vector<uint32_t> runs = {104, 119, 103, 120};
  for (uint32_t slot = 1; slot <= 4; ++slot) {
    wire::Dispatch dispatch = entry(slot);
    dispatch.run = runs[slot - 1];
    put(dispatch);
  }
  EXPECT_TRUE(serve_until(4).is_ok());
  EXPECT_EQ(handler_.slots, (std::vector<uint32_t>{3, 4}));
  EXPECT_NE(head(1).flags & wire::kFlagSkipped, 0);
  EXPECT_EQ(mailbox_->statistics.skipped, 2U);
}

TEST_F(MailboxChildTest, ALongFailureIsCutWhileTheSideAreaIsTaken) {
  handler_.each = [](const Task&) { return task_failed(std::string(5000, 'x')); };
  for (uint32_t slot = 1; slot <= 2; ++slot) put(entry(slot));
  EXPECT_TRUE(serve_until(2).is_ok());
  EXPECT_EQ(wire::read_report(mailbox_->reports[0], &mailbox_->side, 1).message.size(), 5000U);
  const wire::Failure second = wire::read_report(mailbox_->reports[1], &mailbox_->side, 2);
  EXPECT_TRUE(second.cut);
  EXPECT_LT(second.message.size(), 1024U);
}

TEST_F(MailboxChildTest, AFaultPointEndsServingRightThere) {
  for (const char* point : {"lane.child.taken", "lane.child.answering", "lane.child.answered"}) {
    put(entry(1));
    FaultPlan plan;
    plan.fail_at(point, 1, cancelled("fault"));
    EXPECT_EQ(MailboxChild(*mailbox_, doorbell_, policy_, &plan).serve(handler_).code(), StatusCode::kCancelled);
    const bool answered = std::string_view(point) == "lane.child.answered";
    EXPECT_EQ(head(1).state, answered ? MailboxState::kTaskDone : MailboxState::kTaskReady) << point;
  }
}

}  // namespace
}  // namespace simpler::lane
