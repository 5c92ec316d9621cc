// Chips under a worker: level 2 in this process, level 3 in children, on every simulated platform with equal bytes.
#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault_point.h"
#include "node_fixture.h"
#include "process/process_test_support.h"
#include "worker/faults.h"

namespace simpler::testing {
namespace {

constexpr ArgDirection kIn = ArgDirection::kIn;
constexpr ArgDirection kOut = ArgDirection::kOut;

float* floats(const Buffer& buffer) {
  return reinterpret_cast<float*>(buffer.data());
}

constexpr std::uint32_t kCount = 1000;

class ChipTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ChipTest, ALevelTwoWorkerRunsACallableInThisProcess) {
  Worker worker({.level = 2, .platform = GetParam()});
  const CallableHandle callable = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  worker.init();
  const Buffer buffer = worker.create_buffer(kCount * 4 * 3);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    floats(buffer)[i] = static_cast<float>(i);
    floats(buffer)[kCount + i] = 2;
  }
  TaskArgs args;
  args.input(buffer.tensor({kCount}, DataType::kFloat32));
  args.input(buffer.tensor({kCount}, DataType::kFloat32, kCount * 4));
  args.output(buffer.tensor({kCount}, DataType::kFloat32, kCount * 8));
  worker.run(callable, args);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(floats(buffer)[2 * kCount + i], 3.0F * static_cast<float>(i)) << i;
  }
  worker.close();
}

TEST_P(ChipTest, TwoChipsOfANodeExchangeDataThroughSharedMemory) {
  Worker worker({.level = 3, .platform = GetParam(), .device_ids = {0, 1}, .num_sub_workers = 1});
  const CallableHandle chip = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  const CallableHandle fill = worker.register_native("fill", [](const MappedArgs& args) {
    for (std::uint32_t i = 0; i < args[0].shape[0]; ++i) {
      args[0].as<float>()[i] = static_cast<float>(i % 7);
    }
  });
  worker.init();
  const Buffer ones = worker.create_buffer(kCount * 4);
  const Buffer result = worker.create_buffer(kCount * 4);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    floats(ones)[i] = 1;
  }
  worker.run([&](Orchestrator& orch) {
    const auto view = [](const Buffer& buffer) { return buffer.tensor({kCount}, DataType::kFloat32); };
    const Buffer first = orch.alloc({kCount}, DataType::kFloat32);
    const Buffer second = orch.alloc({kCount}, DataType::kFloat32);
    orch.submit_sub(fill, TaskArgs().output(view(first)));
    orch.submit_next_level(chip, TaskArgs().input(view(first)).input(view(ones)).output(view(second)), 0);
    orch.submit_next_level(chip, TaskArgs().input(view(second)).input(view(ones)).output(view(result)), 1);
  });
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(floats(result)[i], 4.0F * static_cast<float>(i % 7)) << i;
  }
  worker.close();
}

TEST_P(ChipTest, WeightsStayInDeviceMemoryBetweenRuns) {
  Worker worker({.level = 3, .platform = GetParam(), .device_ids = {0}, .num_sub_workers = 0});
  const CallableHandle chip = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  worker.init();
  const Buffer host = worker.create_buffer(kCount * 4);
  for (std::uint32_t i = 0; i < kCount; ++i) {
    floats(host)[i] = 4;
  }
  const std::uint32_t shape[] = {kCount};
  const std::uint64_t before = worker.committed_device_memory(0);
  const Buffer weights = worker.alloc_child_tensor(0, shape, DataType::kFloat32);
  EXPECT_GE(worker.committed_device_memory(0), before + kCount * 4);
  worker.copy_to(weights, host);
  for (int run = 0; run < 3; ++run) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      floats(host)[i] = static_cast<float>(run + 1);
    }
    const Buffer out = worker.create_buffer(kCount * 4);
    worker.run([&](Orchestrator& orch) {
      orch.submit_next_level(chip,
                             TaskArgs()
                                 .input(host.tensor({kCount}, DataType::kFloat32))
                                 .input(weights.tensor({kCount}, DataType::kFloat32))
                                 .output(out.tensor({kCount}, DataType::kFloat32)),
                             0);
    });
    ASSERT_EQ(floats(out)[kCount - 1], 5.0F * static_cast<float>(run + 1));
    worker.release_buffer(out);
  }
  const Buffer back = worker.create_buffer(kCount * 4);
  worker.copy_from(back, weights);
  EXPECT_EQ(floats(back)[7], 4.0F);
  const std::uint64_t full = worker.committed_device_memory(0);
  worker.free(weights);
  EXPECT_LE(worker.committed_device_memory(0), full - kCount * 4);
  worker.close();
}

