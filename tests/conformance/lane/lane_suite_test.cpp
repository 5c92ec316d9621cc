// What every lane promises, asked of every body at several depths.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "conformance/lane/bodies.h"

namespace simpler::lane {
namespace {

class LaneSuite : public testing::TestWithParam<BodyKind> {
 protected:
  LaneSuite() : body_(GetParam().make({.type = WorkerType::kSub, .worker_id = 3, .queue_depth = GetParam().depth})) {}

  Lane& lane() { return body_->lane(); }
  Board& board() { return body_->board(); }
  uint32_t depth() const { return GetParam().depth; }
  // Pushes one task and waits for its end.
  Completion run_one(const wire::Dispatch& dispatch) {
    lane().push(dispatch);
    const std::vector<Completion> got = body_->collect(1);
    return got.empty() ? Completion{.slot = 0xDEAD} : got[0];
  }

  std::unique_ptr<Body> body_;
};

TEST_P(LaneSuite, AnswersInPushOrderWithTheSlotsThatWerePushed) {
  for (uint32_t slot = 0; slot < depth(); ++slot) lane().push(task(slot));
  const std::vector<Completion> got = body_->collect(depth());
  ASSERT_EQ(got.size(), depth());
  for (uint32_t slot = 0; slot < depth(); ++slot) {
    EXPECT_EQ(got[slot].slot, slot);
    EXPECT_EQ(got[slot].slot_generation, slot + 1000);
    EXPECT_EQ(got[slot].outcome, Outcome::kSuccess);
    EXPECT_EQ(board().slots[slot].load(), slot);
  }
}

TEST_P(LaneSuite, OffersAsManyLinesAsItsDepth) {
  EXPECT_EQ(lane().free_lines(), depth());
  for (uint32_t slot = 0; slot < depth(); ++slot) {
    lane().push(task(slot));
    EXPECT_EQ(lane().free_lines(), depth() - slot - 1);
  }
  EXPECT_EQ(body_->collect(depth()).size(), depth());
  EXPECT_EQ(lane().free_lines(), depth());
  std::array<Completion, 1> none;
  EXPECT_EQ(lane().poll(none), 0U);
}

TEST_P(LaneSuite, AFailureArrivesWithItsDetails) {
  const Completion got = run_one(task(7, kFail));
  EXPECT_EQ(got.outcome, Outcome::kTaskFailure);
  const Status why = lane().take_failure(got);
  EXPECT_EQ(why.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(why.message(), "slot 7 went wrong");
  EXPECT_EQ(why.type_name(), "ValueError");
  EXPECT_EQ(why.traceback(), "line 1\nline 2\n");
  EXPECT_EQ(why.run_code(), 9);
}

TEST_P(LaneSuite, LongTextOutsideAsciiArrivesWhole) {
  const Completion got = run_one(task(1, kFailLong));
  const Status why = lane().take_failure(got);
  EXPECT_EQ(why.message(), long_text());
  EXPECT_EQ(why.traceback(), long_text());
  EXPECT_EQ(why.type_name(), "builtins.RuntimeError");
}

TEST_P(LaneSuite, AFailedTaskLeavesTheNextOneAlone) {
  EXPECT_EQ(run_one(task(1, kFail)).outcome, Outcome::kTaskFailure);
  EXPECT_EQ(run_one(task(2)).outcome, Outcome::kSuccess);
  EXPECT_TRUE(lane().alive());
}

TEST_P(LaneSuite, AnEntryAfterAFailedOneIsSkippedAndSoIsItsSuccessor) {
  EXPECT_EQ(run_one(task(1, kFail)).outcome, Outcome::kTaskFailure);
  const Completion second = run_one(task(2, kSucceed, 0b1));
  EXPECT_EQ(second.outcome, Outcome::kSkipped);
  EXPECT_EQ(lane().take_failure(second).code(), StatusCode::kSkipped);
  EXPECT_EQ(run_one(task(3, kSucceed, 0b1)).outcome, Outcome::kSkipped);
  EXPECT_EQ(run_one(task(4, kSucceed)).outcome, Outcome::kSuccess);
  EXPECT_EQ(run_one(task(5, kSucceed, 0b1)).outcome, Outcome::kSuccess);
  EXPECT_EQ(run_one(task(6, kSucceed, 0b10000)).outcome, Outcome::kSkipped);
  EXPECT_EQ(board().ran.load(), 3U) << "only slots 1, 4 and 5 ran";
}

TEST_P(LaneSuite, LinesOfACancelledRunAreSkippedAndOtherRunsGoOn) {
  lane().cancel(2);
  EXPECT_EQ(run_one(task(1, kSucceed, 0, 2)).outcome, Outcome::kSkipped);
  EXPECT_EQ(run_one(task(2, kSucceed, 0, 3)).outcome, Outcome::kSuccess);
  lane().cancel(3);
  EXPECT_EQ(run_one(task(3, kSucceed, 0, 3)).outcome, Outcome::kSkipped);
  EXPECT_EQ(run_one(task(4, kSucceed, 0, 2)).outcome, Outcome::kSkipped);
  EXPECT_EQ(run_one(task(5, kSucceed, 0, 4)).outcome, Outcome::kSuccess);
}

TEST_P(LaneSuite, CancelReachesLinesThatAreAlreadyQueued) {
  if (!body_->concurrent() || depth() < 3) GTEST_SKIP() << "needs a far end that runs by itself and three lines";
  lane().push(task(1, kWaitAtGate));
  lane().push(task(2));
  lane().push(task(3, kSucceed, 0, 9));
  ASSERT_TRUE(body_->wait_until_at_gate());
  lane().cancel(1);
  board().open_gate();
  const std::vector<Completion> got = body_->collect(3);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].outcome, Outcome::kSuccess) << "what had started finishes";
  EXPECT_EQ(got[1].outcome, Outcome::kSkipped);
  EXPECT_EQ(got[2].outcome, Outcome::kSuccess);
}

TEST_P(LaneSuite, ALostLaneEndsItsUnansweredLinesAndTakesNoMore) {
  EXPECT_EQ(run_one(task(1)).outcome, Outcome::kSuccess);
  lane().push(task(2, body_->concurrent() ? kWaitAtGate : kSucceed));
  if (depth() > 1) lane().push(task(3));
  if (body_->concurrent()) {
    ASSERT_TRUE(body_->wait_until_at_gate());
  }
  lane().lose(body_->kill());
  EXPECT_FALSE(lane().alive());
  EXPECT_EQ(lane().free_lines(), 0U);
  const std::vector<Completion> got = body_->collect(std::min(depth(), 2U));
  ASSERT_EQ(got.size(), std::min(depth(), 2U));
  for (const Completion& completion : got) {
    EXPECT_EQ(completion.outcome, Outcome::kEndpointFailure);
    const Status why = lane().take_failure(completion);
    EXPECT_EQ(why.code(), StatusCode::kPeerLost);
    EXPECT_EQ(why.signal(), 9);
    EXPECT_NE(why.pid(), 0);
    EXPECT_NE(why.message().find("worker 3"), std::string_view::npos) << why.message();
    EXPECT_NE(why.message().find("signal 9"), std::string_view::npos) << why.message();
  }
  EXPECT_EQ(lane().health().signal(), 9);
}

TEST_P(LaneSuite, AnswersThatALostChildLeftStillCount) {
  if (!body_->concurrent()) GTEST_SKIP() << "an in-process lane runs a task only when it is polled";
  if (depth() < 3) GTEST_SKIP() << "needs three lines";
  lane().push(task(1));
  lane().push(task(2, kFail));
  lane().push(task(3, kWaitAtGate));
  ASSERT_TRUE(body_->wait_until_at_gate());
  lane().lose(body_->kill());
  const std::vector<Completion> got = body_->collect(3);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].outcome, Outcome::kSuccess);
  EXPECT_EQ(got[1].outcome, Outcome::kTaskFailure);
  EXPECT_EQ(lane().take_failure(got[1]).message(), "slot 2 went wrong");
  EXPECT_EQ(got[2].outcome, Outcome::kEndpointFailure);
  EXPECT_NE(lane().take_failure(got[2]).message().find("while the task ran"), std::string_view::npos);
}

