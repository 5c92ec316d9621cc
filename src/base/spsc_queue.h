// SpscQueue<T>: a bounded queue between exactly one producing and one consuming thread, without locks.
//
// Full: try_push refuses and the producer decides. Each side keeps a copy of the other's cursor and reads the shared
// one only when the copy says full or empty, so a busy queue moves one cache line per batch instead of per item.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace simpler {

template <class T>
class SpscQueue {
 public:
  // Capacity must be a power of two.
  explicit SpscQueue(size_t capacity) : items_(capacity), mask_(capacity - 1) {
    SIMPLER_CHECK(std::has_single_bit(capacity), capacity);
  }

  // Producer.
  bool try_push(T value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ > mask_) {
      seen_head_ = head_.load(std::memory_order_acquire);
      if (tail - seen_head_ > mask_) return false;
    }
    items_[tail & mask_] = std::move(value);
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Consumer.
  std::optional<T> try_pop() {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == seen_tail_) {
      seen_tail_ = tail_.load(std::memory_order_acquire);
      if (head == seen_tail_) return std::nullopt;
    }
    std::optional<T> value(std::move(items_[head & mask_]));
    head_.store(head + 1, std::memory_order_release);
    return value;
  }
  bool empty() const { return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire); }

  size_t capacity() const { return mask_ + 1; }

 private:
  std::vector<T> items_;
  size_t mask_;
  alignas(128) std::atomic<size_t> tail_{
      0};                 // producer's release pairs with the consumer's acquire: items below are whole
  size_t seen_head_ = 0;  // producer only
  alignas(128) std::atomic<size_t> head_{
      0};                 // consumer's release pairs with the producer's acquire: places below are free
  size_t seen_tail_ = 0;  // consumer only
};

}  // namespace simpler
