// Byte ranges in the order of their begin, in chunks of at most 64: insert and query cost O(log n + answers) for ranges
// of similar size. One range much longer than the others costs every query a look at each chunk's summary.
//
// Nothing is erased singly; `clear` keeps the storage for the next round.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace simpler::graph {

class IntervalIndex {
 public:
  struct Item {
    uint64_t begin;
    uint64_t end;
    uint32_t value;
  };

  void insert(const Item& item) {
    longest_ = std::max(longest_, item.end - item.begin);
    if (used_ == 0) add_chunk(0, item.begin);
    size_t at = chunk_before(item.begin);
    if (chunks_[at]->count == kChunkItems) {
      split(at);
      at = chunk_before(item.begin);
    }
    Chunk& chunk = *chunks_[at];
    Item* first = chunk.items.data();
    Item* place = std::upper_bound(first, first + chunk.count, item.begin,
                                   [](uint64_t begin, const Item& other) { return begin < other.begin; });
    std::move_backward(place, first + chunk.count, first + chunk.count + 1);
    *place = item;
    ++chunk.count;
    heads_[at].begin = std::min(heads_[at].begin, item.begin);
    heads_[at].end = std::max(heads_[at].end, item.end);
  }

  // Calls `visit(value)` for every range that meets [begin, end).
  template <class Visit>
  void for_each(uint64_t begin, uint64_t end, Visit&& visit) const {
    if (used_ == 0) return;
    const uint64_t earliest = begin > longest_ ? begin - longest_ : 0;
    for (size_t at = chunk_before(earliest); at < used_ && heads_[at].begin < end; ++at) {
      if (heads_[at].end <= begin) continue;
      const Chunk& chunk = *chunks_[at];
      for (uint32_t i = 0; i < chunk.count && chunk.items[i].begin < end; ++i) {
        if (chunk.items[i].end > begin) visit(chunk.items[i].value);
      }
    }
  }

  void clear() {
    used_ = 0;
    longest_ = 0;
  }

 private:
  static constexpr uint32_t kChunkItems = 64;
  struct Chunk {
    uint32_t count = 0;
    std::array<Item, kChunkItems> items;
  };
  struct Head {
    uint64_t begin;
    uint64_t end;
  };

  // The last chunk that begins at or before `begin`, else the first.
  size_t chunk_before(uint64_t begin) const {
    const auto last = heads_.begin() + static_cast<std::ptrdiff_t>(used_);
    const auto after = std::upper_bound(heads_.begin(), last, begin,
                                        [](uint64_t value, const Head& head) { return value < head.begin; });
    return after == heads_.begin() ? 0 : static_cast<size_t>(after - heads_.begin()) - 1;
  }

  void add_chunk(size_t at, uint64_t begin) {
    if (used_ == chunks_.size()) {
      chunks_.push_back(std::make_unique<Chunk>());
      heads_.push_back({});
    }
    std::rotate(chunks_.begin() + static_cast<std::ptrdiff_t>(at), chunks_.begin() + static_cast<std::ptrdiff_t>(used_),
                chunks_.begin() + static_cast<std::ptrdiff_t>(used_) + 1);
    std::move_backward(heads_.begin() + static_cast<std::ptrdiff_t>(at),
                       heads_.begin() + static_cast<std::ptrdiff_t>(used_),
                       heads_.begin() + static_cast<std::ptrdiff_t>(used_) + 1);
    chunks_[at]->count = 0;
    heads_[at] = {begin, begin};
    ++used_;
  }

  void split(size_t at) {
    add_chunk(at + 1, chunks_[at]->items[kChunkItems / 2].begin);
    Chunk& low = *chunks_[at];
    Chunk& high = *chunks_[at + 1];
    std::copy(low.items.begin() + kChunkItems / 2, low.items.end(), high.items.begin());
    low.count = high.count = kChunkItems / 2;
    for (const size_t i : {at, at + 1}) {
      heads_[i].begin = chunks_[i]->items[0].begin;
      heads_[i].end = 0;
      for (uint32_t k = 0; k < chunks_[i]->count; ++k)
        heads_[i].end = std::max(heads_[i].end, chunks_[i]->items[k].end);
    }
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;  // the first used_ are in order, the rest wait for reuse
  std::vector<Head> heads_;
  size_t used_ = 0;
  uint64_t longest_ = 0;
};

}  // namespace simpler::graph
