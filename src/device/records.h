// The records of one run's graph, shared by whoever plans it and the scheduler that runs it.
//
// A planner fills slots, the fan-in pool, tensors and scalars; from boot on only the atomics of a slot and its cursor
// change. Slots name each other by index, so a graph is a set of flat arrays without pointers into itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "simpler/kernel.h"

namespace simpler::device {

// Which processor a task wants. Ready tasks of one shape share a queue.
enum class Shape : uint8_t { kAic = 0, kAiv = 1, kNone = 2 };
inline constexpr uint32_t kQueuedShapes = 2;

// Value of TaskSlot::wake_head besides task index + kWakeFirst.
inline constexpr uint32_t kWakeEmpty = 0;
inline constexpr uint32_t kWakeClosed = 1;
inline constexpr uint32_t kWakeFirst = 2;

struct alignas(64) TaskSlot {
  // Head of the list of tasks parked on this one. Closed by its completion (exchange, acq_rel), which pairs with the
  // parking compare-exchange (release) and with the look that finds it closed (acquire).
  std::atomic<uint32_t> wake_head;
  uint32_t wake_next;                 // link in the list of the producer this task is parked on; owned by its parker
  std::atomic<uint32_t> next_block;   // next block to hand out; claims need no order of their own
  std::atomic<uint32_t> blocks_done;  // acq_rel: the last block sees what all others wrote
  uint32_t block_num;
  uint32_t fanin_begin;
  uint32_t fanin_left;  // producers not yet seen complete; owned by whoever classifies the task
  uint32_t tensor_begin;
  uint32_t scalar_begin;
  uint16_t tensor_count;
  uint16_t scalar_count;
  kernel::KernelEntry entry;
  uint32_t func_id;
  Shape shape;
  uint8_t padding[3];
};
static_assert(sizeof(TaskSlot) == 64, "one line per task");

// The arrays of one graph. `tasks` slots are filled, of which `complete` need no execution.
struct Graph {
  TaskSlot* slots = nullptr;
  const uint32_t* fanin = nullptr;
  uint32_t tasks = 0;
  uint32_t complete = 0;
};

// One block of one task on one core.
struct Ticket {
  uint32_t task;
  uint32_t block;
  uint32_t core;  // number among the cores of its shape
  Shape shape;
};

}  // namespace simpler::device
