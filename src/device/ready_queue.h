// Bounded queue of ready tasks for any number of pushing and popping threads, first in first out.
//
// Each cell carries the turn in which it may be used next, so a push and a pop meet only in their own cell. The storage
// belongs to the caller: a power of two of cells. Full is an answer, not a wait.
#pragma once

#include <atomic>
#include <cstdint>

namespace simpler::device {

class ReadyQueue {
 public:
  struct Cell {
    // turn: equal to the position when free for its push, one more when filled. The filling store (release) pairs with
    // the popping load (acquire), the emptying store with the next lap's pushing load.
    std::atomic<uint32_t> turn;
    uint32_t task;
  };

  void attach(Cell* cells, uint32_t capacity) {
    cells_ = cells;
    mask_ = capacity - 1;
    primed_ = false;  // these cells may hold the turns of another queue
    reset();
  }

  // Empties the queue; no other thread may use it meanwhile. Touches only the cells that were used.
  void reset() {
    const uint32_t used = tail_.load(std::memory_order_relaxed);
    const uint32_t capacity = mask_ + 1;
    if (!primed_ || used >= capacity) {
      for (uint32_t i = 0; i < capacity; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
      primed_ = true;
    } else {
      for (uint32_t i = 0; i < used; ++i) cells_[i].turn.store(i, std::memory_order_relaxed);
    }
    head_.store(0, std::memory_order_relaxed);
    tail_.store(0, std::memory_order_relaxed);
  }

  // False when the queue is full.
  bool push(uint32_t task) {
    uint32_t at = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[at & mask_];
      const auto lag = static_cast<int32_t>(cell.turn.load(std::memory_order_acquire) - at);
      if (lag == 0) {
        if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          cell.task = task;
          cell.turn.store(at + 1, std::memory_order_release);
          return true;
        }
      } else if (lag < 0) {
        return false;
      } else {
        at = tail_.load(std::memory_order_relaxed);
      }
    }
  }

  // False when nothing is in it.
  bool pop(uint32_t& task) {
    uint32_t at = head_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[at & mask_];
      const auto lag = static_cast<int32_t>(cell.turn.load(std::memory_order_acquire) - (at + 1));
      if (lag == 0) {
        if (head_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
          task = cell.task;
          cell.turn.store(at + mask_ + 1, std::memory_order_release);
          return true;
        }
      } else if (lag < 0) {
        return false;
      } else {
        at = head_.load(std::memory_order_relaxed);
      }
    }
  }

  // A hint that may be old by the time it is read.
  bool looks_empty() const { return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_relaxed); }

 private:
  Cell* cells_ = nullptr;
  uint32_t mask_ = 0;
  bool primed_ = false;
  alignas(64) std::atomic<uint32_t> head_{0};
  alignas(64) std::atomic<uint32_t> tail_{0};
};

}  // namespace simpler::device
