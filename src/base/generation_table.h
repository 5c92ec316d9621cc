// GenerationTable<T>: values named by an index and a generation, so that a name kept too long is recognised.
//
// Index 0 and generation 0 name nothing. A place's generation grows when its value is erased; after 2^32 - 1 uses it
// starts again at 1. Bounded; memory grows with the largest number of values held at once. Single-threaded.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace simpler {

struct GenerationId {
  uint32_t index = 0;
  uint32_t generation = 0;
  friend constexpr bool operator==(GenerationId, GenerationId) = default;
};

template <class T>
class GenerationTable {
 public:
  // At most `capacity` values at once.
  explicit GenerationTable(uint32_t capacity) : capacity_(capacity), places_(1) {}

  // Empty when the table is full.
  template <class... Args>
  std::optional<GenerationId> emplace(Args&&... args) {
    uint32_t index = free_head_;
    if (index != 0) {
      free_head_ = places_[index].next_free;
    } else if (places_.size() <= capacity_) {
      index = static_cast<uint32_t>(places_.size());
      places_.emplace_back();
    } else {
      return std::nullopt;
    }
    Place& place = places_[index];
    place.value.emplace(std::forward<Args>(args)...);
    ++size_;
    return GenerationId{index, place.generation};
  }

  // Null for a name that is unknown, erased or from an earlier use of the place.
  T* find(GenerationId id) {
    if (id.index == 0 || id.index >= places_.size()) return nullptr;
    Place& place = places_[id.index];
    return place.generation == id.generation && place.value ? &*place.value : nullptr;
  }
  const T* find(GenerationId id) const { return const_cast<GenerationTable*>(this)->find(id); }

  bool erase(GenerationId id) {
    if (find(id) == nullptr) return false;
    Place& place = places_[id.index];
    place.value.reset();
    if (++place.generation == 0) place.generation = 1;
    place.next_free = free_head_;
    free_head_ = id.index;
    --size_;
    return true;
  }

  uint32_t size() const { return size_; }
  uint32_t capacity() const { return capacity_; }

  // visit(GenerationId, T&) for every value, in index order; the visitor does not change the table.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (uint32_t index = 1; index < places_.size(); ++index) {
      if (places_[index].value) visit(GenerationId{index, places_[index].generation}, *places_[index].value);
    }
  }

 private:
  struct Place {
    std::optional<T> value;
    uint32_t generation = 1;
    uint32_t next_free = 0;
  };

  uint32_t capacity_;
  uint32_t size_ = 0;
  uint32_t free_head_ = 0;
  std::vector<Place> places_;  // [0] is never used
};

}  // namespace simpler
