// What users see when tasks, graphs or arguments are wrong, and that the worker stays usable afterwards.
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

class FailureTest : public NodeTest {
 protected:
  void expect_usable() {
    const Buffer buffer = worker.create_buffer(8);
    word(buffer) = 0;
    worker.run([&](Orchestrator& orch) { orch.submit_sub(mix, TaskArgs().inout(words(buffer)).add_scalar(3)); });
    EXPECT_EQ(word(buffer), 3U);
    worker.release_buffer(buffer);
  }
  Status outcome_of(const std::function<void(Orchestrator&)>& graph) {
    return thrown([&] { worker.run(graph); });
  }
};

TEST_F(FailureTest, ATasksExceptionReachesTheWaiterWithTypeTextAndPlace) {
  const Status status = outcome_of([&](Orchestrator& orch) { orch.submit_sub(fail); });
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(status.type_name(), "std::runtime_error");
  EXPECT_NE(status.message().find("the disk is on fire"), std::string_view::npos) << status.message();
  EXPECT_EQ(status.callable(), "fail");
  expect_usable();
}

TEST_F(FailureTest, EveryWaiterSeesTheSameOutcome) {
  const RunHandle run = worker.submit([&](Orchestrator& orch) { orch.submit_sub(fail); });
  const Status first = run.outcome();
  const Status second = run.outcome();
  EXPECT_EQ(first.message(), second.message());
  EXPECT_EQ(run.errors().size(), 1U);
  EXPECT_TRUE(run.done());
}

TEST_F(FailureTest, ConsumersOfAFailedTaskNeverRunAndOthersDo) {
  const Buffer buffer = worker.create_buffer(8 * 3);
  std::memset(buffer.data(), 0, buffer.nbytes());
  const Status status = outcome_of([&](Orchestrator& orch) {
    // The independent task comes first: once the failure is known, the run takes no more.
    orch.submit_sub(mix, TaskArgs().inout(words(buffer, 2)).add_scalar(5));
    orch.submit_sub(fail, TaskArgs().output(words(buffer, 0)));
    orch.submit_sub(mix, TaskArgs().inout(words(buffer, 1)).input(words(buffer, 0)).add_scalar(1));
  });
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(word(buffer, 1), 0U);
  EXPECT_EQ(word(buffer, 2), 5U);
  expect_usable();
}

TEST_F(FailureTest, AGraphFunctionsOwnExceptionComesOutUnchangedAndCancelsTheRest) {
  struct Mine {
    int value;
  };
  const Buffer buffer = worker.create_buffer(8 * 3);
  std::memset(buffer.data(), 0, buffer.nbytes());
  try {
    worker.run([&](Orchestrator& orch) {
      orch.submit_sub(mix, TaskArgs().inout(words(buffer, 0)).add_scalar(1));
      throw Mine{42};
    });
    FAIL() << "nothing was thrown";
  } catch (const Mine& mine) {
    EXPECT_EQ(mine.value, 42);
  }
  expect_usable();
}

TEST_F(FailureTest, UnbalancedScopesAreAnErrorOfTheSubmit) {
  const Status status = outcome_of([&](Orchestrator& orch) { orch.scope_begin(); });
  EXPECT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("scope"), std::string_view::npos) << status.message();
  EXPECT_FALSE(outcome_of([&](Orchestrator& orch) { orch.scope_end(); }).is_ok());
  expect_usable();
}

TEST_F(FailureTest, OverlappingArgumentsOfOneTaskAreRefusedInEitherOrder) {
  const Buffer buffer = worker.create_buffer(8 * 4);
  for (const bool writer_first : {true, false}) {
    const Status status = outcome_of([&](Orchestrator& orch) {
      TaskArgs args;
      if (writer_first) {
        args.output(words(buffer, 0, 2)).input(words(buffer, 1, 2));
      } else {
        args.input(words(buffer, 1, 2)).output(words(buffer, 0, 2));
      }
      orch.submit_sub(mix, args);
    });
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << writer_first;
  }
  expect_usable();
}

TEST_F(FailureTest, AnOversizedArgumentListIsRefusedAndTheChildGoesOn) {
  const Buffer buffer = worker.create_buffer(8 * 8192);
  const Status status = outcome_of([&](Orchestrator& orch) {
    TaskArgs args;
    for (std::uint32_t i = 0; i < 8192; ++i) {
      args.input(words(buffer, i));
    }
    orch.submit_sub(mix, args);
  });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("8192"), std::string_view::npos) << status.message();
  expect_usable();
}

TEST_F(FailureTest, ASubGroupLargerThanThePoolIsRefused) {
  const std::vector<TaskArgs> members(3);
  const Status status = outcome_of([&](Orchestrator& orch) { orch.submit_sub_group(pid, members); });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  expect_usable();
}

