// Graphs that succeed: the same bytes on every platform and thread count.
#include <numeric>

#include "test_chip.h"

namespace simpler::chip {
namespace {

class Runs : public EveryChip {};
INSTANTIATE_TEST_SUITE_P(Chips, Runs, testing::ValuesIn(every_setup()), name_of);

TEST_P(Runs, TheVectorExampleComputesItsFormula) {
  auto chip = make_chip(options());
  std::vector<float> a(1000), b(1000), out(1000, -1), expected(1000);
  for (int i = 0; i < 1000; ++i) {
    a[i] = static_cast<float>(i % 17);
    b[i] = static_cast<float>(i % 5);
    const float sum = a[i] + b[i];
    expected[i] = (sum + 1) * (sum + 2) + sum;
  }
  const ChipCallable callable = graph("vector_example", {kIn, kIn, kOut}, "three_arguments");
  const Status status = run_once(*chip, callable, {host(a), host(b), host(out)});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(out, expected);
  EXPECT_EQ(chip->statistics().tasks, 5u);
  EXPECT_EQ(chip->statistics().blocks, 5u);
}

TEST_P(Runs, UpdatesInPlaceHappenInSubmissionOrder) {
  auto chip = make_chip(options());
  std::vector<float> x = {0, 1};
  float expected[2] = {0, 1};
  for (int k = 0; k < 12; ++k) {
    for (float& value : expected) value = value * 3 + static_cast<float>(k);
  }
  const Status status = run_once(*chip, graph("chain", {kInout}), {host(x)}, {12});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x[0], expected[0]);
  EXPECT_EQ(x[1], expected[1]);
}

TEST_P(Runs, ATransposedViewWaitsForTheRowsItReads) {
  auto chip = make_chip(options());
  std::vector<float> in(6 * 4), out(4 * 6, -1);
  std::iota(in.begin(), in.end(), 0.0f);
  const Status status = run_once(*chip, graph("transpose", {kIn, kOut}), {host(in, {6, 4}), host(out, {4, 6})});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  for (int r = 0; r < 4; ++r) {
    for (int c = 0; c < 6; ++c) EXPECT_EQ(out[r * 6 + c], in[c * 4 + r]);
  }
}

TEST_P(Runs, ReshapePermuteAndSteppedSliceNameTheRightElements) {
  auto chip = make_chip(options());
  std::vector<float> in(24), out(12, -1);
  std::iota(in.begin(), in.end(), 0.0f);
  const Status status = run_once(*chip, graph("reshapes", {kIn, kOut}), {host(in), host(out)});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  std::vector<float> flat;
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) flat.push_back(in[i * 12 + j * 4 + k]);
    }
  }
  for (int i = 0; i < 12; ++i) EXPECT_EQ(out[i], flat[2 * i + 1]);
}

TEST_P(Runs, AManualScopeFollowsExplicitDependencies) {
  auto chip = make_chip(options());
  std::vector<float> x(8, -4);
  const Status status = run_once(*chip, graph("manual_order", {kInout}), {host(x)});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x, std::vector<float>(8, (1 * 3 + 5) * 3 + 7));
}

TEST_P(Runs, EveryBlockRunsOnceAlsoWithMoreBlocksThanCores) {
  auto chip = make_chip(options());
  for (uint32_t n : {1u, 2u, 48u, 300u}) {
    std::vector<int32_t> x(n, 0);
    const Status status = run_once(*chip, graph("blocks", {kInout}), {host(x)}, {n});
    ASSERT_TRUE(status.is_ok()) << status.describe();
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(x[i], 2 * static_cast<int32_t>(i + 1)) << i;
  }
}

TEST_P(Runs, BlocksThatWaitForEachOtherMeetWhenTheyPause) {
  auto chip = make_chip(options());
  const uint32_t n = chip->cluster_count() * 2;  // one per vector core
  std::vector<int32_t> x(3, 0);
  const Status status = run_once(*chip, graph("barrier", {kInout}), {host(x)}, {n, 0});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x[2], static_cast<int32_t>(n));
}

