// A target process's own table: from the index in a dispatch line, or from a digest, to what runs here.
//
// A digest is installed once and counted; it takes the smallest free slot, which never leaves this process. A line with
// an index that is not installed fails its task; nothing is loaded on the way. Single-threaded (the serve loop).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "callable/identity.h"
#include "simpler/status.h"

namespace simpler::callable {

template <class T>
class Resolver {
 public:
  explicit Resolver(uint32_t capacity = 64) : capacity_(capacity) {}

  // Counts a known digest up; else calls make(slot) -> Result<T> and installs what it gives. LOCAL_SLOT_EXHAUSTED when
  // no slot is free; a failed make leaves nothing behind.
  template <class Make>
  Result<uint32_t> install(const Digest& digest, uint16_t index, Make&& make) {
    if (index == 0) return invalid_argument("callable index 0 is reserved");
    const auto known = by_digest_.find(digest);
    if (known != by_digest_.end()) {
      ++slots_[known->second]->references;
      map_index(index, known->second);
      return known->second;
    }
    uint32_t slot = 0;
    while (slot < slots_.size() && slots_[slot].has_value()) ++slot;
    if (slot >= capacity_) {
      return resource_exhausted("LOCAL_SLOT_EXHAUSTED: all " + std::to_string(capacity_) +
                                " callable slots of this process are in use");
    }
    Result<T> made = make(slot);
    if (!made.ok()) return std::move(made).status();
    if (slot == slots_.size()) slots_.emplace_back();
    slots_[slot].emplace(Slot{digest, 1, std::move(*made)});
    by_digest_.emplace(digest, slot);
    map_index(index, slot);
    return slot;
  }

  // Counts down; at zero calls drop(slot, T&) -> Status and frees the slot whatever it says. True when freed.
  template <class Drop>
  Result<bool> remove(const Digest& digest, Drop&& drop) {
    const auto known = by_digest_.find(digest);
    if (known == by_digest_.end()) return not_found("callable " + hashid(digest) + " is not installed here");
    const uint32_t slot = known->second;
    if (--slots_[slot]->references != 0) return false;
    Status dropped = drop(slot, slots_[slot]->value);
    for (uint16_t& mapped : by_index_) {
      if (mapped == slot + 1) mapped = 0;
    }
    by_digest_.erase(known);
    slots_[slot].reset();
    if (!dropped.is_ok()) return dropped;
    return true;
  }
  Result<bool> remove(const Digest& digest) {
    return remove(digest, [](uint32_t, T&) { return Status::ok(); });
  }

  // Null when nothing is installed under that index.
  T* find(uint16_t index) {
    if (index >= by_index_.size() || by_index_[index] == 0) return nullptr;
    return &slots_[by_index_[index] - 1U]->value;
  }
  std::optional<uint32_t> slot_of(uint16_t index) const {
    if (index >= by_index_.size() || by_index_[index] == 0) return std::nullopt;
    return by_index_[index] - 1U;
  }
  size_t size() const { return by_digest_.size(); }
  uint32_t references(const Digest& digest) const {
    const auto known = by_digest_.find(digest);
    return known == by_digest_.end() ? 0 : slots_[known->second]->references;
  }

 private:
  struct Slot {
    Digest digest{};
    uint32_t references = 0;
    T value;
  };

  void map_index(uint16_t index, uint32_t slot) {
    if (by_index_.size() <= index) by_index_.resize(index + 1U);
    by_index_[index] = static_cast<uint16_t>(slot + 1);
  }

  uint32_t capacity_;
  std::vector<std::optional<Slot>> slots_;
  std::map<Digest, uint32_t> by_digest_;
  std::vector<uint16_t> by_index_;  // slot + 1; 0 = nothing
};

}  // namespace simpler::callable
