// Children and parents that die: who notices, what is said, what goes on.
#include <sys/wait.h>
#include <vector>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

class KillTest : public NodeTest {};

TEST_F(KillTest, AChildKilledInATaskFailsTheRunNamingPidAndSignal) {
  const Status status =
      thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(die, TaskArgs().add_scalar(SIGKILL)); }); });
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
  EXPECT_EQ(status.signal(), SIGKILL);
  EXPECT_GT(status.pid(), 0);
  EXPECT_NE(status.message().find("sub_worker"), std::string_view::npos) << status.message();
}

TEST_F(KillTest, AChildThatExitsInATaskFailsTheRunNamingItsExitStatus) {
  const Status status =
      thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(leave, TaskArgs().add_scalar(7)); }); });
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
  EXPECT_EQ(status.exit_status(), 7);
}

TEST_F(KillTest, TheOtherChildTakesTheWorkAfterwards) {
  EXPECT_FALSE(thrown([&] {
                 worker.run([&](Orchestrator& orch) { orch.submit_sub(die, TaskArgs().add_scalar(SIGSEGV)); });
               }).is_ok());
  const Buffer buffer = worker.create_buffer(8);
  word(buffer) = 0;
  for (int i = 0; i < 50; ++i) {
    worker.run([&](Orchestrator& orch) { orch.submit_sub(mix, TaskArgs().inout(words(buffer)).add_scalar(0)); });
  }
  std::size_t alive = 0;
  for (const Worker::ChildStatistics& child : worker.statistics()) {
    alive += child.alive ? 1 : 0;
  }
  EXPECT_EQ(alive, 1U);
}

TEST_F(KillTest, WithNoChildLeftEveryCallSaysWhyAtOnce) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(thrown([&] {
                   worker.run([&](Orchestrator& orch) { orch.submit_sub(die, TaskArgs().add_scalar(SIGKILL)); });
                 }).is_ok());
  }
  const Status status = thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(pid); }); });
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
  EXPECT_EQ(status.signal(), SIGKILL);
  worker.close();
}

TEST(KillChipTest, ARegistrationReachesTheChipsThatAreLeft) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0, 1}, .num_sub_workers = 0});
  worker.init();
  ASSERT_EQ(::kill(worker.statistics()[0].pid, SIGKILL), 0);
  while (worker.statistics()[0].alive) {
    sched_yield();
  }
  const std::vector<std::byte> nonsense(64);
  const Status refused = thrown([&] { worker.register_callable(ChipCallable::build({}, "entry", nonsense, {})); });
  EXPECT_NE(refused.message().find("REGISTER_PARTIAL_FAILURE"), std::string_view::npos) << refused.message();
  EXPECT_EQ(refused.message().find("unconfirmed"), std::string_view::npos) << refused.message();
  const CallableHandle chip = worker.register_callable(ChipCallable::build({}, "refuse", read_file(GRAPHS), {}));
  const Status ran = thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_next_level(chip, {}, 1); }); });
  EXPECT_EQ(ran.run_code(), 9) << ran.message();
  worker.close();
}

TEST_F(KillTest, AChildKilledWhileIdleIsNoticedBeforeTheNextRunNeedsIt) {
  const Worker::ChildStatistics victim = worker.statistics()[0];
  ASSERT_EQ(::kill(victim.pid, SIGKILL), 0);
  const Buffer buffer = worker.create_buffer(8);
  word(buffer) = 0;
  // Whether the death is seen first or a task is lost to it, the worker ends up with the healthy child.
  (void)thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().inout(words(buffer))); }); });
  while (worker.statistics()[0].alive) {
    sched_yield();
  }
  (void)thrown([&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().inout(words(buffer))); }); });
  worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().inout(words(buffer))); });
  EXPECT_EQ(word(buffer), static_cast<std::uint64_t>(worker.statistics()[1].pid));
}

// A parent that is killed takes its whole tree with it: the write end of a pipe that only children hold closes.
TEST(OrphanTest, AKilledParentLeavesNoChildIdleOrBusy) {
  for (const bool busy : {false, true}) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t parent = ::fork();
    if (parent == 0) {
      ::close(ends[0]);
      ::close(ready[0]);
      ::dup2(ends[1], 2);  // children keep 0, 1 and 2
      Worker worker({.level = 3, .num_sub_workers = 3});
      const CallableHandle wedge = worker.register_native("wedge", [](const MappedArgs& args) {
        set_word(*args[0].as<std::uint64_t>());
        await_word(args[1]);
      });
      worker.init();
      const Buffer flags = worker.create_buffer(16);
      word(flags, 0) = word(flags, 1) = 0;
      if (busy) {
        worker.submit([&](Orchestrator& orch) {
          orch.submit_sub(wedge, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1)));
        });
        while (__atomic_load_n(&word(flags, 0), __ATOMIC_ACQUIRE) == 0) {
          sched_yield();
        }
      }
      (void)!::write(ready[1], "r", 1);
      ::pause();
      ::_exit(0);
    }
    ::close(ends[1]);
    ::close(ready[1]);
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ASSERT_EQ(::kill(parent, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(parent, &status, 0), parent);
    // End of file when the last holder of the pipe is gone; the test's time limit catches a survivor.
    while (::read(ends[0], &byte, 1) > 0) {
    }
    ::close(ends[0]);
    ::close(ready[0]);
  }
}

}  // namespace
}  // namespace simpler::testing
