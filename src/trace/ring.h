// Ring: the last N events of one thread, in memory that the tracing process shares with its children.
//
// Written by its own thread only, without locks and without waiting; when it is full the oldest event goes. Whoever
// reads copies and then drops what may have been overwritten meanwhile. Because the memory is shared, the events of a
// process that was killed can still be read.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "trace/event.h"

namespace simpler::trace {

struct RingHeader {
  // Counts every event ever written. The writer's release pairs with the reader's acquire: events below are whole.
  std::atomic<uint64_t> written{0};
  std::atomic<uint32_t> pid{0};  // release once the names below are set; 0: not in use
  uint32_t tid = 0;
  std::array<char, 48> process_name{};
  std::array<char, 32> thread_name{};
};

class Ring {
 public:
  using Words = std::array<uint64_t, 4>;
  static constexpr size_t bytes(uint32_t capacity) { return sizeof(RingHeader) + size_t{capacity} * sizeof(Event); }

  Ring() = default;
  // `memory` holds bytes(capacity) bytes, all zero in a new ring; capacity is a power of two.
  Ring(std::byte* memory, uint32_t capacity)
      : header_(reinterpret_cast<RingHeader*>(memory)),
        words_(reinterpret_cast<uint64_t*>(memory + sizeof(RingHeader))),
        capacity_(capacity) {
    SIMPLER_CHECK(std::has_single_bit(capacity), capacity);
  }

  bool valid() const { return header_ != nullptr; }
  RingHeader& header() const { return *header_; }

  // Owner thread.
  void push(const Event& event) {
    const uint64_t index = header_->written.load(std::memory_order_relaxed);
    const auto words = std::bit_cast<Words>(event);
    uint64_t* const place = place_of(index);
    for (size_t i = 0; i < words.size(); ++i) {
      std::atomic_ref<uint64_t>(place[i]).store(words[i], std::memory_order_release);
    }
    header_->written.store(index + 1, std::memory_order_release);
  }

  // Any thread: appends the events that are surely whole, oldest first; returns how many older ones are lost.
  uint64_t read(std::vector<Event>& out) const {
    const uint64_t end = header_->written.load(std::memory_order_acquire);
    const uint64_t begin = first_whole(end);
    std::vector<Event> copied;
    copied.reserve(static_cast<size_t>(end - begin));
    for (uint64_t index = begin; index < end; ++index) copied.push_back(load(index));
    const uint64_t safe = std::clamp(first_whole(header_->written.load(std::memory_order_relaxed)), begin, end);
    out.insert(out.end(), copied.begin() + static_cast<std::ptrdiff_t>(safe - begin), copied.end());
    return safe;
  }

 private:
  // The event that is being written now, number `written`, may already have spoilt the place of the oldest one.
  uint64_t first_whole(uint64_t written) const { return written + 1 > capacity_ ? written + 1 - capacity_ : 0; }
  uint64_t* place_of(uint64_t index) const { return words_ + (index & (capacity_ - 1)) * 4; }
  Event load(uint64_t index) const {
    Words words{};
    uint64_t* const place = place_of(index);
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = std::atomic_ref<uint64_t>(place[i]).load(std::memory_order_acquire);
    }
    return std::bit_cast<Event>(words);
  }

  RingHeader* header_ = nullptr;
  uint64_t* words_ = nullptr;
  uint32_t capacity_ = 0;
};

}  // namespace simpler::trace