TEST_P(Runs, BlocksThatSpinWithoutPauseMeetToo) {
  auto chip = make_chip(options());
  std::vector<int32_t> x(3, 0);
  const Status status = run_once(*chip, graph("barrier", {kInout}), {host(x)}, {4, 1});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x[2], 4);
}

TEST_P(Runs, TheBuildMayReadAndWriteArgumentsThatNoTaskTouches) {
  auto chip = make_chip(options());
  std::vector<int32_t> control = {3, 0};
  std::vector<float> x = {1, 2};
  float expected[2] = {1, 100};
  for (int k = 0; k < 3; ++k) {
    for (float& value : expected) value = value * 3 + static_cast<float>(k);
  }
  const Status status = run_once(*chip, graph("data_driven", {kIn, kInout}), {host(control), host(x)});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x, std::vector<float>(expected, expected + 2));
}

TEST_P(Runs, AViewThatIsDisjointFromEveryWriterMayBeRead) {
  auto chip = make_chip(options());
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  const Status status = run_once(*chip, graph("disjoint_read", {kInout}), {host(x)});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  EXPECT_EQ(x, (std::vector<float>{8, 8, 8, 8, 9, 9, 9, 9}));
}

TEST_P(Runs, DeviceMemoryIsReadAndWrittenInPlace) {
  auto chip = make_chip(options());
  const uint64_t memory = chip->malloc(16 * sizeof(float)).value();
  std::vector<int32_t> control = {2, 0};
  std::vector<float> x(16, 1), back(16);
  ASSERT_TRUE(chip->copy_to(memory, x.data(), 64).is_ok());
  const ChipCallable callable = graph("data_driven", {kIn, kInout});
  ASSERT_TRUE(run_once(*chip, callable, {host(control), device(memory, 16)}).is_ok());
  ASSERT_TRUE(run_once(*chip, callable, {host(control), device(memory + 32, 8)}).is_ok());
  ASSERT_TRUE(chip->copy_from(back.data(), memory, 64).is_ok());
  EXPECT_EQ(back[0], 10);   // (1 * 3 + 0) * 3 + 1
  EXPECT_EQ(back[1], 901);  // (100 * 3 + 0) * 3 + 1
  EXPECT_EQ(back[8], 91);   // twice through
  EXPECT_EQ(back[9], 901);
  EXPECT_TRUE(chip->free(memory).is_ok());
}

TEST_P(Runs, TwoPointersIntoOneAllocationAreSeenToOverlap) {
  auto chip = make_chip(options());
  const uint64_t memory = chip->malloc(64).value();
  std::vector<float> x(16, 1), out(8, 0);
  ASSERT_TRUE(chip->copy_to(memory, x.data(), 64).is_ok());
  // Argument 2 names the bytes that argument 0 does not; the sum is written over the second input.
  ASSERT_TRUE(run_once(*chip, graph("vector_example", {kIn, kIn, kOut}),
                       {device(memory, 8), device(memory + 32, 8), device(memory + 32, 8)})
                  .is_ok());
  ASSERT_TRUE(chip->copy_from(out.data(), memory + 32, 32).is_ok());
  EXPECT_EQ(out, std::vector<float>(8, 3 * 4 + 2));
}

TEST_P(Runs, AStridedHostArgumentKeepsTheBytesBetweenItsElements) {
  auto chip = make_chip(options());
  std::vector<float> grid(4 * 6);
  std::iota(grid.begin(), grid.end(), 0.0f);
  const std::vector<float> before = grid;
  ChipTensor in = host(grid, {4, 6});
  in.shapes = {4, 1, 0, 0, 0};
  in.start_offset = 1;
  ChipTensor out = in;
  out.start_offset = 4;
  ASSERT_FALSE(in.is_contiguous());
  const Status status = run_once(*chip, graph("transpose", {kIn, kOut}),
                                 {in, [&] {
                                    ChipTensor t = out;  // one row of four, with the stride of the grid
                                    t.shapes = {1, 4, 0, 0, 0};
                                    t.strides = {1, 6, 0, 0, 0};
                                    return t;
                                  }()});
  ASSERT_TRUE(status.is_ok()) << status.describe();
  for (int i = 0; i < 24; ++i) EXPECT_EQ(grid[i], i % 6 == 4 ? before[i - 3] : before[i]) << i;
}

