// Scheduler: runs one graph on the cores of one chip, driven by any number of threads at once.
//
// A task waits on at most one producer at a time: it parks on the wake list of its newest unfinished one, and whoever
// completes that one looks on. Nothing is counted, so nothing has to be initialised per edge. Ready tasks queue by
// shape; a task of several blocks is handed out block by block and goes back into the queue in between, so that others
// take part. Threads own nothing: every structure here may be used by all of them.
//
// The Platform decides where a block runs and what an idle thread does. It provides
//   uint32_t first_shape()        which queue to look at first
//   void offer()                  called before each block: start another thread if one is idle and work is left
//   Execution execute(Ticket)     runs the block
//   bool reattach()               after kDetached: may this thread go on driving?
// This file is freestanding: no exceptions, no allocation, no containers.
#pragma once

#include <atomic>
#include <cstdint>

#include "device/core_map.h"
#include "device/ready_queue.h"
#include "device/records.h"

namespace simpler::device {

enum class Execution : uint8_t {
  kDone,
  kDetached,  // done, but another thread took this one's place meanwhile
  kFailed,    // the block did not do its work; the run is being stopped
  kLost,      // the run went on without this thread: touch nothing and leave
};

enum class Stop : uint32_t { kNone = 0, kReadyQueueFull = 1, kFailed = 2 };

class Scheduler {
 public:
  // Queue cells must hold `capacity` (a power of two) each. Call before the first boot.
  void attach_queue(Shape shape, ReadyQueue::Cell* cells, uint32_t capacity) {
    queues_[index(shape)].attach(cells, capacity);
  }

  // Takes over a planned graph: sorts its tasks into ready and waiting. One thread, before any drive.
  void boot(const Graph& graph, uint32_t aic_cores, uint32_t aiv_cores) {
    graph_ = graph;
    stop_.store(Stop::kNone, std::memory_order_relaxed);
    completed_.store(graph.complete, std::memory_order_relaxed);
    for (ReadyQueue& queue : queues_) queue.reset();
    cores_[index(Shape::kAic)].reset(aic_cores);
    cores_[index(Shape::kAiv)].reset(aiv_cores);
    for (uint32_t task = 0; task < graph.tasks; ++task) {
      if (graph_.slots[task].wake_head.load(std::memory_order_relaxed) != kWakeClosed) classify_and_retire(task);
    }
  }

  // Runs blocks until none can be started by this thread.
  template <class Platform>
  void drive(Platform& platform) {
    Ticket ticket;
    while (!stopped() && take(ticket, platform.first_shape())) {
      platform.offer();
      switch (platform.execute(ticket)) {
        case Execution::kDone:
          complete(ticket);
          break;
        case Execution::kDetached:
          complete(ticket);
          if (!platform.reattach()) return;
          break;
        case Execution::kFailed:
          release_core(ticket);
          return;
        case Execution::kLost:
          return;
      }
    }
  }

  // True when a free core could take a ready task now. A hint while others drive.
  bool runnable() const {
    for (uint32_t s = 0; s < kQueuedShapes; ++s) {
      if (!queues_[s].looks_empty() && cores_[s].any()) return true;
    }
    return false;
  }
  bool has_ready() const { return !queues_[0].looks_empty() || !queues_[1].looks_empty(); }

  // No block is started from now on. The first reason stays.
  void stop(Stop why) {
    Stop none = Stop::kNone;
    stop_.compare_exchange_strong(none, why, std::memory_order_relaxed);
  }
  Stop stop_reason() const { return stop_.load(std::memory_order_relaxed); }
  bool stopped() const { return stop_reason() != Stop::kNone; }
  // Acquire: who sees the end sees what every kernel wrote.
  bool finished() const { return completed_.load(std::memory_order_acquire) == graph_.tasks; }
  uint32_t completed() const { return completed_.load(std::memory_order_relaxed); }
  const Graph& graph() const { return graph_; }

