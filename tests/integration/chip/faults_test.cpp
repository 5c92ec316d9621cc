// Runs that must fail, each with its code, and a chip that works afterwards.
#include "test_chip.h"

namespace simpler::chip {
namespace {

class Faults : public EveryChip {};
INSTANTIATE_TEST_SUITE_P(Chips, Faults, testing::ValuesIn(every_setup()), name_of);

void expect_works(ChipWorker& chip) {
  std::vector<float> x = {1};
  const Status status = run_once(chip, graph("chain", {kInout}), {host(x)}, {2});
  EXPECT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x[0], (1 * 3 + 0) * 3 + 1);
}

Status mistake(ChipWorker& chip, Mistake which, const CallConfig& config = {}) {
  std::vector<float> x(8, 1), out(8, 2);
  const Status status =
      run_once(chip, graph("mistakes", {kInout, kOut}), {host(x), host(out)}, {static_cast<uint64_t>(which)}, config);
  EXPECT_TRUE(status.is_ok() || x == std::vector<float>(8, 1)) << "a failed build changes no argument";
  return status;
}

TEST_P(Faults, EveryMisuseOfTheAuthorApiIsCodeFiveWithItsReason) {
  auto chip = make_chip(options());
  const std::pair<Mistake, const char*> cases[] = {
      {Mistake::kScalarBeforeTensor, "tensors come first"},
      {Mistake::kTooManyTensors, "more than 32 tensors"},
      {Mistake::kTooManyScalars, "more than 16 scalars"},
      {Mistake::kUnknownKernel, "func_id 999"},
      {Mistake::kNoKernel, "rt_submit_dummy_task"},
      {Mistake::kAutoInManual, "AUTO inside MANUAL"},
      {Mistake::kDeepScopes, "deeper than 64"},
      {Mistake::kFutureDependency, "names no earlier task"},
      {Mistake::kViewOutside, "view"},
      {Mistake::kZeroBlocks, "block_num is 0"},
      {Mistake::kReadOwnOutput, "made by task 0"},
      {Mistake::kReadWritten, "a task of this graph writes"},
      {Mistake::kReadWrittenInManualScope, "a task of this graph writes"},
      {Mistake::kWriteWhatIsRead, "uses these elements already"},
      {Mistake::kReadPureOutput, "pure output"},
      {Mistake::kIndexOutside, "index 1000"},
      {Mistake::kWrongElementSize, "value of 8 bytes"},
      {Mistake::kForeignMemory, "no argument of this run"},
      {Mistake::kArgumentIndex, "fewer tensor arguments"},
      {Mistake::kThrow, "no graph today"},
  };
  for (const auto& [which, reason] : cases) {
    const Status status = mistake(*chip, which);
    EXPECT_EQ(status.run_code(), 5) << status.describe();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(reason), std::string_view::npos) << status.describe();
    EXPECT_NE(status.message().find("INVALID_ARGS"), std::string_view::npos);
  }
  expect_works(*chip);
}

TEST_P(Faults, AnAuthorsFatalIsCodeNineWithTheFirstText) {
  auto chip = make_chip(options());
  const Status status = mistake(*chip, Mistake::kFatal);
  EXPECT_EQ(status.run_code(), 9);
  EXPECT_NE(status.message().find("fatal 77: value 5 is not right"), std::string_view::npos) << status.describe();
  EXPECT_EQ(chip->statistics().tasks, 0u) << "nothing ran";
  expect_works(*chip);
}

TEST_P(Faults, ExhaustedResourcesHaveTheirCodes) {
  auto chip = make_chip(options());
  CallConfig config;
  config.runtime_env.ring_heap[0] = 1024;
  EXPECT_EQ(mistake(*chip, Mistake::kHeap, config).run_code(), 2);
  EXPECT_TRUE(mistake(*chip, Mistake::kHeap).is_ok()) << "the default heap is larger";
  config = CallConfig{};
  config.runtime_env.ring_task_window[0] = 4;
  EXPECT_EQ(mistake(*chip, Mistake::kWindow, config).run_code(), 3);
  EXPECT_TRUE(mistake(*chip, Mistake::kProducers128).is_ok());
  EXPECT_EQ(mistake(*chip, Mistake::kProducers129).run_code(), 4);
  EXPECT_TRUE(mistake(*chip, Mistake::kTensorMap).is_ok());
  ChipOptions small = options();
  small.tensor_map_entries = 2;
  auto small_chip = make_chip(small);
  const Status full = mistake(*small_chip, Mistake::kTensorMap);
  EXPECT_EQ(full.run_code(), 11) << full.describe();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  expect_works(*small_chip);
  expect_works(*chip);
}

TEST_P(Faults, AFullReadyQueueIsCode104) {
  ChipOptions small = options();
  small.ready_queue_entries = 4;
  auto chip = make_chip(small);
  std::vector<int32_t> counter(1, 0);
  const Status status = run_once(*chip, graph("independent", {kInout}), {host(counter)}, {kCount, 9});
  EXPECT_EQ(status.run_code(), 104) << status.describe();
  EXPECT_EQ(counter[0], 0);
  expect_works(*chip);
}

TEST_P(Faults, WhatIsNotOfferedSaysSoAndNamesWhatIs) {
  auto chip = make_chip(options());
  for (Mistake which : {Mistake::kMix, Mistake::kSyncStart, Mistake::kPredicate, Mistake::kGraph}) {
    const Status status = mistake(*chip, which);
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << status.describe();
    EXPECT_NE(status.message().find("task"), std::string_view::npos);
  }
  CallConfig config;
  config.enable_dump_args = 1;
  ASSERT_TRUE(set_output_prefix(config, "/tmp/x").is_ok());
  EXPECT_EQ(mistake(*chip, Mistake::kWindow, config).code(), StatusCode::kUnsupported);
  expect_works(*chip);
}

