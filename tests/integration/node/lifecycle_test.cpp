// Start, close and everything in between: states, threads, leftovers.
#include <dirent.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

std::size_t open_descriptors() {
  std::size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (::readdir(directory) != nullptr) {
    ++count;
  }
  ::closedir(directory);
  return count;
}

std::size_t child_processes() {
  std::size_t count = 0;
  const std::string path = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
  FILE* file = std::fopen(path.c_str(), "r");
  int pid = 0;
  while (file != nullptr && std::fscanf(file, "%d", &pid) == 1) {
    ++count;
  }
  if (file != nullptr) {
    std::fclose(file);
  }
  return count;
}

TEST(LifecycleTest, CallsBeforeInitAndAfterCloseSayWhatIsWrong) {
  Worker worker({.level = 3, .num_sub_workers = 1});
  const CallableHandle noop = worker.register_native("noop", [](const MappedArgs&) {});
  const Status early = thrown([&] { worker.run([](Orchestrator&) {}); });
  EXPECT_EQ(early.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(early.message().find("READY"), std::string_view::npos) << early.message();
  worker.init();
  EXPECT_EQ(worker.state(), WorkerState::kReady);
  EXPECT_EQ(thrown([&] { worker.init(); }).code(), StatusCode::kFailedPrecondition);
  const RunHandle finished = worker.submit([&](Orchestrator& orch) { orch.submit_sub(noop); });
  worker.close();
  worker.close();
  EXPECT_EQ(worker.state(), WorkerState::kClosed);
  finished.wait();
  EXPECT_TRUE(finished.done());
  EXPECT_EQ(thrown([&] { worker.run([](Orchestrator&) {}); }).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(thrown([&] { (void)worker.create_buffer(8); }).code(), StatusCode::kFailedPrecondition);
}

TEST(LifecycleTest, OpenAndCloseLeaveNoProcessAndNoDescriptorBehind) {
  std::size_t descriptors = 0;
  for (int cycle = 0; cycle < 100; ++cycle) {
    Worker worker({.level = 3, .num_sub_workers = 3});
    const CallableHandle add =
        worker.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
    worker.init();
    const Buffer buffer = worker.create_buffer(8);
    word(buffer) = 0;
    worker.run([&](Orchestrator& orch) {
      for (int i = 0; i < 6; ++i) {
        orch.submit_sub(add, TaskArgs().inout(words(buffer)));
      }
    });
    ASSERT_EQ(word(buffer), 6U);
    worker.close();
    ASSERT_EQ(child_processes(), 0U) << cycle;
    if (cycle == 1) {
      descriptors = open_descriptors();
    }
  }
  EXPECT_LE(open_descriptors(), descriptors);
}

TEST(LifecycleTest, ADestroyedWorkerEndsItsChildrenEvenInsideATask) {
  Buffer flags;
  {
    Worker worker({.level = 3, .num_sub_workers = 1});
    const CallableHandle wedge = worker.register_native("wedge", [](const MappedArgs& args) {
      set_word(*args[0].as<std::uint64_t>());
      await_word(args[1]);
    });
    worker.init();
    flags = worker.create_buffer(16);
    word(flags, 0) = word(flags, 1) = 0;
    worker.submit(
        [&](Orchestrator& orch) { orch.submit_sub(wedge, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1))); });
    while (__atomic_load_n(&word(flags, 0), __ATOMIC_ACQUIRE) == 0) {
      sched_yield();
    }
  }
  EXPECT_EQ(child_processes(), 0U);
  EXPECT_EQ(word(flags, 0), 1U);  // the bytes outlive their worker
}

TEST(LifecycleTest, CloseWithAStuckTaskTimesOutAndALaterOneSucceeds) {
  Worker worker({.level = 3, .num_sub_workers = 1, .close_timeout_s = 0.05});
  const CallableHandle wedge = worker.register_native("wedge", [](const MappedArgs& args) { await_word(args[0]); });
  worker.init();
  const Buffer flag = worker.create_buffer(8);
  word(flag) = 0;
  const RunHandle run =
      worker.submit([&](Orchestrator& orch) { orch.submit_sub(wedge, TaskArgs().no_dep(words(flag))); });
  EXPECT_EQ(thrown([&] { worker.close(); }).code(), StatusCode::kTimeout);
  set_word(word(flag));
  run.wait();
  worker.close();
  EXPECT_EQ(child_processes(), 0U);
}

TEST(LifecycleTest, SubmitsFromManyThreadsAreSerialised) {
  Worker worker({.level = 3, .num_sub_workers = 2});
  const CallableHandle add =
      worker.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += args.scalar(0); });
  worker.init();
  const Buffer buffer = worker.create_buffer(8 * 8);
  std::memset(buffer.data(), 0, buffer.nbytes());
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        worker.run([&](Orchestrator& orch) {
          orch.submit_sub(add, TaskArgs().inout(words(buffer, t)).add_scalar(std::uint64_t{1}));
        });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::uint32_t t = 0; t < 8; ++t) {
    EXPECT_EQ(word(buffer, t), 100U);
  }
  worker.close();
}

TEST(LifecycleTest, ACopyMadeByAForeignForkRefusesToWork) {
  Worker worker({.level = 3, .num_sub_workers = 1});
  const CallableHandle noop = worker.register_native("noop", [](const MappedArgs&) {});
  worker.init();
  const pid_t copy = ::fork();
  if (copy == 0) {
    const bool refused = thrown([&] { worker.run([](Orchestrator&) {}); }).code() == StatusCode::kWrongProcess &&
                         thrown([&] { (void)worker.create_buffer(8); }).code() == StatusCode::kWrongProcess &&
                         thrown([&] { worker.close(); }).code() == StatusCode::kWrongProcess;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(copy, &status, 0), copy);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  worker.run([&](Orchestrator& orch) { orch.submit_sub(noop); });
  worker.close();
}

TEST(LifecycleTest, TwoWorkersLiveSideBySide) {
  Worker first({.level = 3, .num_sub_workers = 1});
  const auto add = [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; };
  const CallableHandle first_add = first.register_native("add", add);
  first.init();
  Worker second({.level = 3, .num_sub_workers = 1});
  const CallableHandle second_add = second.register_native("add", add);
  second.init();
  const Buffer a = first.create_buffer(8);
  const Buffer b = second.create_buffer(8);
  word(a) = word(b) = 0;
  for (int i = 0; i < 20; ++i) {
    first.run([&](Orchestrator& orch) { orch.submit_sub(first_add, TaskArgs().inout(words(a))); });
    second.run([&](Orchestrator& orch) { orch.submit_sub(second_add, TaskArgs().inout(words(b))); });
  }
  EXPECT_EQ(word(a), 20U);
  EXPECT_EQ(word(b), 20U);
  const Status foreign =
      thrown([&] { first.run([&](Orchestrator& orch) { orch.submit_sub(first_add, TaskArgs().inout(words(b))); }); });
  EXPECT_EQ(foreign.code(), StatusCode::kNotFound);
  first.close();
  second.run([&](Orchestrator& orch) { orch.submit_sub(second_add, TaskArgs().inout(words(b))); });
  second.close();
}

}  // namespace
}  // namespace simpler::testing