TEST_P(Runs, CopyBackFollowsTheSignatureAndNotTheTask) {
  auto chip = make_chip(options());
  std::vector<float> a(8, 1), b(8, 2), out(8, -1);
  ASSERT_TRUE(run_once(*chip, graph("vector_example", {kIn, kIn, kIn}), {host(a), host(b), host(out)}).is_ok());
  EXPECT_EQ(out, std::vector<float>(8, -1));
  std::vector<float> token(1, 5);
  ASSERT_TRUE(
      run_once(*chip, graph("vector_example", {kIn, kIn, kOut}), {host(a), host(b), host(out), host(token)}).is_ok());
  EXPECT_EQ(out, std::vector<float>(8, 4 * 5 + 3));
  EXPECT_EQ(token[0], 5);
}

TEST_P(Runs, KernelsOfASharedObjectRunLikeBuiltInOnes) {
  auto chip = make_chip(options());
  const std::vector<ChipChild> kernels = {{0, CoreCallable::build(Directions{kIn, kOut}, read_file(TWICE_KERNEL))}};
  const ChipCallable callable = ChipCallable::build(Directions{kIn, kOut}, "twice", read_file(ORCHESTRATIONS), kernels);
  std::vector<float> in = {1, 2, 3}, out(3, 0);
  for (int round = 0; round < 3; ++round) {
    const Status status = run_once(*chip, ChipCallable::from_bytes(callable.bytes()), {host(in), host(out)});
    ASSERT_TRUE(status.is_ok()) << status.describe();
    EXPECT_EQ(out, (std::vector<float>{2, 4, 6}));
  }
}

TEST_P(Runs, AnEmptyGraphAndAnEmptyTensorAreFine) {
  auto chip = make_chip(options());
  ASSERT_TRUE(run_once(*chip, graph("empty", {}), {}).is_ok());
  std::vector<float> none;
  ChipTensor zero = host(none, {0});
  const Status status = run_once(*chip, graph("vector_example", {kIn, kIn, kOut}), {zero, zero, zero});
  EXPECT_TRUE(status.is_ok()) << status.describe();
}

TEST_P(Runs, ManyIndependentTasksAllRunAndTheStorageIsReused) {
  auto chip = make_chip(options());
  const ChipCallable callable = graph("independent", {kInout});
  ASSERT_TRUE(chip->register_callable(0, callable.bytes()).is_ok());
  std::vector<int32_t> counter(1, 0);
  const std::vector<ChipTensor> tensors = {host(counter)};
  const std::vector<uint64_t> scalars = {kCount, 1000};
  uint64_t committed = 0;
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(chip->run(0, ChipArgs{tensors, scalars}, {}).is_ok());
    if (round == 0) committed = chip->committed_memory();
  }
  EXPECT_EQ(counter[0], 4000);
  EXPECT_EQ(chip->committed_memory(), committed);
  EXPECT_EQ(chip->statistics().runs, 4u);
  EXPECT_EQ(chip->statistics().blocks, 4000u);
}

TEST_P(Runs, TheSizeOfTheWindowMayChangeFromRunToRun) {
  auto chip = make_chip(options());
  const ChipCallable callable = graph("independent", {kInout});
  int32_t expected = 0;
  for (uint64_t window : {64u, 4u, 2048u, 16u, 4096u, 0u}) {
    CallConfig config;
    config.runtime_env.ring_task_window[0] = window;
    std::vector<int32_t> counter(1, expected);
    const uint64_t tasks = window == 0 ? 100 : window;
    const Status status = run_once(*chip, callable, {host(counter)}, {kCount, tasks}, config);
    ASSERT_TRUE(status.is_ok()) << status.describe();
    expected += static_cast<int32_t>(tasks);
    EXPECT_EQ(counter[0], expected);
  }
}