TEST_P(LaneSuite, LosingALaneTwiceKeepsTheFirstReason) {
  lane().lose(peer_lost("first").with_pid(5));
  lane().lose(peer_lost("second").with_pid(6));
  EXPECT_EQ(lane().health().pid(), 5);
}

// Random batches of random tasks with random after-masks against a serial model of the contract.
TEST_P(LaneSuite, TenThousandTasksAgreeWithASerialModel) {
  for (const uint64_t seed : {1U, 2U, 3U}) {
    SeededRandom random(seed);
    std::vector<bool> succeeded;  // per task of this round
    uint64_t digest = board().digest.load();
    std::vector<Outcome> expected;
    std::vector<Outcome> got;
    uint32_t pushed = 0;
    const uint32_t total = 3000;
    while (got.size() < total) {
      const auto batch = std::min(static_cast<uint32_t>(random.below(lane().free_lines() + 1)), total - pushed);
      for (uint32_t i = 0; i < batch; ++i) {
        wire::Dispatch next = task(pushed, random.below(8) == 0 ? kFail : kSucceed);
        next.lease = static_cast<uint16_t>(random.below(65536));
        next.lease_generation = static_cast<uint32_t>(random.below(uint64_t{1} << 32));
        next.config = static_cast<uint16_t>(random.below(1024));
        next.args = static_cast<uint32_t>(random.below(uint64_t{1} << 32)) | 1;
        next.tensors = static_cast<uint16_t>(random.below(256));
        next.scalars = static_cast<uint16_t>(random.below(128));
        const uint32_t reach = std::min<uint32_t>(pushed, 32);
        for (int bits = 0; bits < 2 && reach > 0; ++bits) next.after_mask |= 1U << random.below(reach);
        bool blocked = false;
        for (uint32_t bit = 0; bit < reach; ++bit) {
          blocked = blocked || ((next.after_mask >> bit & 1U) != 0 && !succeeded[pushed - 1 - bit]);
        }
        const Outcome outcome =
            blocked ? Outcome::kSkipped : (next.callable == kFail ? Outcome::kTaskFailure : Outcome::kSuccess);
        if (!blocked) digest = fold(digest, next);
        succeeded.push_back(outcome == Outcome::kSuccess);
        expected.push_back(outcome);
        lane().push(next);
        ++pushed;
      }
      const auto want = static_cast<uint32_t>(random.below(pushed - got.size() + 1));
      const std::vector<Completion> some =
          body_->collect(batch == 0 && pushed > got.size() ? std::max(want, 1U) : want);
      for (const Completion& completion : some) {
        ASSERT_EQ(completion.slot, got.size());
        got.push_back(completion.outcome);
        if (completion.outcome == Outcome::kTaskFailure) {
          ASSERT_EQ(lane().take_failure(completion).message(),
                    "slot " + std::to_string(completion.slot) + " went wrong");
        }
      }
    }
    EXPECT_EQ(got, expected) << "seed " << seed;
    EXPECT_EQ(board().digest.load(), digest) << "seed " << seed;
  }
}

std::vector<BodyKind> all_bodies() {
  std::vector<BodyKind> kinds;
  for (const uint32_t depth : {1U, 3U, 32U}) {
    kinds.push_back({"Inproc", depth, make_inproc});
    kinds.push_back({"MailboxOnThread", depth, make_mailbox_on_thread});
    kinds.push_back({"MailboxInChild", depth, make_mailbox_in_child});
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Every, LaneSuite, testing::ValuesIn(all_bodies()), [](const auto& kind) {
  return kind.param.name + "OfDepth" + std::to_string(kind.param.depth);
});

}  // namespace
}  // namespace simpler::lane
