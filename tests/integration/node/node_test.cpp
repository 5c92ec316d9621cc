// What a graph over host children does when nothing goes wrong.
#include <vector>

#include "node_fixture.h"

namespace simpler::testing {
namespace {

TEST_F(NodeTest, RunsATaskInAChildProcess) {
  const Buffer buffer = worker.create_buffer(8);
  worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().output(words(buffer))); });
  EXPECT_NE(word(buffer), 0U);
  EXPECT_NE(word(buffer), static_cast<std::uint64_t>(::getpid()));
}

TEST_F(NodeTest, OrdersTasksByTheTensorsThatTheyShare) {
  const Buffer buffer = worker.create_buffer(16);
  word(buffer, 0) = 1;
  word(buffer, 1) = 0;
  std::uint64_t expected = 1;
  std::uint64_t other = 0;
  worker.run([&](Orchestrator& orch) {
    for (std::uint64_t i = 0; i < 200; ++i) {
      orch.submit_sub(mix, TaskArgs().inout(words(buffer, 0)).add_scalar(i));
      orch.submit_sub(mix, TaskArgs().inout(words(buffer, 1)).input(words(buffer, 0)));
      expected = 31 * expected + i;
      other = 31 * other + expected;
    }
  });
  EXPECT_EQ(word(buffer, 0), expected);
  EXPECT_EQ(word(buffer, 1), other);
}

TEST_F(NodeTest, AWriterWaitsForTheReadersBeforeIt) {
  const Buffer data = worker.create_buffer(8 * 3);
  const Buffer flags = worker.create_buffer(8 * 2);
  std::memset(data.data(), 0, data.nbytes());
  std::memset(flags.data(), 0, flags.nbytes());
  word(data, 0) = 5;
  const RunHandle run = worker.submit([&](Orchestrator& orch) {
    // The reader is held back by a task that occupies its data's copy; the writer must not overtake it.
    orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1)).input(words(data, 0)));
    orch.submit_sub(mix, TaskArgs().inout(words(data, 1)).input(words(data, 0)).input(words(flags, 0)));
    orch.submit_sub(mix, TaskArgs().output(words(data, 0)).add_scalar(99));
    orch.submit_sub(pid, TaskArgs().output(words(data, 2)));
  });
  // The free child is past the writer's place in the queue: one that did not wait has written by now.
  while (__atomic_load_n(&word(data, 2), __ATOMIC_ACQUIRE) == 0) {
    sched_yield();
  }
  set_word(word(flags, 1));
  run.wait();
  EXPECT_EQ(word(data, 1), 31 * 5U + 1U);
  EXPECT_EQ(word(data, 0), 31 * 5U + 99U);
}

TEST_F(NodeTest, DisjointSlicesOfOneBufferRunAtTheSameTime) {
  const Buffer buffer = worker.create_buffer(8 * 4);
  // Each waits for the other's flag: they can only end together.
  worker.run([&](Orchestrator& orch) {
    orch.submit_sub(meet, TaskArgs().inout(words(buffer, 0)).no_dep(words(buffer, 1)));
    orch.submit_sub(meet, TaskArgs().inout(words(buffer, 1)).no_dep(words(buffer, 0)));
  });
  EXPECT_EQ(word(buffer, 0), 1U);
  EXPECT_EQ(word(buffer, 1), 1U);
}

TEST_F(NodeTest, AGroupStartsItsMembersTogether) {
  const Buffer buffer = worker.create_buffer(8 * 2);
  worker.run([&](Orchestrator& orch) {
    const std::vector<TaskArgs> members = {TaskArgs().inout(words(buffer, 0)).no_dep(words(buffer, 1)),
                                           TaskArgs().inout(words(buffer, 1)).no_dep(words(buffer, 0))};
    orch.submit_sub_group(meet, members);
  });
  EXPECT_EQ(word(buffer, 0) + word(buffer, 1), 2U);
}

