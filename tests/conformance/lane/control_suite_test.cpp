// What the control channel promises, for every body that has one.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/lane/bodies.h"

namespace simpler::lane {
namespace {

std::vector<std::byte> bytes(size_t count) {
  std::vector<std::byte> all(count);
  for (size_t i = 0; i < count; ++i) all[i] = static_cast<std::byte>(i * 7);
  return all;
}

class ControlSuite : public testing::TestWithParam<BodyKind> {
 protected:
  ControlSuite() : body_(GetParam().make({.worker_id = 3, .queue_depth = GetParam().depth})) {}

  ControlChannel& control() { return *body_->control(); }
  static Deadline soon() { return Deadline::after(10 * kSecond); }
  static Deadline at_once() { return Deadline::after(20 * kMillisecond); }

  std::unique_ptr<Body> body_;
};

TEST_P(ControlSuite, PayloadAndResultComeBack) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{wire::kControlPayloadBytes}}) {
    const std::vector<std::byte> payload = bytes(size);
    Result<ControlAnswer> answer = control().call({.command = kEcho, .args = {size + 5}, .payload = payload}, soon());
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_EQ(answer->payload, payload);
    EXPECT_EQ(answer->result, size + 5);
  }
}

TEST_P(ControlSuite, AFailureNamesWorkerCommandAndReason) {
  const Result<ControlAnswer> answer = control().call({.command = kRefuse}, soon());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(answer.status().run_code(), 9);
  EXPECT_EQ(answer.status().message(), "worker 3: control command 101 failed: no such chip");
}

TEST_P(ControlSuite, AnUnknownCommandIsAnError) {
  const Result<ControlAnswer> answer = control().call({.command = static_cast<wire::ControlCommand>(999)}, soon());
  EXPECT_EQ(answer.status().code(), StatusCode::kUnsupported);
}

TEST_P(ControlSuite, TooMuchInEitherDirectionIsRefused) {
  const std::vector<std::byte> payload = bytes(wire::kControlPayloadBytes + 1);
  EXPECT_EQ(control().call({.command = kEcho, .payload = payload}, soon()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(control().call({.command = kAnswerTooMuch}, soon()).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(control().call({.command = kEcho}, soon()).ok());
}

TEST_P(ControlSuite, ACallIsServedBetweenQueuedTasks) {
  for (uint32_t slot = 0; slot < std::min(GetParam().depth, 3U); ++slot) body_->lane().push(task(slot));
  EXPECT_TRUE(control().call({.command = kEcho}, soon()).ok());
  EXPECT_EQ(body_->collect(std::min(GetParam().depth, 3U)).size(), std::min(GetParam().depth, 3U));
}

TEST_P(ControlSuite, AStuckCommandDelaysNoPushAndIsOverWhenTheChildAnswers) {
  EXPECT_EQ(control().call({.command = kWaitAtGateCommand}, at_once()).status().code(), StatusCode::kTimeout);
  EXPECT_TRUE(control().wedged());
  const Status second = control().call({.command = kEcho}, at_once()).status();
  EXPECT_EQ(second.code(), StatusCode::kTimeout);
  EXPECT_NE(second.message().find("control command 102"), std::string_view::npos) << second.message();
  for (uint32_t slot = 0; slot < GetParam().depth; ++slot) body_->lane().push(task(slot));  // does not block
  body_->board().open_gate();
  const Result<ControlAnswer> third = control().call({.command = kEcho, .args = {77}}, soon());
  ASSERT_TRUE(third.ok()) << third.status().message();
  EXPECT_EQ(third->result, 77U) << "and not the stuck command's answer";
  EXPECT_FALSE(control().wedged());
  EXPECT_EQ(body_->collect(GetParam().depth).size(), GetParam().depth);
}

TEST_P(ControlSuite, ALostChildEndsTheCallThatWaitsAndRefusesLaterOnes) {
  Status first;
  std::thread caller([&] { first = control().call({.command = kWaitAtGateCommand}, soon()).status(); });
  EXPECT_TRUE(body_->wait_until_at_gate());
  Status why = peer_lost("was killed by signal 9").with_pid(12).with_signal(9);
  control().lose(why);
  caller.join();
  EXPECT_EQ(first.code(), StatusCode::kPeerLost);
  EXPECT_EQ(first.signal(), 9);
  const Status later = control().call({.command = kEcho}, Deadline::never()).status();
  EXPECT_EQ(later.code(), StatusCode::kPeerLost);
  EXPECT_EQ(later.message(), "worker 3: was killed by signal 9");
  body_->board().open_gate();
}

TEST_P(ControlSuite, CallersFromManyThreadsTakeTurns) {
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (uint64_t caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (uint64_t i = 0; i < 100; ++i) {
        const Result<ControlAnswer> answer = control().call({.command = kEcho, .args = {caller * 1000 + i}}, soon());
        if (answer.ok() && answer->result == caller * 1000 + i) ++right;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(right.load(), 400);
}

INSTANTIATE_TEST_SUITE_P(Every, ControlSuite,
                         testing::Values(BodyKind{"MailboxOnThread", 1, make_mailbox_on_thread},
                                         BodyKind{"MailboxOnThread", 32, make_mailbox_on_thread},
                                         BodyKind{"MailboxInChild", 1, make_mailbox_in_child},
                                         BodyKind{"MailboxInChild", 32, make_mailbox_in_child}),
                         [](const auto& kind) {
                           return kind.param.name + "OfDepth" + std::to_string(kind.param.depth);
                         });

}  // namespace
}  // namespace simpler::lane