TEST_P(ChipTest, ACallableRegisteredOnAReadyWorkerRuns) {
  Worker worker({.level = 3, .platform = GetParam(), .device_ids = {0, 1}, .num_sub_workers = 0});
  worker.init();
  const CallableHandle chip = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  const Buffer buffer = worker.create_buffer(4 * 3);
  floats(buffer)[0] = 6;
  floats(buffer)[1] = 6;
  for (const int target : {0, 1}) {
    floats(buffer)[2] = 0;
    worker.run([&](Orchestrator& orch) {
      orch.submit_next_level(chip,
                             TaskArgs()
                                 .input(buffer.tensor({1}, DataType::kFloat32))
                                 .input(buffer.tensor({1}, DataType::kFloat32, 4))
                                 .output(buffer.tensor({1}, DataType::kFloat32, 8)),
                             target);
    });
    EXPECT_EQ(floats(buffer)[2], 42.0F);
  }
  worker.unregister(chip);
  worker.close();
}

INSTANTIATE_TEST_SUITE_P(Platforms, ChipTest, ::testing::Values("a2a3sim", "a5sim", "tiny"),
                         [](const auto& given) { return std::string(given.param); });

// What a chip child passes on the way through its tasks, with the shared mappings that it has there.
struct Passed {
  struct Place {
    std::array<char, 32> point{};
    std::size_t mappings = 0;
  };
  std::array<Place, 64> places;
  std::size_t count = 0;  // the one chip child writes, the parent reads once the run is over

  void note(std::string_view point) {
    places.at(count) = {};
    std::memcpy(places[count].point.data(), point.data(), std::min<std::size_t>(point.size(), 31));
    std::ifstream maps("/proc/self/maps");
    std::string range, access, rest;
    while (maps >> range >> access && std::getline(maps, rest)) {
      places[count].mappings += access.back() == 's' ? 1 : 0;
    }
    ++count;
  }
  std::vector<std::string> points() const {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < count; ++i) {
      all.emplace_back(places[i].point.data());
    }
    return all;
  }
};

class ChipOrderTest : public ::testing::Test {
 protected:
  ChipOrderTest() {
    plan.on_reach([this](std::string_view point) {
      const bool of_a_task = point.substr(0, 5) == "task." || point.substr(0, 5) == "lane.";
      if (of_a_task && point != "lane.child.control") {
        passed->note(point);
      }
      return Status::ok();
    });
  }
  void start() {
    worker::set_fault_plan(worker, &plan);
    chip = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
    worker.init();
    // Made after the fork: the child has to look for it.
    buffer = worker.create_buffer(12);
    floats(buffer)[0] = floats(buffer)[1] = 6;
    floats(buffer)[2] = 0;
  }
  Status run() {
    Status status = thrown([&] {
      worker.run([&](Orchestrator& orch) {
        const auto number = [&](std::uint64_t place) { return buffer.tensor({1}, DataType::kFloat32, 4 * place); };
        orch.submit_next_level(chip, TaskArgs().input(number(0)).input(number(1)).output(number(2)), 0);
      });
    });
    // The answer is seen before the child is past the last step; it serves a command only when it is.
    (void)worker.committed_device_memory(0);
    return status;
  }

  process::SharedForTest<Passed> passed;
  FaultPlan plan;
  Worker worker{{.level = 3, .platform = "tiny", .device_ids = {0}, .num_sub_workers = 0}};
  CallableHandle chip;
  Buffer buffer;
};

// S0-050
TEST_F(ChipOrderTest, AChildTakesDecodesResolvesRunsAndAnswersInThisOrder) {
  const std::vector<std::string> order = {"lane.child.taken",   "task.chip.decode", "task.chip.import",
                                          "task.chip.run",      "task.chip.ran",    "lane.child.answering",
                                          "lane.child.answered"};
  start();
  EXPECT_TRUE(run().is_ok());
  EXPECT_EQ(floats(buffer)[2], 42.0F);
  EXPECT_EQ(passed->points(), order);
  // The buffer is mapped between the look for it and the run, at a place of the child's own.
  EXPECT_EQ(passed->places[2].mappings, passed->places[0].mappings);
  EXPECT_EQ(passed->places[3].mappings, passed->places[2].mappings + 1);
  passed->count = 0;
  floats(buffer)[2] = 0;
  EXPECT_TRUE(run().is_ok());
  EXPECT_EQ(floats(buffer)[2], 42.0F);
  EXPECT_EQ(passed->points(), order);
  EXPECT_EQ(passed->places[6].mappings, passed->places[0].mappings);  // known from now on
  worker.close();
}