TEST_P(Faults, TooFewArgumentsFailBeforeAnyTask) {
  auto chip = make_chip(options());
  std::vector<float> a(4, 1);
  const Status few = run_once(*chip, graph("vector_example", {}, "three_arguments"), {host(a), host(a)});
  EXPECT_EQ(few.run_code(), 5);
  EXPECT_NE(few.message().find("expects 3 arguments"), std::string_view::npos) << few.describe();
  EXPECT_EQ(run_once(*chip, graph("vector_example", {kIn, kIn, kOut}), {host(a), host(a)}).run_code(), 5);
  const Status scalar = run_once(*chip, graph("chain", {kInout, ArgDirection::kScalar}), {host(a)}, {});
  EXPECT_EQ(scalar.run_code(), 5) << scalar.describe();
}

TEST_P(Faults, ADeviceTensorBeyondTheSignatureIsRefused) {
  auto chip = make_chip(options());
  const uint64_t memory = chip->malloc(64).value();
  std::vector<float> a(4, 1);
  const Status status = run_once(*chip, graph("vector_example", {kInout}), {host(a), device(memory, 4)});
  EXPECT_EQ(status.run_code(), 5);
  EXPECT_NE(status.message().find("beyond the signature"), std::string_view::npos) << status.describe();
  EXPECT_TRUE(chip->free(memory).is_ok()) << "nothing was borrowed";
}

TEST_P(Faults, MalformedTensorsAreRefusedByIndex) {
  auto chip = make_chip(options());
  std::vector<float> a(4, 1);
  for (int which = 0; which < 5; ++which) {
    ChipTensor bad = host(a);
    if (which == 0) bad.ndims = 6;
    if (which == 1) bad.strides[0] = 0;
    if (which == 2) bad.shapes[0] = 5;
    if (which == 3) bad.start_offset = ~uint64_t{0};
    if (which == 4) bad.dtype = static_cast<DataType>(99);
    const Status status = run_once(*chip, graph("vector_example", {kIn, kIn, kOut}), {host(a), bad, host(a)});
    EXPECT_EQ(status.run_code(), 5) << which;
    EXPECT_NE(status.message().find("tensor 1"), std::string_view::npos) << status.describe();
  }
}

TEST_P(Faults, AKernelThatThrowsFailsTheRunAndIsNamed) {
  auto chip = make_chip(options());
  std::vector<int32_t> x(1, 3);
  const Status status = run_once(*chip, graph("independent", {kInout}), {host(x)}, {kThrows, 6});
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(status.type_name(), "std::runtime_error");
  EXPECT_EQ(status.task(), "2");
  EXPECT_NE(status.message().find("kernel 'throws'"), std::string_view::npos) << status.describe();
  EXPECT_NE(status.message().find("the third task is no good"), std::string_view::npos);
  expect_works(*chip);
}

TEST_P(Faults, AKernelThatNeverReturnsEndsTheRunAndTheChipGoesOn) {
  ChipOptions quick = options();
  quick.watchdog = 50 * kMillisecond;
  auto chip = make_chip(quick);
  const uint64_t memory = chip->malloc(64).value();
  const uint64_t other = chip->malloc(64).value();
  const Status status = run_once(*chip, graph("independent", {kInout}), {device(memory, 4)}, {kStuck, 1});
  EXPECT_EQ(status.run_code(), 100) << status.describe();
  EXPECT_NE(status.message().find("task 0, kernel 'stuck'"), std::string_view::npos) << status.describe();
  EXPECT_NE(status.message().find("core "), std::string_view::npos);
  EXPECT_EQ(status.task(), "0");
  EXPECT_EQ(chip->statistics().lost_threads, 1u);
  EXPECT_GT(chip->statistics().quarantined_bytes, 0u);
  EXPECT_EQ(chip->free(memory).code(), StatusCode::kFailedPrecondition) << "the kernel may still write there";
  EXPECT_TRUE(chip->free(other).is_ok());
  for (int round = 0; round < 3; ++round) expect_works(*chip);
  EXPECT_EQ(run_once(*chip, graph("independent", {kInout}), {device(memory, 4)}, {kStuck, 3}).run_code(), 100);
  expect_works(*chip);
  chip.reset();  // with threads still inside kernels
  ++stuck_kernel_releases;
}

TEST_P(Faults, ABlockThatPausesForEverEndsTheRun) {
  ChipOptions quick = options();
  quick.watchdog = 50 * kMillisecond;
  auto chip = make_chip(quick);
  std::vector<int32_t> x(1, 3);
  const Status status = run_once(*chip, graph("independent", {kInout}), {host(x)}, {kWaitForever, 2});
  EXPECT_EQ(status.run_code(), 100) << status.describe();
  EXPECT_NE(status.message().find("kernel 'wait_forever'"), std::string_view::npos) << status.describe();
  expect_works(*chip);
}

TEST(ChipOptions, UnknownNamesAndBadNumbersAreRefused) {
  ChipOptions options;
  options.platform = "a9sim";
  const Status platform = ChipWorker::create(options).status();
  EXPECT_EQ(platform.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(platform.message().find("tiny"), std::string_view::npos) << platform.message();
  options.platform = "tiny";
  options.runtime = "tensormap_and_ringbuffer";
  EXPECT_EQ(ChipWorker::create(options).status().code(), StatusCode::kUnsupported);
  options.runtime = "host_build_graph";
  options.clusters = 3;
  EXPECT_EQ(ChipWorker::create(options).status().code(), StatusCode::kInvalidArgument);
  options.clusters = 0;
  options.task_window = 6;
  EXPECT_EQ(ChipWorker::create(options).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace simpler::chip