  bool take(Ticket& ticket, uint32_t first_shape) {
    for (uint32_t k = 0; k < kQueuedShapes; ++k) {
      const uint32_t s = (first_shape + k) % kQueuedShapes;
      if (queues_[s].looks_empty()) continue;
      const uint32_t core = cores_[s].take();
      if (core == CoreMap::kNone) continue;
      uint32_t task;
      if (!queues_[s].pop(task)) {
        cores_[s].give_back(core);
        continue;
      }
      TaskSlot& slot = graph_.slots[task];
      const uint32_t block = slot.next_block.fetch_add(1, std::memory_order_relaxed);
      if (block + 1 < slot.block_num && !queues_[s].push(task)) stop(Stop::kReadyQueueFull);
      ticket = Ticket{task, block, core, static_cast<Shape>(s)};
      return true;
    }
    return false;
  }

  void complete(const Ticket& ticket) {
    TaskSlot& slot = graph_.slots[ticket.task];
    release_core(ticket);
    if (slot.blocks_done.fetch_add(1, std::memory_order_acq_rel) + 1 == slot.block_num) retire(ticket.task);
  }

  void release_core(const Ticket& ticket) { cores_[index(ticket.shape)].give_back(ticket.core); }

 private:
  static constexpr uint32_t index(Shape shape) { return static_cast<uint32_t>(shape); }

  // Parks the task on its newest unfinished producer; true when there is none.
  bool classify(uint32_t task) {
    TaskSlot& slot = graph_.slots[task];
    while (slot.fanin_left != 0) {
      TaskSlot& producer = graph_.slots[graph_.fanin[slot.fanin_begin + slot.fanin_left - 1]];
      uint32_t head = producer.wake_head.load(std::memory_order_acquire);
      while (head != kWakeClosed) {
        slot.wake_next = head;
        if (producer.wake_head.compare_exchange_weak(head, task + kWakeFirst, std::memory_order_acq_rel,
                                                     std::memory_order_acquire)) {
          return false;
        }
      }
      --slot.fanin_left;
    }
    return true;
  }

  // Queues a ready task; a task without a kernel joins the chain of those to retire at once.
  void settle(uint32_t task, uint32_t& to_retire) {
    if (!classify(task)) return;
    TaskSlot& slot = graph_.slots[task];
    if (slot.shape == Shape::kNone) {
      slot.wake_next = to_retire;
      to_retire = task + kWakeFirst;
    } else if (!queues_[index(slot.shape)].push(task)) {
      stop(Stop::kReadyQueueFull);
    }
  }

  void classify_and_retire(uint32_t task) {
    uint32_t to_retire = kWakeEmpty;
    settle(task, to_retire);
    if (to_retire != kWakeEmpty) retire(task);
  }

  // Publishes the completion and looks at every task that waited for it, in submission order.
  void retire(uint32_t task) {
    uint32_t to_retire = kWakeEmpty;
    while (true) {
      uint32_t woken = reversed(graph_.slots[task].wake_head.exchange(kWakeClosed, std::memory_order_acq_rel));
      while (woken != kWakeEmpty) {
        const uint32_t waiter = woken - kWakeFirst;
        woken = graph_.slots[waiter].wake_next;
        settle(waiter, to_retire);
      }
      completed_.fetch_add(1, std::memory_order_release);
      if (to_retire == kWakeEmpty) return;
      task = to_retire - kWakeFirst;
      to_retire = graph_.slots[task].wake_next;
    }
  }

  uint32_t reversed(uint32_t head) {
    uint32_t out = kWakeEmpty;
    while (head != kWakeEmpty) {
      TaskSlot& slot = graph_.slots[head - kWakeFirst];
      const uint32_t next = slot.wake_next;
      slot.wake_next = out;
      out = head;
      head = next;
    }
    return out;
  }

  Graph graph_;
  ReadyQueue queues_[kQueuedShapes];
  CoreMap cores_[kQueuedShapes];
  std::atomic<Stop> stop_{Stop::kNone};  // a flag that orders nothing
  // Counted with release after the task's own effects; pairs with finished().
  alignas(64) std::atomic<uint32_t> completed_{0};
};

}  // namespace simpler::device
