// Runs: their records, the order in which they execute, and the ready work of each.
//
// A record lives from begin_run until the owner's release, an active entry from begin_run until the run is terminal.
// Runs execute in the order in which they began, one at a time; nothing else depends on that number.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/wake_word.h"
#include "engine/slot_table.h"
#include "graph/scope_stack.h"
#include "simpler/enums.h"
#include "simpler/status.h"

namespace simpler::engine {

// What outlives the execution. `done` is the only field that other threads read; the rest belongs to the engine until
// `done` is seen set.
class RunRecord {
 public:
  uint64_t id = 0;
  RunPhase phase = RunPhase::kReserved;
  std::vector<Status> errors;                  // in order of arrival
  std::vector<std::function<void()>> on_done;  // called by the driver, outside of its lock
  uint8_t active = 0;                          // place in the table of active runs
  bool released = false;                       // the owner is gone: the record goes when the run is terminal
  std::atomic<bool> done{false};               // released by the engine's holder after the fields above are final
  WakeWord word;                               // what waiters that do not drive sleep on

  bool is_done() const { return done.load(std::memory_order_acquire); }
};

// An intrusive list of slots through SlotDetails.
struct SlotList {
  uint32_t head = kNoSlot;
  uint32_t tail = kNoSlot;
  bool empty() const { return head == kNoSlot; }
};

struct LaneQueue {
  SlotList ready;
  SlotList early;  // every unfinished producer is already pushed on this lane
};

struct ActiveRun {
  RunRecord* record = nullptr;
  uint64_t id = 0;
  uint8_t place = 0;        // in the table of active runs
  uint32_t live_tasks = 0;  // not consumed
  uint32_t live_allocations = 0;
  bool closed = false;
  bool executing = false;
  bool cancelled = false;
  bool failed = false;  // has an error: submits return it
  Nanos timeout = 0;
  Nanos deadline = 0;  // set by the first tick; 0: none
  std::vector<LaneQueue> lanes;
  SlotList groups;
  SlotList subs;
  std::vector<uint32_t> named_buffers;
};

}  // namespace simpler::engine
