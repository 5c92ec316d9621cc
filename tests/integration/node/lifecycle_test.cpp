// Start, close and everything in between: states, threads, leftovers.
#include "worker/lifecycle.h"

#include <dirent.h>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "node_fixture.h"
#include "worker/host_language.h"

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

TEST(LifecycleTest, TerminateEndsACallThatWaitsForAStuckTask) {
  Worker worker({.level = 3, .num_sub_workers = 2, .max_pending_runs = 1});
  const CallableHandle wedge = worker.register_native("wedge", [](const MappedArgs& args) { await_word(args[0]); });
  worker.init();
  const Buffer flag = worker.create_buffer(8);
  word(flag) = 0;
  const auto stuck = [&](Orchestrator& orch) {
    for (int i = 0; i < 5; ++i) {
      orch.submit_sub(wedge, TaskArgs().no_dep(words(flag)));
    }
  };
  const RunHandle first = worker.submit(stuck);
  std::thread blocked([&] { (void)thrown([&] { worker.submit(stuck); }); });
  Status outcome;
  std::thread waiter([&] { outcome = first.outcome(); });
  worker.terminate();
  blocked.join();
  waiter.join();
  EXPECT_FALSE(outcome.is_ok());
  EXPECT_EQ(worker.state(), WorkerState::kClosed);
  EXPECT_EQ(child_processes(), 0U);
}

TEST(LifecycleTest, TerminateCancelsRunsWhoseHandlesAreGone) {
  const Buffer* kept = nullptr;
  Buffer ran;
  {
    Worker worker({.level = 3, .num_sub_workers = 1});
    const CallableHandle wedge = worker.register_native("wedge", [](const MappedArgs& args) { await_word(args[0]); });
    worker.init();
    ran = worker.create_buffer(8);
    kept = &ran;
    word(ran) = 0;
    for (int i = 0; i < 3; ++i) {
      worker.submit([&](Orchestrator& orch) { orch.submit_sub(wedge, TaskArgs().no_dep(words(ran))); });
    }
    worker.terminate();
    EXPECT_EQ(worker.state(), WorkerState::kClosed);
  }
  EXPECT_EQ(child_processes(), 0U);
  EXPECT_TRUE(kept->closed());
}