TEST_F(NodeTest, AllocatedMemoryLivesUntilItsTasksAreOver) {
  const Buffer result = worker.create_buffer(8 * 64);
  std::memset(result.data(), 0, result.nbytes());
  worker.run([&](Orchestrator& orch) {
    for (std::uint32_t i = 0; i < 64; ++i) {
      Orchestrator::Scope scope(orch);
      const Buffer scratch = orch.alloc({1}, DataType::kUint64);
      word(scratch) = 0;
      orch.submit_sub(mix, TaskArgs().inout(words(scratch)).add_scalar(i));
      orch.submit_sub(mix, TaskArgs().inout(words(result, i)).input(words(scratch)));
    }
  });
  for (std::uint32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(word(result, i), i);
  }
}

TEST_F(NodeTest, BuffersMadeAfterTheStartReachTheChildren) {
  for (const std::uint64_t bytes : {std::uint64_t{8}, std::uint64_t{4096}, std::uint64_t{5} << 20}) {
    const Buffer buffer = worker.create_buffer(bytes);
    const auto last = static_cast<std::uint32_t>(bytes / 8 - 1);
    worker.run([&](Orchestrator& orch) { orch.submit_sub(mix, TaskArgs().inout(words(buffer, last)).add_scalar(7)); });
    EXPECT_EQ(word(buffer, last), 7U);
    worker.release_buffer(buffer);
  }
}

TEST_F(NodeTest, ChangingTheArgumentsAfterASubmitDoesNotReachTheTask) {
  const Buffer buffer = worker.create_buffer(16);
  worker.run([&](Orchestrator& orch) {
    TaskArgs args;
    args.inout(words(buffer, 0)).add_scalar(1);
    orch.submit_sub(mix, args);
    args.clear();
    args.inout(words(buffer, 1)).add_scalar(2);
    orch.submit_sub(mix, args);
  });
  EXPECT_EQ(word(buffer, 0), 1U);
  EXPECT_EQ(word(buffer, 1), 2U);
}

TEST_F(NodeTest, AZeroSizeTensorIsPassedAndCausesNoEdge) {
  const Buffer buffer = worker.create_buffer(16);
  const CallableHandle unused = pid;
  worker.run([&](Orchestrator& orch) {
    TaskArgs args;
    args.inout(words(buffer, 0));
    args.input(buffer.tensor({0, 3}, DataType::kUint64, 16));
    orch.submit_sub(pid, args);
  });
  EXPECT_NE(word(buffer, 0), 0U);
}

TEST_F(NodeTest, AnEmptyRunEndsAtOnce) {
  worker.run([](Orchestrator&) {});
  const RunHandle run = worker.submit([](Orchestrator&) {});
  run.wait();
  EXPECT_TRUE(run.done());
  EXPECT_TRUE(run.errors().empty());
}

TEST_F(NodeTest, RunsThatNobodyWaitsForEndInOrder) {
  const Buffer buffer = worker.create_buffer(8);
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    worker.submit([&](Orchestrator& orch) { orch.submit_sub(mix, TaskArgs().inout(words(buffer)).add_scalar(i)); });
    expected = 31 * expected + i;
  }
  worker.run([&](Orchestrator& orch) { orch.submit_sub(mix, TaskArgs().inout(words(buffer)).add_scalar(1)); });
  EXPECT_EQ(word(buffer), 31 * expected + 1);
}

TEST_F(NodeTest, ManyTasksPassThroughASmallWindow) {
  Worker small({.level = 3, .num_sub_workers = 1, .task_window = 64});
  const CallableHandle add =
      small.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
  small.init();
  const Buffer buffer = small.create_buffer(8 * 8);
  std::memset(buffer.data(), 0, buffer.nbytes());
  small.run([&](Orchestrator& orch) {
    for (std::uint32_t i = 0; i < 5000; ++i) {
      orch.submit_sub(add, TaskArgs().inout(words(buffer, i % 8)));
    }
  });
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(word(buffer, i), 625U);
  }
  small.close();
}

TEST_F(NodeTest, StatisticsCountTheTasksOfEachChild) {
  const Buffer buffer = worker.create_buffer(8);
  worker.run([&](Orchestrator& orch) {
    for (int i = 0; i < 10; ++i) {
      orch.submit_sub(pid, TaskArgs().inout(words(buffer)));
    }
  });
  std::uint64_t tasks = 0;
  for (const Worker::ChildStatistics& child : worker.statistics()) {
    EXPECT_TRUE(child.alive);
    tasks += child.tasks;
  }
  EXPECT_EQ(tasks, 10U);
}

}  // namespace
}  // namespace simpler::testing