// S0-050
TEST_F(ChipOrderTest, ATaskThatFailsAtAStepReachesNoLaterOneAndIsAnswered) {
  plan.fail_at("task.chip.import", 1, resource_exhausted("planned"));
  start();
  const Status status = run();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
  const std::vector<std::string> order = {"lane.child.taken", "task.chip.decode", "task.chip.import",
                                          "lane.child.answering", "lane.child.answered"};
  EXPECT_EQ(passed->points(), order);
  EXPECT_EQ(floats(buffer)[2], 0.0F);
  EXPECT_TRUE(run().is_ok());
  EXPECT_EQ(floats(buffer)[2], 42.0F);
  worker.close();
}

TEST_F(ChipOrderTest, AChipKilledAtAStepOfATaskFailsTheRunByName) {
  for (const char* point : {"lane.child.taken", "task.chip.decode", "task.chip.import", "task.chip.run",
                            "task.chip.ran", "lane.child.answering"}) {
    SCOPED_TRACE(point);
    FaultPlan kill;
    kill.on_reach([&](std::string_view here) {
      if (here == point) {
        ::raise(SIGKILL);
      }
      return Status::ok();
    });
    Worker doomed({.level = 3, .platform = "tiny", .device_ids = {0, 1}, .num_sub_workers = 0});
    worker::set_fault_plan(doomed, &kill);
    const CallableHandle callable = doomed.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
    doomed.init();
    const int pid = doomed.statistics()[0].pid;
    const Buffer numbers = doomed.create_buffer(12);
    const Tensor one = numbers.tensor({1}, DataType::kFloat32);
    const Status status = thrown([&] {
      doomed.run([&](Orchestrator& orch) {
        orch.submit_next_level(callable,
                               TaskArgs().input(one).input(one).output(numbers.tensor({1}, DataType::kFloat32, 8)), 0);
      });
    });
    EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
    EXPECT_EQ(status.pid(), pid);
    EXPECT_EQ(status.signal(), SIGKILL);
    EXPECT_NE(status.message().find("chip 0"), std::string_view::npos) << status.message();
    EXPECT_FALSE(doomed.statistics()[0].alive);
    EXPECT_TRUE(doomed.statistics()[1].alive);
    doomed.close();
  }
}

TEST(ChipFailureTest, AGraphsFatalErrorReachesTheWaiterWithItsCodeAndTheChipGoesOn) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0}, .num_sub_workers = 0});
  const CallableHandle bad = worker.register_callable(graph("refuse", {}));
  worker.init();
  for (int i = 0; i < 2; ++i) {
    const Status status = thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_next_level(bad, {}, 0); }); });
    EXPECT_EQ(status.run_code(), 9) << status.message();
    EXPECT_NE(status.message().find("the graph says no"), std::string_view::npos) << status.message();
  }
  worker.close();
}

TEST(ChipFailureTest, PlacementIsCheckedAtSubmit) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0}, .num_sub_workers = 1});
  const CallableHandle chip = worker.register_callable(graph("refuse", {}));
  const CallableHandle host = worker.register_native("host", [](const MappedArgs&) {});
  worker.init();
  const auto refused = [&](const std::function<void(Orchestrator&)>& build) {
    return thrown([&] { worker.run(build); }).code();
  };
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_next_level(chip, {}, 1); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_next_level(chip, {}, -1); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_next_level(host, {}, 0); }), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_sub(chip); }), StatusCode::kInvalidArgument);
  worker.close();
}

