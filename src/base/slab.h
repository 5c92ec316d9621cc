// Slab<T>: a fixed number of places for T, named by index, taken and given back in any order in constant time.
//
// All memory is taken at construction and nothing is allocated afterwards. The place that was given back last is handed
// out first, while it is warm in the cache; a place never used before is touched only when no used one is free.
// Single-threaded: the owner holds whatever lock protects it. Objects still in use when the slab ends are destroyed.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"

namespace simpler {

template <class T>
class Slab {
 public:
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  explicit Slab(uint32_t capacity)
      : capacity_(capacity), next_free_(std::make_unique<uint32_t[]>(capacity)), places_(allocate(capacity)) {
    SIMPLER_CHECK(capacity < kTaken, capacity);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() {
    for (uint32_t index = 0; index < touched_; ++index) {
      if (contains(index)) std::destroy_at(places_.get() + index);
    }
  }

  // The index of a new T, or kNone when every place is in use.
  template <class... Args>
  uint32_t emplace(Args&&... args) {
    uint32_t index = free_head_;
    if (index != kNone) {
      free_head_ = next_free_[index];
    } else if (touched_ < capacity_) {
      index = touched_++;
    } else {
      return kNone;
    }
    std::construct_at(places_.get() + index, std::forward<Args>(args)...);
    next_free_[index] = kTaken;
    ++in_use_;
    return index;
  }

  void erase(uint32_t index) {
    SIMPLER_CHECK(contains(index), index, in_use_, capacity_);
    std::destroy_at(places_.get() + index);
    next_free_[index] = free_head_;
    free_head_ = index;
    --in_use_;
  }

  bool contains(uint32_t index) const { return index < touched_ && next_free_[index] == kTaken; }
  T& operator[](uint32_t index) { return places_[index]; }  // precondition: contains(index)
  const T& operator[](uint32_t index) const { return places_[index]; }

  uint32_t in_use() const { return in_use_; }
  uint32_t capacity() const { return capacity_; }
  bool full() const { return in_use_ == capacity_; }
  T* data() { return places_.get(); }

 private:
  static constexpr uint32_t kTaken = kNone - 1;  // in next_free_: the place holds an object
  struct Free {
    void operator()(T* places) const { ::operator delete (places, std::align_val_t{alignof(T)}); }
  };
  static std::unique_ptr<T[], Free> allocate(uint32_t capacity) {
    return std::unique_ptr<T[], Free>(
        static_cast<T*>(::operator new (sizeof(T) * capacity, std::align_val_t{alignof(T)})));
  }

  uint32_t capacity_;
  uint32_t touched_ = 0;  // places below were used at least once
  uint32_t in_use_ = 0;
  uint32_t free_head_ = kNone;
  std::unique_ptr<uint32_t[]> next_free_;
  std::unique_ptr<T[], Free> places_;
};

}  // namespace simpler
