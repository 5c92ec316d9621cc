#include "device/scheduler.h"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "device/core_line.h"

namespace simpler::device {
namespace {

// A graph with its storage; kernels are not called, the platform of the test records what ran.
class World {
 public:
  explicit World(uint32_t tasks, uint32_t queue_capacity = 1024)
      : slots_(new TaskSlot[tasks]), cells_{std::vector<ReadyQueue::Cell>(queue_capacity), {}} {
    cells_[1] = std::vector<ReadyQueue::Cell>(queue_capacity);
    scheduler.attach_queue(Shape::kAic, cells_[0].data(), queue_capacity);
    scheduler.attach_queue(Shape::kAiv, cells_[1].data(), queue_capacity);
  }

  uint32_t add(Shape shape, std::vector<uint32_t> producers, uint32_t blocks = 1) {
    TaskSlot& slot = slots_[count_];
    slot.wake_head.store(kWakeEmpty);
    slot.next_block.store(0);
    slot.blocks_done.store(0);
    slot.block_num = blocks;
    slot.fanin_begin = static_cast<uint32_t>(fanin_.size());
    slot.fanin_left = static_cast<uint32_t>(producers.size());
    slot.shape = shape;
    fanin_.insert(fanin_.end(), producers.begin(), producers.end());
    return count_++;
  }

  void boot(uint32_t aic = 2, uint32_t aiv = 4) {
    scheduler.boot(Graph{slots_.get(), fanin_.data(), count_, complete_}, aic, aiv);
  }
  void mark_complete(uint32_t task) {
    slots_[task].wake_head.store(kWakeClosed);
    ++complete_;
  }

  Scheduler scheduler;

 private:
  std::unique_ptr<TaskSlot[]> slots_;
  std::vector<ReadyQueue::Cell> cells_[2];
  std::vector<uint32_t> fanin_;
  uint32_t count_ = 0;
  uint32_t complete_ = 0;
};

struct Recorder {
  std::vector<std::pair<uint32_t, uint32_t>> ran;
  uint32_t offers = 0;

