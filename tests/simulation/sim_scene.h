// What the parts of one world share: its plan, its engine, the story so far and the result.
//
// A Scene belongs to its World. The Builder adds runs and tasks, the World moves them on, the Judge decides whether
// what happened was allowed and is the only one to set what a task has to wait for. Every draw comes from `random`, in
// the order of the steps, so that a seed replays exactly.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/seeded_random.h"
#include "engine/engine.h"
#include "memory/args_arena.h"
#include "memory/heap.h"
#include "memory/tables.h"
#include "simpler/tensor.h"
#include "simulation/sim_world.h"

namespace simpler::simulation {

inline constexpr uint32_t kSide = 8;  // buffers are kSide x kSide cells of 8 bytes
inline constexpr uint32_t kCells = kSide * kSide;
inline constexpr uint32_t kBuffers = 3;
inline constexpr uint32_t kMaxWindow = 256;
inline constexpr uint32_t kNoOne = UINT32_MAX;

struct ViewKind {
  std::vector<uint32_t> shape;
  std::vector<uint32_t> strides;
};

// Shared tables, arena and heap with the buffers and layouts that all worlds name.
class Ground {
 public:
  Ground();

  std::unique_ptr<memory::SharedTables> tables;
  std::unique_ptr<memory::ArgsArena> arena;
  std::unique_ptr<memory::Heap> heap;
  std::array<memory::BufferRef, kBuffers> buffers;
  std::vector<ViewKind> kinds;
  std::vector<uint32_t> layouts;  // of each kind

 private:
  BufferDescriptor describe();
};

// What a world is like; drawn before anything else.
struct Plan {
  engine::EngineOptions options;
  uint32_t next_levels = 0;  // NEXT_LEVEL children
  uint32_t subs = 0;
  uint32_t runs = 0;
  bool may_fail = false;
  bool may_lose = false;
  bool may_cancel = false;
  bool slow_child = false;  // the first child hardly ever moves
  bool big_allocations = false;
  // Under the weaker rules only: each task names the earlier ones that these rules do not order before it.
  bool adds_edges = false;

  bool weak() const { return options.inference == graph::Inference::kWritersOnly; }
  // Whether the bytes must be those of a serial execution.
  bool serial() const { return !weak() || adds_edges; }
};
Plan draw_plan(SeededRandom& random, uint64_t seed);

struct View {
  wire::TensorRef ref;
  uint32_t space = 0;  // which cells: buffers first, then allocations
  std::vector<uint8_t> cells;
};

enum class Fate : uint8_t { kWaiting, kRunning, kSucceeded, kFailed };

struct SimTask {
  uint32_t number = 0;
  uint32_t run = 0;  // index into runs
  engine::TaskId id;
  std::vector<std::vector<View>> views;  // by member
  std::vector<std::vector<TensorArgType>> tags;
  std::vector<uint32_t> after;   // tasks that must have succeeded before it starts: by a byte or by an explicit edge
  std::vector<uint32_t> beside;  // tasks of a common byte that nothing orders before it
  uint32_t members_left = 0;
  bool will_fail = false;
  Fate fate = Fate::kWaiting;
  std::vector<uint64_t> digests;  // by member, made of what it read at its start
  std::vector<bool> ended;        // by member, successfully
};

struct SimRun {
  engine::RunRef ref;
  uint64_t id = 0;
  uint32_t first_task = 0;
  uint32_t planned = 0;  // tasks
  uint32_t scopes = 0;
  bool disturbed = false;  // cancelled, failed, timed, or a task of it failed: it may end with errors
  bool must_fail = false;  // it has to end with errors
  bool stopped = false;    // nothing of it may start any more
  bool closed = false;
  uint32_t ends = 0;                   // times the engine told that it is over
  std::vector<uint32_t> spaces;        // allocations that can be named
  std::vector<uint32_t> scope_spaces;  // how many of them at each scope_begin
};

struct Scene {
  Scene(Ground& shared_ground, uint64_t seed, bool wants_trace)
      : ground(shared_ground), random(seed), trace(wants_trace), plan(draw_plan(random, seed)) {
    engine.emplace(plan.options, *ground.tables, *ground.arena, ground.heap.get());
    refs.assign(ground.buffers.begin(), ground.buffers.end());
  }

  template <class... Ts>
  void note(const char* format, Ts... values) const {
    if (trace) std::printf(format, values...);
  }
  void mix(uint64_t value) { result.digest = (result.digest ^ value) * 0x9E3779B97F4A7C15U + 0x1234567; }
  void complain(const std::string& problem) {
    if (result.problem.empty()) result.problem = problem;
  }
  // The run has an error for a reason that is not the engine's.
  static void disturb(SimRun& run, bool stops) {
    run.disturbed = run.must_fail = true;
    run.stopped = run.stopped || stops;
  }
  bool chance(uint32_t percent) { return random.below(100) < percent; }

  // The task that a line carries.
  SimTask& task_of(const wire::Dispatch& dispatch);
  void name_task(const SimTask& task);

  Ground& ground;
  SeededRandom random;
  bool trace;
  Plan plan;
  std::optional<engine::Engine> engine;
  std::deque<SimTask> tasks;
  std::deque<SimRun> runs;
  std::vector<memory::BufferRef> refs;  // of each space
  WorldResult result;

 private:
  std::unordered_map<uint64_t, uint32_t> by_name_;
};

}  // namespace simpler::simulation