TEST(LifecycleTest, ABufferThatGivesNoViewsSaysWhy) {
  Buffer closed;
  Buffer released;
  Buffer left;
  const auto why = [](const Buffer& buffer) {
    const Status status = thrown([&] { (void)buffer.tensor({1}, DataType::kInt8); });
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  {
    Worker worker({.level = 3, .num_sub_workers = 1});
    worker.init();
    closed = worker.create_buffer(8);
    released = worker.create_buffer(8);
    left = worker.create_buffer(8);
    closed.close();
    worker.release_buffer(released);
    EXPECT_TRUE(why(closed).ends_with(" is closed")) << why(closed);
    worker.close();
  }
  EXPECT_TRUE(why(released).ends_with(" was released")) << why(released);
  EXPECT_TRUE(why(left).ends_with(" went with its worker, which is closed")) << why(left);
}

TEST(LifecycleTest, DevicesWithoutAPlatformAreToldWhichThereAre) {
  const Status status = thrown([] { const Worker worker({.level = 3, .device_ids = {0}}); });
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(status.message().starts_with("platform is missing: devices need one of ")) << status.message();
}

TEST(LifecycleTest, ARegistrationDuringInitWaitsAndACloseCancelsTheInit) {
  for (const bool close : {false, true}) {
    Worker worker({.level = 3, .num_sub_workers = 1});
    worker.register_native("known", [](const MappedArgs&) {});
    int gate[2];
    ASSERT_EQ(::pipe(gate), 0);
    int inside[2];
    ASSERT_EQ(::pipe(inside), 0);
    // Holds the start up at its fork until a byte comes.
    HostLanguage slow;
    slow.before_fork = [&] {
      (void)!::write(inside[1], "i", 1);
      char byte = 0;
      (void)!::read(gate[0], &byte, 1);
    };
    set_host_language(worker, slow);
    Status started;
    std::thread starter([&] { started = thrown([&] { worker.init(); }); });
    char byte = 0;
    ASSERT_EQ(::read(inside[0], &byte, 1), 1);
    EXPECT_EQ(worker.state(), WorkerState::kInitializing);
    if (close) {
      std::thread closer([&] { worker.close(); });
      while (worker.state() != WorkerState::kClosed) {
        sched_yield();
      }
      (void)!::write(gate[1], "g", 1);
      closer.join();
    } else {
      CallableHandle late;
      Status registered;
      std::thread registrar([&] {
        HostCallable callable;
        callable.digest[0] = 1;
        callable.name = "late";
        callable.unsendable = "it is a test";
        registered = thrown([&] { late = register_host(worker, callable); });
      });
      (void)!::write(gate[1], "g", 1);
      registrar.join();
      // It reached the running children's door, and not the middle of the start.
      EXPECT_NE(registered.message().find("it is a test"), std::string_view::npos) << registered.message();
    }
    starter.join();
    EXPECT_EQ(started.code(), close ? StatusCode::kCancelled : StatusCode::kOk) << started.message();
    worker.close();
    EXPECT_EQ(worker.state(), WorkerState::kClosed);
    EXPECT_EQ(child_processes(), 0U);
    for (const int end : {gate[0], gate[1], inside[0], inside[1]}) {
      ::close(end);
    }
  }
}

TEST(LifecycleTest, ACloseInsideACloseIsRefusedAndARegistrationWaitsForTheStart) {
  worker::Lifecycle lifecycle;
  EXPECT_FALSE(lifecycle.lease_or_new("register").value().held());
  ASSERT_TRUE(lifecycle.begin_init().is_ok());
  EXPECT_EQ(lifecycle.lease_or_new("register").status().code(), StatusCode::kReentrant);
  bool held = false;
  std::thread other([&] { held = lifecycle.lease_or_new("register").value().held(); });
  ASSERT_TRUE(lifecycle.commit_ready().is_ok());
  other.join();
  EXPECT_TRUE(held);
  {
    const Result<worker::Lifecycle::Closing> first = lifecycle.begin_close(Deadline::never());
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(lifecycle.begin_close(Deadline::never()).status().code(), StatusCode::kReentrant);
  }
  EXPECT_TRUE(lifecycle.begin_close(Deadline::never()).ok());
  EXPECT_EQ(lifecycle.lease_or_new("register").status().code(), StatusCode::kFailedPrecondition);
}

TEST(LifecycleTest, WhatTasksAndTheirParentPrintAppearsOnce) {
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  std::fflush(stdout);
  const int terminal = ::dup(1);
  ::dup2(::fileno(file), 1);
  {
    Worker worker({.level = 3, .num_sub_workers = 2});
    const CallableHandle speak =
        worker.register_native("speak", [](const MappedArgs&) { std::printf("said by a task\n"); });
    std::printf("said before\n");
    worker.init();
    worker.run([&](Orchestrator& orch) { orch.submit_sub(speak); });
    worker.close();
    std::fflush(stdout);
  }
  ::dup2(terminal, 1);
  ::close(terminal);
  std::rewind(file);
  std::string text(4096, 0);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  EXPECT_EQ(text, "said before\nsaid by a task\n");
}

TEST(LifecycleTest, WhatACallableDoesWhenItIsDroppedMayUseTheWorker) {
  Worker worker({.level = 3, .num_sub_workers = 1});
  const CallableHandle other = worker.register_native("other", [](const MappedArgs&) {});
  bool unregistered = false;
  std::shared_ptr<int> last(new int(0), [&](const int* value) {
    delete value;
    worker.unregister(other);
    unregistered = true;
  });
  const CallableHandle holder = worker.register_native("holder", [held = std::move(last)](const MappedArgs&) {});
  worker.unregister(holder);
  EXPECT_TRUE(unregistered);
}

TEST(LifecycleTest, AssigningOverAWorkerEndsIt) {
  Worker worker({.level = 3, .num_sub_workers = 1});
  const CallableHandle noop = worker.register_native("noop", [](const MappedArgs&) {});
  worker.init();
  const RunHandle run = worker.submit([&](Orchestrator& orch) { orch.submit_sub(noop); });
  run.wait();
  worker = Worker({.level = 3, .num_sub_workers = 1});
  EXPECT_EQ(worker.state(), WorkerState::kNew);
  EXPECT_TRUE(run.outcome().is_ok());
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
