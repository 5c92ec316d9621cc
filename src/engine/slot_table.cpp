#include "engine/slot_table.h"

#include <sys/mman.h>

#include "base/check.h"

namespace simpler::engine {

namespace {

template <class T>
T* map_lines(uint32_t count) {
  void* memory = mmap(nullptr, uint64_t{count} * sizeof(T), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SIMPLER_CHECK(memory != MAP_FAILED, count, sizeof(T));
  return static_cast<T*>(memory);
}

}  // namespace

SlotTable::SlotTable(uint32_t window) : window_(window), slots_(nullptr), details_(nullptr) {
  SIMPLER_CHECK(std::has_single_bit(window) && window >= 64 && window <= (1U << 20), window);
  slots_ = map_lines<Slot>(window);
  details_ = map_lines<SlotDetails>(window);
  for (uint32_t i = 0; i < window; ++i) slots_[i].generation = i;
  free_.assign(window / 64, ~uint64_t{0});
  const uint32_t words = window / 64;
  free_summary_.assign((words + 63) / 64, ~uint64_t{0});
  if (words % 64 != 0) free_summary_.back() = (uint64_t{1} << (words % 64)) - 1;
}

SlotTable::~SlotTable() {
  munmap(slots_, uint64_t{window_} * sizeof(Slot));
  munmap(details_, uint64_t{window_} * sizeof(SlotDetails));
}

void SlotTable::find_lowest() {
  for (uint32_t summary = lowest_ / 64; summary < free_summary_.size(); ++summary) {
    while (free_summary_[summary] != 0) {
      const uint32_t word = summary * 64 + static_cast<uint32_t>(std::countr_zero(free_summary_[summary]));
      if (free_[word] != 0) {
        lowest_ = word;
        return;
      }
      free_summary_[summary] &= free_summary_[summary] - 1;
    }
  }
  SIMPLER_UNREACHABLE(live_, window_);
}

uint32_t SlotTable::take_chunk() {
  ++chunks_live_;
  uint32_t taken = free_chunk_;
  if (taken != kNoChunk) {
    free_chunk_ = chunks_[taken].next;
  } else {
    taken = static_cast<uint32_t>(chunks_.size());
    chunks_.emplace_back();
  }
  chunks_[taken].next = kNoChunk;
  chunks_[taken].count = 0;
  return taken;
}

}  // namespace simpler::engine
