// For tests of the engine: a level whose lanes the test answers by hand, one completion at a time.
//
// Everything happens on the test's thread and at its word, so that a test can look at the engine between any two steps.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/test_support.h"

namespace simpler::engine {

class World {
 public:
  explicit World(uint32_t next_levels = 2, uint32_t subs = 0, EngineOptions options = {.window = 256},
                 uint32_t depth = 32)
      : level(options.window), engine(options, *level.tables, *level.arena, level.heap.get()) {
    for (uint32_t i = 0; i < next_levels + subs; ++i) {
      const bool sub = i >= next_levels;
      lanes.push_back(std::make_unique<HandLane>(sub ? WorkerType::kSub : WorkerType::kNextLevel,
                                                 sub ? i - next_levels : i, depth));
      EXPECT_TRUE(engine.add_lane(*lanes.back()).ok());
    }
  }
  RunRef begin() { return engine.begin_run().value(); }
  Argument cell(uint64_t index, TensorArgType tag, uint32_t buffer = 0) {
    return {level.view(level.buffers[buffer], index), tag};
  }
  TaskId submit(const RunRef& run, const std::vector<Argument>& arguments = {}, uint32_t worker = 0,
                WorkerType type = WorkerType::kNextLevel, std::vector<Dependency> after = {}) {
    Request request(arguments, worker, type);
    request.request.dependencies = after;
    TaskId task;
    const Status status = engine.submit(run, request.request, &task);
    EXPECT_TRUE(status.is_ok()) << status.describe();
    return task;
  }
  Status try_submit(const RunRef& run, const Request& request) {
    TaskId task;
    return engine.submit(run, request.request, &task);
  }
  TaskId submit_group(const RunRef& run, const std::vector<uint32_t>& workers, WorkerType type = WorkerType::kNextLevel,
                      const std::vector<Argument>& each = {}) {
    std::vector<std::unique_ptr<Request>> parts;
    std::vector<MemberArgs> members;
    for (const uint32_t worker : workers) {
      parts.push_back(std::make_unique<Request>(each, worker, type));
      members.push_back(parts.back()->member);
    }
    TaskRequest request;
    request.type = type;
    request.callable = 1;
    request.members = members;
    TaskId task;
    const Status status = engine.submit(run, request, &task);
    EXPECT_TRUE(status.is_ok()) << status.describe();
    return task;
  }
  void answer(uint32_t lane, lane::Outcome outcome = lane::Outcome::kSuccess) {
    lanes[lane]->answer(outcome);
    pump();
  }
  void pump() {
    while (engine.pump(64) != 0 || engine.has_backlog()) {
    }
  }
  size_t pushed(uint32_t lane) const { return lanes[lane]->lines.size(); }
  uint32_t slot_at(uint32_t lane, size_t line) const { return lanes[lane]->lines[line].slot; }
  void expect_clean() {
    EXPECT_EQ(engine.unfinished_runs(), 0U);
    EXPECT_EQ(engine.slots().live(), 0U);
    EXPECT_EQ(level.arena->live_blocks(), 0U);
    const Status consistent = engine.check_consistency();
    EXPECT_TRUE(consistent.is_ok()) << consistent.describe();
  }

  Level level;
  std::vector<std::unique_ptr<HandLane>> lanes;
  Engine engine;
};

}  // namespace simpler::engine