  uint32_t first_shape() { return 0; }
  void offer() { ++offers; }
  Execution execute(const Ticket& ticket) {
    ran.emplace_back(ticket.task, ticket.block);
    return Execution::kDone;
  }
  bool reattach() { return true; }
};

TEST(Scheduler, RunsAChainInOrder) {
  World world(3);
  world.add(Shape::kAiv, {});
  world.add(Shape::kAic, {0});
  world.add(Shape::kAiv, {1, 0});
  world.boot();
  Recorder recorder;
  world.scheduler.drive(recorder);
  ASSERT_EQ(recorder.ran.size(), 3u);
  EXPECT_EQ(recorder.ran[0].first, 0u);
  EXPECT_EQ(recorder.ran[1].first, 1u);
  EXPECT_EQ(recorder.ran[2].first, 2u);
  EXPECT_TRUE(world.scheduler.finished());
}

TEST(Scheduler, HandsOutEveryBlockOnce) {
  World world(2);
  world.add(Shape::kAiv, {}, 48);
  world.add(Shape::kAiv, {0}, 3);
  world.boot(1, 2);
  Recorder recorder;
  world.scheduler.drive(recorder);
  std::vector<uint32_t> seen(48);
  for (const auto& [task, block] : recorder.ran) {
    if (task == 0) ++seen[block];
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1u), 48);
  EXPECT_EQ(recorder.ran.size(), 51u);
  EXPECT_EQ(recorder.ran[48].first, 1u) << "a consumer starts after the last block";
}

TEST(Scheduler, ATaskWithoutKernelCompletesWhenItsProducersDid) {
  World world(4);
  world.add(Shape::kAiv, {});
  world.add(Shape::kNone, {0});
  world.add(Shape::kNone, {1});
  world.add(Shape::kAiv, {2});
  world.boot();
  Recorder recorder;
  world.scheduler.drive(recorder);
  EXPECT_EQ(recorder.ran.size(), 2u);
  EXPECT_TRUE(world.scheduler.finished());
}

TEST(Scheduler, AGraphOfCompleteTasksIsFinishedAtBoot) {
  World world(2);
  world.mark_complete(world.add(Shape::kNone, {}));
  world.add(Shape::kNone, {0});
  world.boot();
  EXPECT_TRUE(world.scheduler.finished());
  EXPECT_FALSE(world.scheduler.runnable());
}

TEST(Scheduler, AFullReadyQueueStopsTheRun) {
  World world(5, 4);
  for (int i = 0; i < 5; ++i) world.add(Shape::kAic, {});
  world.boot();
  EXPECT_EQ(world.scheduler.stop_reason(), Stop::kReadyQueueFull);
  Recorder recorder;
  world.scheduler.drive(recorder);
  EXPECT_TRUE(recorder.ran.empty());
}

TEST(Scheduler, TakesNoMoreBlocksThanCoresOfTheShape) {
  World world(3);
  for (int i = 0; i < 3; ++i) world.add(Shape::kAic, {});
  world.boot(2, 4);
  Ticket ticket;
  EXPECT_TRUE(world.scheduler.take(ticket, 0));
  const uint32_t first = ticket.core;
  EXPECT_TRUE(world.scheduler.take(ticket, 0));
  EXPECT_NE(ticket.core, first);
  EXPECT_FALSE(world.scheduler.take(ticket, 0));
  EXPECT_TRUE(world.scheduler.has_ready());
  EXPECT_FALSE(world.scheduler.runnable());
  world.scheduler.complete(ticket);
  EXPECT_TRUE(world.scheduler.runnable());
}

TEST(Scheduler, RandomGraphsRespectEveryEdgeOnManyThreads) {
  std::mt19937 engine(7);
  const auto random = [&] { return static_cast<uint32_t>(engine()); };
  for (int round = 0; round < 40; ++round) {
    const uint32_t tasks = 1 + random() % 300;
    World world(tasks);
    std::vector<std::vector<uint32_t>> producers(tasks);
    std::vector<uint32_t> blocks(tasks);
    for (uint32_t t = 0; t < tasks; ++t) {
      for (uint32_t k = 0; t > 0 && k < random() % 5; ++k) producers[t].push_back(random() % t);
      blocks[t] = 1 + random() % 4;
      const Shape shape = random() % 8 == 0 ? Shape::kNone : random() % 2 == 0 ? Shape::kAic : Shape::kAiv;
      if (shape == Shape::kNone) blocks[t] = 1;
      world.add(shape, producers[t], blocks[t]);
    }
    world.boot(2, 3);
    // Plain numbers on purpose: under the thread sanitizer an edge that does not order memory shows.
    std::vector<uint32_t> value(tasks * 4, 0);
    struct Checker {
      std::vector<std::vector<uint32_t>>& producers;
      std::vector<uint32_t>& blocks;
      std::vector<uint32_t>& value;
      Scheduler& scheduler;
      std::atomic<uint32_t>& wrong;
      uint32_t first_shape() { return 1; }
      void offer() {}
      Execution execute(const Ticket& ticket) {
        for (uint32_t p : producers[ticket.task]) {
          if (scheduler.graph().slots[p].shape == Shape::kNone) continue;
          for (uint32_t b = 0; b < blocks[p]; ++b) {
            if (value[p * 4 + b] != 1) ++wrong;
          }
        }
        ++value[ticket.task * 4 + ticket.block];
        return Execution::kDone;
      }
      bool reattach() { return true; }
    };
    std::atomic<uint32_t> wrong{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        Checker checker{producers, blocks, value, world.scheduler, wrong};
        while (!world.scheduler.finished()) {
          world.scheduler.drive(checker);
          std::this_thread::yield();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0u);
    EXPECT_EQ(world.scheduler.completed(), tasks);
  }
}

TEST(ReadyQueue, KeepsOrderOverManyLapsAndAnswersFullAndEmpty) {
  std::vector<ReadyQueue::Cell> cells(4);
  ReadyQueue queue;
  queue.attach(cells.data(), 4);
  uint32_t out = 0;
  EXPECT_FALSE(queue.pop(out));
  uint32_t next = 0, expected = 0;
  for (int lap = 0; lap < 10; ++lap) {
    while (queue.push(next)) ++next;
    EXPECT_EQ(next - expected, 4u);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(queue.pop(out));
      EXPECT_EQ(out, expected++);
    }
  }
  queue.reset();
  EXPECT_TRUE(queue.looks_empty());
  EXPECT_TRUE(queue.push(9));
  EXPECT_TRUE(queue.pop(out));
  EXPECT_EQ(out, 9u);
}

TEST(ReadyQueue, StartsAnewInCellsOfAnotherCapacity) {
  std::vector<ReadyQueue::Cell> cells(8);
  ReadyQueue queue;
  for (uint32_t capacity : {8u, 4u, 8u, 2u, 8u}) {
    queue.attach(cells.data(), capacity);
    uint32_t out = 0;
    EXPECT_FALSE(queue.pop(out));
    for (uint32_t i = 0; i < capacity + 1; ++i) EXPECT_EQ(queue.push(i), i < capacity);
    for (uint32_t i = 0; i < capacity - 1; ++i) {
      ASSERT_TRUE(queue.pop(out));
      EXPECT_EQ(out, i);
    }
  }
}

TEST(CoreMap, GivesEachCoreToOneTaker) {
  CoreMap map;
  map.reset(70);
  std::vector<bool> seen(70);
  for (int i = 0; i < 70; ++i) {
    const uint32_t core = map.take();
    ASSERT_LT(core, 70u);
    EXPECT_FALSE(seen[core]);
    seen[core] = true;
  }
  EXPECT_EQ(map.take(), CoreMap::kNone);
  EXPECT_FALSE(map.any());
  map.give_back(65);
  EXPECT_EQ(map.take(), 65u);
}

TEST(CoreLine, AnAnswerIsNeverTakenForAnOlderOne) {
  EXPECT_EQ(next_command(0), 1u);
  EXPECT_EQ(next_command(kCoreExit - 2), kCoreExit - 1);
  EXPECT_EQ(next_command(kCoreExit - 1), 1u);
  CoreLine line;
  EXPECT_EQ(line.state(), CoreState::kIdle);
  const uint32_t first = line.dispatch();
  EXPECT_EQ(line.state(), CoreState::kDispatched);
  EXPECT_EQ(line.accept(), first);
  EXPECT_EQ(line.state(), CoreState::kRunning);
  line.finish(first);
  EXPECT_TRUE(line.done(first));
  EXPECT_EQ(line.state(), CoreState::kDone);
  const uint32_t second = line.dispatch();
  EXPECT_FALSE(line.done(second));
  EXPECT_EQ(line.state(), CoreState::kDispatched);
}

}  // namespace
}  // namespace simpler::device
