#include "wire/dispatch_line.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/seeded_random.h"
#include "wire/golden_test.h"

namespace simpler::wire {
namespace {

Dispatch example() {
  return {.sequence = 0x89abcdef,
          .state = MailboxState::kTaskReady,
          .flags = 0x30,
          .callable = 0x0123,
          .slot = 0x11111111,
          .slot_generation = 0x22222222,
          .after_mask = 0x80000001,
          .args = 0x33333333,
          .config = 0x44,
          .tensors = 0x55,
          .scalars = 0x66,
          .lease = 0x77,
          .run = 0x88888888,
          .lease_generation = 0x99999999,
          .inline_tensor = golden::record_of<TensorRef>(golden::kTensorRef)};
}

TEST(DispatchLine, BytesEqualTheGoldenVector) {
  DispatchLine line{};
  store(line, compose(example()));
  EXPECT_EQ(golden::hex_of(line), golden::kLine);
  const auto read = golden::record_of<DispatchLine>(golden::kLine);
  EXPECT_EQ(load_rest(read, load_head(read)), example());
}

TEST(DispatchLine, AZeroedLineIsIdle) {
  const DispatchLine line{};
  const LineHead head = parse_head(load_head(line));
  EXPECT_EQ(head.state, MailboxState::kIdle);
  EXPECT_EQ(head.sequence, 0u);
  EXPECT_EQ(load_rest(line, load_head(line)), Dispatch{});
}

TEST(DispatchLine, EveryBitPatternSurvivesComposeAndParse) {
  SeededRandom random(1);
  for (int round = 0; round < 100000; ++round) {
    LineWords words;
    for (uint64_t& word : words.word) word = random.next();
    const LineWords again = compose(parse(words));
    for (int i = 0; i < 8; ++i) ASSERT_EQ(again.word[i], words.word[i]) << i;
  }
}

TEST(DispatchLine, AnAnswerKeepsSequenceCallableAndFlags) {
  const LineHead head = parse_head(compose(example()).word[0]);
  const LineHead done = parse_head(compose_answer(head, MailboxState::kTaskDone));
  EXPECT_EQ(done.sequence, head.sequence);
  EXPECT_EQ(done.callable, head.callable);
  EXPECT_EQ(done.state, MailboxState::kTaskDone);
  EXPECT_EQ(done.flags, head.flags);
  const LineHead skipped = parse_head(compose_answer(head, MailboxState::kTaskFailed, true));
  EXPECT_EQ(skipped.flags, head.flags | kFlagSkipped);
  EXPECT_EQ(parse_head(compose_answer(skipped, MailboxState::kTaskDone)).flags, head.flags);
}

TEST(DispatchLine, OnlyWellFormedTasksAreRunnable) {
  const Dispatch good = example();
  EXPECT_TRUE(is_runnable(good));
  for (int state = 0; state < 256; ++state) {
    Dispatch d = good;
    d.state = static_cast<MailboxState>(state);
    EXPECT_EQ(is_runnable(d), state == 1 || state == 12) << state;
  }
  for (int flags = 0; flags < 256; ++flags) {
    Dispatch d = good;
    d.flags = static_cast<uint8_t>(flags);
    EXPECT_EQ(is_runnable(d), (flags & ~0x30) == 0) << flags;
  }
  Dispatch d = good;
  d.callable = 0;
  EXPECT_FALSE(is_runnable(d));
  d = good;
  d.tensors = 0;  // but an inline tensor
  EXPECT_FALSE(is_runnable(d));
  d = good;
  d.args = 0;  // arguments, but no block
  EXPECT_FALSE(is_runnable(d));
  d.tensors = 1;
  d.scalars = 0;
  EXPECT_TRUE(is_runnable(d));  // the inline tensor is all there is
}

TEST(DispatchLine, ActivationHappensOnceAndOnlyFromTheExpectedState) {
  DispatchLine line{};
  const uint64_t staged = compose_head(5, MailboxState::kFrameStaged, 0, 1);
  const uint64_t active = compose_head(5, MailboxState::kActivate, 0, 1);
  store_head(line, staged);
  EXPECT_TRUE(exchange_head(line, staged, active));
  EXPECT_FALSE(exchange_head(line, staged, active));
  EXPECT_EQ(parse_head(load_head(line)).state, MailboxState::kActivate);
}

TEST(DispatchLine, AReaderThatSeesTheSequenceSeesTheWholeLine) {
  DispatchLine line{};
  constexpr uint32_t kRounds = 2000;
  std::thread child([&line] {
    for (uint32_t sequence = 1; sequence <= kRounds; ++sequence) {
      uint64_t head = load_head(line);
      while (parse_head(head).sequence != sequence || parse_head(head).state != MailboxState::kTaskReady) {
        std::this_thread::yield();
        head = load_head(line);
      }
      const Dispatch d = load_rest(line, head);
      ASSERT_EQ(d.slot, sequence);
      ASSERT_EQ(d.inline_tensor.byte_offset, sequence * uint64_t{3});
      store_head(line, compose_answer(parse_head(head), MailboxState::kTaskDone));
    }
  });
  for (uint32_t sequence = 1; sequence <= kRounds; ++sequence) {
    Dispatch d = example();
    d.sequence = sequence;
    d.slot = sequence;
    d.inline_tensor.byte_offset = sequence * uint64_t{3};
    store(line, compose(d));
    while (parse_head(load_head(line)).state != MailboxState::kTaskDone) std::this_thread::yield();
  }
  child.join();
}

}  // namespace
}  // namespace simpler::wire