TEST_P(Runs, ARunIsPreparedWhileAnotherOneIsLive) {
  auto chip = make_chip(options());
  ASSERT_TRUE(chip->register_callable(3, graph("chain", {kInout}).bytes()).is_ok());
  std::vector<float> x = {1}, y = {2};
  const std::vector<ChipTensor> for_x = {host(x)}, for_y = {host(y)};
  const std::vector<uint64_t> scalars = {2};
  const RunTicket first = chip->prepare(3, ChipArgs{for_x, scalars}, {}).value();
  ASSERT_TRUE(chip->launch(first).is_ok());
  const RunTicket second = chip->prepare(3, ChipArgs{for_y, scalars}, {}).value();
  EXPECT_EQ(chip->prepare(3, ChipArgs{for_y, scalars}, {}).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(chip->unregister(3).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(chip->wait(first, Deadline::never()).is_ok());
  EXPECT_TRUE(chip->poll(first).value());
  ASSERT_TRUE(chip->finalize(first).is_ok());
  EXPECT_EQ(chip->finalize(first).code(), StatusCode::kFailedPrecondition) << "the ticket was used up";
  ASSERT_TRUE(chip->launch(second).is_ok());
  ASSERT_TRUE(chip->wait(second, Deadline::never()).is_ok());
  ASSERT_TRUE(chip->finalize(second).is_ok());
  EXPECT_EQ(x[0], (1 * 3 + 0) * 3 + 1);
  EXPECT_EQ(y[0], (2 * 3 + 0) * 3 + 1);
  EXPECT_TRUE(chip->unregister(3).is_ok());
}

TEST_P(Runs, APreparedRunMayBeDroppedWithoutALaunch) {
  auto chip = make_chip(options());
  ASSERT_TRUE(chip->register_callable(0, graph("chain", {kInout}).bytes()).is_ok());
  std::vector<float> x = {1};
  const std::vector<ChipTensor> tensors = {host(x)};
  const std::vector<uint64_t> scalars = {2};
  const RunTicket ticket = chip->prepare(0, ChipArgs{tensors, scalars}, {}).value();
  EXPECT_EQ(chip->wait(ticket, Deadline::never()).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(chip->finalize(ticket).is_ok());
  EXPECT_EQ(x[0], 1);
  EXPECT_TRUE(chip->run(0, ChipArgs{tensors, scalars}, {}).is_ok());
}

TEST(TwoChips, OfOneProcessDoNotInterfere) {
  ChipOptions options;
  options.platform = "a2a3sim";
  options.threads = 1;
  auto one = make_chip(options);
  options.platform = "tiny";
  auto two = make_chip(options);
  std::vector<float> x = {1}, y = {5};
  const std::vector<ChipTensor> for_x = {host(x)}, for_y = {host(y)};
  const std::vector<uint64_t> scalars = {10};
  const ChipCallable callable = graph("chain", {kInout});
  ASSERT_TRUE(one->register_callable(0, callable.bytes()).is_ok());
  ASSERT_TRUE(two->register_callable(0, callable.bytes()).is_ok());
  const RunTicket a = one->prepare(0, ChipArgs{for_x, scalars}, {}).value();
  const RunTicket b = two->prepare(0, ChipArgs{for_y, scalars}, {}).value();
  ASSERT_TRUE(one->launch(a).is_ok());
  ASSERT_TRUE(two->launch(b).is_ok());
  ASSERT_TRUE(two->wait(b, Deadline::never()).is_ok());
  ASSERT_TRUE(one->wait(a, Deadline::never()).is_ok());
  ASSERT_TRUE(one->finalize(a).is_ok());
  ASSERT_TRUE(two->finalize(b).is_ok());
  float expected[2] = {1, 5};
  for (int k = 0; k < 10; ++k) {
    for (float& value : expected) value = value * 3 + static_cast<float>(k);
  }
  EXPECT_EQ(x[0], expected[0]);
  EXPECT_EQ(y[0], expected[1]);
}

}  // namespace
}  // namespace simpler::chip