TEST(ChipFailureTest, MemoryOfAChipIsRefusedEverywhereElse) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0, 1}, .num_sub_workers = 1});
  const CallableHandle chip = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  const CallableHandle host = worker.register_native("host", [](const MappedArgs&) {});
  worker.init();
  const std::uint32_t shape[] = {4};
  const Buffer device = worker.alloc_child_tensor(1, shape, DataType::kFloat32);
  const Buffer shared = worker.create_buffer(16);
  const Tensor inside = device.tensor(shape, DataType::kFloat32);
  TaskArgs args;
  args.input(inside).input(inside).output(shared.tensor(shape, DataType::kFloat32));
  const auto refused = [&](const std::function<void(Orchestrator&)>& build) {
    return thrown([&] { worker.run(build); });
  };
  worker.run([&](Orchestrator& orch) { orch.submit_next_level(chip, args, 1); });
  const Status elsewhere = refused([&](Orchestrator& orch) { orch.submit_next_level(chip, args, 0); });
  EXPECT_EQ(elsewhere.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(elsewhere.message().find("chip 1"), std::string_view::npos) << elsewhere.message();
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_sub(host, TaskArgs().input(inside)); }).code(),
            StatusCode::kInvalidArgument);
  worker.free(device);
  EXPECT_EQ(refused([&](Orchestrator& orch) { orch.submit_next_level(chip, args, 1); }).code(), StatusCode::kNotFound);
  EXPECT_EQ(thrown([&] { worker.free(device); }).code(), StatusCode::kFailedPrecondition);
  worker.close();
}

TEST(ChipFailureTest, CopiesAreRefusedBesideRunsAndAfterTheFirstSubmit) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0}, .num_sub_workers = 1});
  const CallableHandle meet = worker.register_native("meet", [](const MappedArgs& args) { await_word(args[0]); });
  worker.init();
  const std::uint32_t shape[] = {2};
  const Buffer device = worker.alloc_child_tensor(0, shape, DataType::kUint64);
  const Buffer host = worker.create_buffer(16);
  word(host, 0) = 0;
  word(host, 1) = 77;
  Status late;
  Status late_by_worker;
  const RunHandle run = worker.submit([&](Orchestrator& orch) {
    orch.copy_to(device, host);
    orch.submit_sub(meet, TaskArgs().no_dep(words(host)));
    late = thrown([&] { orch.copy_to(device, host); });
    late_by_worker = thrown([&] { worker.copy_to(device, host); });
  });
  EXPECT_EQ(late.code(), StatusCode::kFailedPrecondition) << late.message();
  EXPECT_EQ(late_by_worker.code(), StatusCode::kFailedPrecondition) << late_by_worker.message();
  EXPECT_EQ(thrown([&] { worker.copy_from(host, device); }).code(), StatusCode::kFailedPrecondition);
  set_word(word(host));
  run.wait();
  std::memset(host.data(), 0, 16);
  worker.copy_from(host, device);
  EXPECT_EQ(word(host, 1), 77U);
  worker.close();
}

TEST(ChipFailureTest, LevelTwoRefusesWhatItCannotHonour) {
  Worker worker({.level = 2, .platform = "tiny"});
  const CallableHandle callable = worker.register_callable(graph("multiply_add", {kIn, kIn, kOut}));
  worker.init();
  const Buffer buffer = worker.create_buffer(12);
  const Tensor one = buffer.tensor({1}, DataType::kFloat32);
  Tensor wider = one;
  wider.buffer.nbytes = 1U << 20;
  wider.byte_offset = 4096;
  TaskArgs forged;
  forged.input(one).input(one).output(wider);
  const Status differing = thrown([&] { worker.run(callable, forged); });
  EXPECT_EQ(differing.code(), StatusCode::kInvalidArgument) << differing.message();
  EXPECT_NE(differing.message().find("nbytes"), std::string_view::npos) << differing.message();
  const Buffer device = worker.malloc(12);
  worker.copy_to(device, buffer);
  worker.free(device);
  EXPECT_EQ(thrown([&] { worker.free(device); }).code(), StatusCode::kFailedPrecondition);
  worker.close();
}

TEST(ChipFailureTest, AChipThatCannotStartFailsTheInitWithItsReason) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0}, .num_sub_workers = 1});
  const std::vector<std::byte> nonsense(64);
  const CallableHandle broken = worker.register_callable(ChipCallable::build({}, "entry", nonsense, {}));
  const Status status = thrown([&] { worker.init(); });
  EXPECT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("chip 0"), std::string_view::npos) << status.message();
  EXPECT_NE(status.message().find("entry"), std::string_view::npos) << status.message();
  EXPECT_EQ(worker.state(), WorkerState::kFailed);
  EXPECT_EQ(thrown([&] { worker.run([](Orchestrator&) {}); }).code(), StatusCode::kFailedPrecondition);
  worker.close();
}

}  // namespace
}  // namespace simpler::testing
