// Device memory, and callables that are no callables.
#include <algorithm>
#include <random>

#include "test_chip.h"

namespace simpler::chip {
namespace {

std::unique_ptr<ChipWorker> tiny_chip(uint64_t memory_limit = 0) {
  ChipOptions options;
  options.platform = "tiny";
  options.threads = 1;
  options.memory_limit = memory_limit;
  return make_chip(options);
}

TEST(Memory, CopiesAnyRangeInsideOneAllocationAndNothingElse) {
  auto chip = tiny_chip();
  const uint64_t memory = chip->malloc(1000).value();
  std::vector<uint8_t> out(1000), in(1000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 7);
  ASSERT_TRUE(chip->copy_to(memory, in.data(), 1000).is_ok());
  ASSERT_TRUE(chip->copy_from(out.data(), memory + 900, 100).is_ok()) << "up to the last byte";
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 100, in.begin() + 900));
  EXPECT_EQ(chip->copy_from(out.data(), memory + 901, 100).code(), StatusCode::kOutOfRange) << "one byte further";
  EXPECT_EQ(chip->copy_to(memory + 1000, in.data(), 1).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(chip->copy_to(memory - 1, in.data(), 1).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(chip->copy_to(memory, in.data(), ~uint64_t{0}).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(chip->copy_to(reinterpret_cast<uint64_t>(in.data()), in.data(), 1).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(chip->copy_to(0, nullptr, 0).is_ok());
}

TEST(Memory, FreesOnlyWhatMallocGaveAndOnlyOnce) {
  auto chip = tiny_chip();
  const uint64_t before = chip->committed_memory();
  const uint64_t memory = chip->malloc(5000).value();
  EXPECT_GE(chip->committed_memory(), before + 5000);
  EXPECT_EQ(chip->free(memory + 1).code(), StatusCode::kNotFound);
  EXPECT_TRUE(chip->free(memory).is_ok());
  EXPECT_EQ(chip->free(memory).code(), StatusCode::kNotFound);
  EXPECT_EQ(chip->committed_memory(), before);
  EXPECT_EQ(chip->malloc(0).status().code(), StatusCode::kInvalidArgument);
}

TEST(Memory, TheLimitIsNamedInTheRefusal) {
  auto chip = tiny_chip(1 << 20);
  const uint64_t half = chip->malloc(1 << 19).value();
  const Status status = chip->malloc(1 << 20).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1048576"), std::string_view::npos) << status.message();
  EXPECT_TRUE(chip->free(half).is_ok());
  EXPECT_TRUE(chip->malloc(1 << 20).ok());
  EXPECT_EQ(tiny_chip()->malloc(uint64_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
}

TEST(Memory, WhatARunNamesIsNotFreedBeforeItsFinalize) {
  auto chip = tiny_chip();
  const uint64_t memory = chip->malloc(4096).value();
  const uint64_t unrelated = chip->malloc(4096).value();
  ASSERT_TRUE(chip->register_callable(0, graph("chain", {kInout}).bytes()).is_ok());
  const std::vector<ChipTensor> tensors = {device(memory + 1024, 16)};
  const std::vector<uint64_t> scalars = {3};
  const RunTicket ticket = chip->prepare(0, ChipArgs{tensors, scalars}, {}).value();
  EXPECT_EQ(chip->free(memory).code(), StatusCode::kFailedPrecondition) << "an interior range pins the whole";
  EXPECT_TRUE(chip->free(unrelated).is_ok());
  ASSERT_TRUE(chip->launch(ticket).is_ok());
  ASSERT_TRUE(chip->wait(ticket, Deadline::never()).is_ok());
  EXPECT_EQ(chip->free(memory).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(chip->finalize(ticket).is_ok());
  EXPECT_TRUE(chip->free(memory).is_ok());
}

TEST(Memory, ABuildReadsDeviceMemoryUnlessAnotherRunWritesIt) {
  auto chip = tiny_chip();
  const uint64_t memory = chip->malloc(64).value();
  const std::vector<int32_t> control = {2, 0};
  ASSERT_TRUE(chip->copy_to(memory, control.data(), 8).is_ok());
  std::vector<float> x = {1, 1};
  ASSERT_TRUE(chip->register_callable(0, graph("data_driven", {kIn, kInout}).bytes()).is_ok());
  ASSERT_TRUE(chip->register_callable(1, graph("independent", {kInout}).bytes()).is_ok());
  const std::vector<ChipTensor> reads = {device(memory, 2, DataType::kInt32), host(x)};
  const std::vector<ChipTensor> writes = {device(memory + 32, 1, DataType::kInt32)};
  const std::vector<uint64_t> scalars = {kCount, 1};
  const RunTicket writer = chip->prepare(1, ChipArgs{writes, scalars}, {}).value();
  const Status refused = chip->prepare(0, ChipArgs{reads, {}}, {}).status();
  EXPECT_EQ(refused.run_code(), 5) << refused.describe();
  EXPECT_NE(refused.message().find("earlier run"), std::string_view::npos) << refused.describe();
  ASSERT_TRUE(chip->finalize(writer).is_ok());
  const Status allowed = chip->run(0, ChipArgs{reads, {}}, {});
  EXPECT_TRUE(allowed.is_ok()) << allowed.describe();
  EXPECT_EQ(x[0], (1 * 3 + 0) * 3 + 1);
}

TEST(Callables, NamesAndSignaturesComeBack) {
  const ChipCallable callable = graph("vector_example", {kIn, kIn, kOut}, "three_arguments");
  const ChipCallable parsed = ChipCallable::from_bytes(callable.bytes());
  EXPECT_EQ(parsed.func_name(), "vector_example");
  EXPECT_EQ(parsed.config_name(), "three_arguments");
  EXPECT_EQ(parsed.sig_count(), 3u);
  EXPECT_EQ(parsed.sig(2), kOut);
  EXPECT_THROW((void)parsed.sig(3), Error);
  EXPECT_EQ(parsed.child_count(), static_cast<uint32_t>(kKernels));
  EXPECT_EQ(parsed.child_func_id(5), 5u);
  EXPECT_EQ(parsed.child_offset(5) % 64, 0u);
  EXPECT_EQ(parsed.child(5).builtin_name().name, "fill");
  EXPECT_THROW((void)parsed.child(99), Error);
  const std::string name(100, 'n');
  EXPECT_EQ(ChipCallable::build({}, name, read_file(ORCHESTRATIONS), {}).func_name(), std::string(63, 'n'));
}

TEST(Callables, BuildersRefuseWhatDoesNotFit) {
  const auto code = read_file(TWICE_KERNEL);
  EXPECT_THROW((void)CoreCallable::build(Directions(33, kIn), code), Error);
  EXPECT_THROW((void)CoreCallable::build({}, {}), Error);
  EXPECT_THROW((void)CoreCallable::builtin({}, BuiltinName{"", 1}), Error);
  EXPECT_THROW((void)ChipCallable::build(Directions(257, kIn), "f", code, {}), Error);
  EXPECT_THROW((void)ChipCallable::build({}, "", code, {}), Error);
  const CoreCallable kernel = CoreCallable::build({}, code);
  const std::vector<ChipChild> twice = {{1, kernel}, {1, kernel}}, high = {{1024, kernel}};
  EXPECT_THROW((void)ChipCallable::build({}, "f", code, twice), Error);
  EXPECT_THROW((void)ChipCallable::build({}, "f", code, high), Error);
}

TEST(Callables, MissingSymbolsAndBuiltInsAreNamed) {
  auto chip = tiny_chip();
  const auto message = [&](const ChipCallable& callable) {
    const Status status = chip->register_callable(0, callable.bytes());
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.describe();
    return std::string(status.message());
  };
  EXPECT_NE(message(graph("no_such_entry", {})).find("'no_such_entry'"), std::string::npos);
  EXPECT_NE(message(graph("empty", {}, "no_such_config")).find("'no_such_config'"), std::string::npos);
  const std::vector<ChipChild> wrong = {{4, CoreCallable::build({}, read_file(ORCHESTRATIONS))}};
  EXPECT_NE(message(ChipCallable::build({}, "empty", read_file(ORCHESTRATIONS), wrong)).find("kernel func_id 4"),
            std::string::npos);
  const std::vector<ChipChild> unknown = {{0, CoreCallable::builtin({}, BuiltinName{"fill", 9})}};
  EXPECT_NE(message(ChipCallable::build({}, "empty", read_file(ORCHESTRATIONS), unknown)).find("'fill' version 9"),
            std::string::npos);
  EXPECT_NE(message(ChipCallable::builtin({}, BuiltinName{"encoder", 2}, {})).find("'encoder' version 2"),
            std::string::npos);
  EXPECT_FALSE(chip->registered(0));
}

TEST(Callables, DamagedBytesAreRefusedAndNeverCrash) {
  auto chip = tiny_chip();
  const std::vector<ChipChild> kernels = {{0, CoreCallable::build({}, read_file(TWICE_KERNEL))},
                                          {7, CoreCallable::builtin({}, BuiltinName{"fill", 1})}};
  const ChipCallable callable = ChipCallable::build(Directions{kIn}, "empty", read_file(ORCHESTRATIONS), kernels);
  const std::vector<std::byte> good(callable.bytes().begin(), callable.bytes().end());
  ASSERT_TRUE(chip->register_callable(0, good).is_ok());
  ASSERT_TRUE(chip->unregister(0).is_ok());
  for (size_t length = 0; length < good.size(); length += 1 + length / 4) {
    EXPECT_FALSE(chip->register_callable(0, std::span(good).first(length)).is_ok()) << length;
  }
  std::mt19937 engine(5);
  // Headers only: what lies inside a loadable segment is the loader's business.
  const size_t children = sizeof(ChipCallableHeader) + callable.child_offset(0);
  std::vector<std::byte> bad = good;
  for (int round = 0; round < 500; ++round) {
    const size_t at =
        round % 2 == 0 ? engine() % sizeof(ChipCallableHeader) : children + engine() % sizeof(CoreCallableHeader);
    bad[at] = static_cast<std::byte>(engine());
    const auto parsed = ChipCallable::try_from_bytes(bad);
    if (parsed.ok()) {
      EXPECT_TRUE(std::ranges::equal(parsed->bytes(), bad));
    }
    bad[at] = good[at];
  }
}

TEST(Callables, CodeThatIsNoSharedObjectIsRefusedBeforeTheLoaderSeesIt) {
  auto chip = tiny_chip();
  const auto refuse = [&](std::vector<std::byte> code) {
    const ChipCallable callable = ChipCallable::build({}, "empty", code, {});
    const Status status = chip->register_callable(0, callable.bytes());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.describe();
  };
  refuse(std::vector<std::byte>(5000, std::byte{0x41}));
  const auto good = read_file(ORCHESTRATIONS);
  // Behind the loadable part may lie symbols for a debugger, which nobody misses.
  for (size_t length : {size_t{1}, size_t{63}, size_t{100}, size_t{2000}}) {
    refuse(std::vector<std::byte>(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
  }
  auto executable = good;
  executable[16] = std::byte{2};  // e_type
  refuse(executable);
  auto foreign = good;
  foreign[18] = std::byte{0xf3};  // e_machine
  refuse(foreign);
}

}  // namespace
}  // namespace simpler::chip
