// What the worker layer hands to the engine, and the names it gets back.
#pragma once

#include <cstdint>
#include <span>

#include "base/clock.h"
#include "memory/heap.h"
#include "memory/tables.h"
#include "simpler/enums.h"
#include "simpler/ids.h"
#include "wire/tensor_ref.h"

namespace simpler::engine {

class RunRecord;

// Names a run. Valid from begin_run until release; the record is the engine's.
struct RunRef {
  RunRecord* record = nullptr;
  uint64_t id = 0;  // from 1, never reused
  explicit operator bool() const { return record != nullptr; }
  friend bool operator==(const RunRef&, const RunRef&) = default;
};

// Names a task of a run. Stays safe to use after the task is gone: it then counts as satisfied.
struct TaskId {
  uint64_t run = 0;
  uint32_t slot = 0;
  uint32_t generation = 0;
  friend bool operator==(const TaskId&, const TaskId&) = default;
};

struct Dependency {
  TaskId producer;
  bool retain = true;  // keep the producer's storage until this task is terminal
};

// One dispatch of a task: a single task has one member, a group several.
struct MemberArgs {
  std::span<const wire::TensorRef> tensors;
  std::span<const TensorArgType> tags;  // one per tensor
  std::span<const uint64_t> scalars;
  uint32_t worker = 0;  // NEXT_LEVEL: the id of the child; not used for SUB
};

struct TaskRequest {
  std::span<const MemberArgs> members;
  std::span<const Dependency> dependencies;
  Nanos timeout = 0;  // from the moment the child works on it; 0: none
  uint16_t callable = 0;
  WorkerType type = WorkerType::kNextLevel;  // between two numbers, so that they are not loaded as one
  uint16_t config = wire::kDefaultConfig;
};

// Memory of a run, named like any buffer.
struct Allocation {
  memory::BufferRef buffer;
  BufferDescriptor descriptor;
  std::byte* data = nullptr;
};

struct RunOptions {
  Nanos timeout = 0;  // from begin_run; 0: none
};

}  // namespace simpler::engine