TEST_F(FailureTest, HandlesOfOtherWorkersAndReleasedOnesAreRefused) {
  Worker other({.level = 3, .num_sub_workers = 1});
  const CallableHandle foreign = other.register_native("foreign", [](const MappedArgs&) {});
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub(foreign); }).code(), StatusCode::kNotFound);
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub({}); }).code(), StatusCode::kWrongType);
  worker.unregister(pid);
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub(pid); }).code(), StatusCode::kNotFound);
  EXPECT_EQ(thrown([&] { worker.unregister(pid); }).code(), StatusCode::kNotFound);
  expect_usable();
}

TEST_F(FailureTest, AnOrchestratorIsRefusedOnOtherThreads) {
  Status elsewhere;
  worker.run(
      [&](Orchestrator& orch) { std::thread([&] { elsewhere = thrown([&] { orch.submit_sub(pid); }); }).join(); });
  EXPECT_EQ(elsewhere.code(), StatusCode::kFailedPrecondition) << elsewhere.message();
}

TEST_F(FailureTest, CallsThatWouldWaitForThemselvesAreRefused) {
  Status nested_submit;
  Status nested_close;
  worker.run([&](Orchestrator&) {
    nested_submit = thrown([&] { worker.run([](Orchestrator&) {}); });
    nested_close = thrown([&] { worker.close(); });
  });
  EXPECT_EQ(nested_submit.code(), StatusCode::kReentrant) << nested_submit.message();
  EXPECT_EQ(nested_close.code(), StatusCode::kReentrant) << nested_close.message();
  expect_usable();
}

TEST_F(FailureTest, ABufferThatARunNamesIsNotReleased) {
  const Buffer flags = worker.create_buffer(16);
  word(flags, 0) = word(flags, 1) = 0;
  const RunHandle run = worker.submit(
      [&](Orchestrator& orch) { orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1))); });
  const Status refused = thrown([&] { worker.release_buffer(flags); });
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition) << refused.message();
  EXPECT_NE(refused.message().find("run " + std::to_string(run.id())), std::string_view::npos) << refused.message();
  set_word(word(flags, 1));
  run.wait();
  worker.release_buffer(flags);
  worker.release_buffer(flags);
  EXPECT_EQ(thrown([&] { (void)words(flags); }).code(), StatusCode::kFailedPrecondition);
}

TEST_F(FailureTest, AStaleTensorIsRefusedAtSubmit) {
  const Buffer buffer = worker.create_buffer(8);
  const Tensor stale = words(buffer);
  TaskArgs args;
  args.inout(stale);
  worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, args); });
  worker.release_buffer(buffer);
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub(pid, args); }).code(), StatusCode::kNotFound);
  expect_usable();
}

TEST_F(FailureTest, AClosedBufferIsStillGivenBackByItsRelease) {
  Buffer buffer = worker.create_buffer(8);
  const Tensor tensor = words(buffer);
  buffer.close();
  // Tensors from before the close are good until the release.
  worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().inout(tensor)); });
  worker.release_buffer(buffer);
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().inout(tensor)); }).code(),
            StatusCode::kNotFound);
  worker.release_buffer(buffer);
  expect_usable();
}

// True while the process maps the file behind the buffer.
bool maps(int process, const Buffer& buffer) {
  const std::string_view body = body_name(buffer.descriptor());
  const std::string inode = std::to_string(std::stoull(std::string(body.substr(body.rfind('.') + 1)), nullptr, 16));
  std::ifstream file("/proc/" + std::to_string(process) + "/maps");
  std::string line;
  while (std::getline(file, line)) {
    if (line.find(" " + inode + " ") != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(ReleaseTest, ABusyChildIsNotWaitedForAndDropsItsMappingsLater) {
  Worker worker({.level = 3, .num_sub_workers = 1, .control_timeout_s = 1e6});
  const CallableHandle touch =
      worker.register_native("touch", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() = 1; });
  const CallableHandle wait = worker.register_native("wait", [](const MappedArgs& args) { await_word(args[0]); });
  worker.init();
  const int child = worker.statistics()[0].pid;
  const Buffer flag = worker.create_buffer(8);
  word(flag) = 0;
  const Buffer large[] = {worker.create_buffer(2U << 20), worker.create_buffer(2U << 20)};
  worker.run([&](Orchestrator& orch) {
    orch.submit_sub(touch, TaskArgs().inout(words(large[0])));
    orch.submit_sub(touch, TaskArgs().inout(words(large[1])));
  });
  EXPECT_TRUE(maps(child, large[0]) && maps(child, large[1]));
  const RunHandle run =
      worker.submit([&](Orchestrator& orch) { orch.submit_sub(wait, TaskArgs().no_dep(words(flag))); });
  worker.release_buffer(large[0]);
  worker.release_buffer(large[1]);
  set_word(word(flag));
  run.wait();
  // The second was not heard while the first waited; any later release brings it along.
  while (maps(child, large[0]) || maps(child, large[1])) {
    worker.release_buffer(worker.create_buffer(8));
  }
  worker.close();
}

TEST_F(FailureTest, AScopeLeftByAnExceptionLetsThatExceptionThrough) {
  EXPECT_THROW(worker.run([&](Orchestrator& orch) {
    Orchestrator::Scope scope(orch);
    orch.scope_end();  // so that the end of the block is one too many
    throw std::out_of_range("mine");
  }),
               std::out_of_range);
  expect_usable();
}

TEST_F(FailureTest, ACallableUnregisteredDuringARunServesTheTasksThatNameIt) {
  const Buffer flags = worker.create_buffer(8 * 3);
  std::memset(flags.data(), 0, flags.nbytes());
  const RunHandle run = worker.submit([&](Orchestrator& orch) {
    orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1)));
    orch.submit_sub(pid, TaskArgs().inout(words(flags, 2)).input(words(flags, 0)));
  });
  worker.unregister(pid);
  set_word(word(flags, 1));
  run.wait();
  EXPECT_NE(word(flags, 2), 0U);
  EXPECT_EQ(outcome_of([&](Orchestrator& orch) { orch.submit_sub(pid); }).code(), StatusCode::kNotFound);
  expect_usable();
}

TEST_F(FailureTest, WaitingHasALimitThatDoesNotDisturbTheRun) {
  const Buffer flags = worker.create_buffer(16);
  word(flags, 0) = word(flags, 1) = 0;
  const RunHandle run = worker.submit(
      [&](Orchestrator& orch) { orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1))); });
  EXPECT_EQ(run.outcome(std::chrono::milliseconds(1)).code(), StatusCode::kTimeout);
  EXPECT_EQ(thrown([&] { run.wait(std::chrono::nanoseconds(-1)); }).code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(run.done());
  set_word(word(flags, 1));
  run.wait();
}

TEST_F(FailureTest, ACancelledRunStartsNothingMore) {
  const Buffer flags = worker.create_buffer(8 * 3);
  std::memset(flags.data(), 0, flags.nbytes());
  const RunHandle run = worker.submit([&](Orchestrator& orch) {
    orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1)));
    orch.submit_sub(pid, TaskArgs().inout(words(flags, 2)).input(words(flags, 0)));
  });
  while (__atomic_load_n(&word(flags, 0), __ATOMIC_ACQUIRE) == 0) {
    sched_yield();
  }
  run.cancel();
  set_word(word(flags, 1));
  EXPECT_EQ(run.outcome().code(), StatusCode::kCancelled);
  EXPECT_EQ(word(flags, 2), 0U);
  expect_usable();
}

TEST_F(FailureTest, AHeapRequestThatCanNeverFitFailsAtOnceWithTheNumbers) {
  const Status status = outcome_of([&](Orchestrator& orch) { (void)orch.alloc({1U << 30, 2}, DataType::kFloat32); });
  EXPECT_FALSE(status.is_ok());
  EXPECT_NE(status.message().find("8589934592"), std::string_view::npos) << status.message();
  expect_usable();
}

TEST(WorkerOptionsTest, EachBadSettingIsNamedWithItsValue) {
  const auto refused = [](const WorkerOptions& options, const char* text) {
    const Status status = thrown([&] { Worker worker(options); });
    EXPECT_FALSE(status.is_ok()) << text;
    EXPECT_NE(status.message().find(text), std::string_view::npos) << status.message();
  };
  refused({.level = 1}, "level=1");
  refused({.level = 4}, "level=4");
  refused({.level = 3, .num_sub_workers = -1}, "num_sub_workers=-1");
  refused({.level = 3, .platform = "tiny", .device_ids = {0, 0}}, "0 twice");
  refused({.level = 3, .platform = "z80", .device_ids = {0}}, "z80");
  refused({.level = 2, .platform = "tiny", .runtime = "magic"}, "magic");
  refused({.level = 3, .num_sub_workers = 1, .startup_timeout_s = std::numeric_limits<double>::quiet_NaN()},
          "startup_timeout_s");
  refused({.level = 3, .num_sub_workers = 1, .close_timeout_s = -1}, "close_timeout_s=-1");
  refused({.level = 3, .num_sub_workers = 1, .task_window = 0}, "task_window=0");
  refused({.level = 3, .num_sub_workers = 1, .task_window = 0xFFFFFFFF}, "task_window=4294967295");
  refused({.level = 3, .num_sub_workers = 1, .max_pending_runs = 65}, "max_pending_runs=65");
  refused({.level = 2, .platform = "tiny", .chip_threads = 100000}, "chip_threads=100000");
}

TEST(WorkerOptionsTest, AnyWindowAndAnyLengthOfTimeInRangeWorks) {
  for (const std::uint32_t window : {1U, 5U, 100U}) {
    Worker worker({.level = 3, .num_sub_workers = 1, .close_timeout_s = 1e300, .task_window = window});
    const CallableHandle add =
        worker.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
    worker.init();
    const Buffer buffer = worker.create_buffer(8);
    word(buffer) = 0;
    worker.run([&](Orchestrator& orch) {
      for (int i = 0; i < 300; ++i) {
        orch.submit_sub(add, TaskArgs().inout(words(buffer)));
      }
    });
    EXPECT_EQ(word(buffer), 300U);
    worker.close();
  }
}

}  // namespace
}  // namespace simpler::testing
