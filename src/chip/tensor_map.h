// TensorMap: which task wrote which view last, for the graph of one run.
//
// Entries hang in buckets by buffer address. Nothing is cleared between runs: buckets carry the number of the run that
// filled them. A covered entry goes to a free list, so a chain of in-place updates needs one entry however long it is.
#pragma once

#include <cstdint>

#include "chip/overlap.h"
#include "chip/reserved_array.h"
#include "simpler/status.h"

namespace simpler::chip {

class TensorMap {
 public:
  // `buckets` is a power of two.
  Status reserve(uint32_t entries, uint32_t buckets);
  // Forgets everything; allocates nothing.
  void reset();

  // Entries that can still be added.
  uint32_t free_entries() const { return limit_ - used_; }
  uint32_t used_entries() const { return used_; }

  // False when the map is full; it is unchanged then.
  bool add(uint64_t addr, const Footprint& footprint, uint32_t task);

  // Calls found(task) for every writer of overlapping elements; with `replace`, drops entries that `access` covers.
  template <class Found>
  void look_up(uint64_t addr, const Footprint& access, bool replace, Found&& found) {
    Bucket& bucket = bucket_of(addr);
    if (bucket.epoch != epoch_) return;
    uint32_t* link = &bucket.head;
    while (*link != kNil) {
      Entry& entry = entries_[*link];
      const Overlap how = entry.addr == addr ? overlap(access, entry.footprint) : Overlap::kNone;
      if (how != Overlap::kNone) found(entry.task);
      if (how == Overlap::kCovered && replace) {
        const uint32_t dropped = *link;
        *link = entry.next;
        entry.next = free_;
        free_ = dropped;
        --used_;
      } else {
        link = &entry.next;
      }
    }
  }

 private:
  static constexpr uint32_t kNil = ~0u;
  struct Bucket {
    uint32_t epoch;
    uint32_t head;
  };
  struct Entry {
    uint64_t addr;
    uint32_t task;
    uint32_t next;
    Footprint footprint;
  };

  Bucket& bucket_of(uint64_t addr) { return buckets_[((addr >> 6) * 0x9E3779B97F4A7C15u >> 32) & bucket_mask_]; }

  ReservedArray<Bucket> buckets_;
  ReservedArray<Entry> entries_;
  uint32_t bucket_mask_ = 0;
  uint32_t limit_ = 0;
  uint32_t epoch_ = 1;  // fresh memory has epoch 0
  uint32_t used_ = 0;
  uint32_t bump_ = 0;
  uint32_t free_ = kNil;
};

}  // namespace simpler::chip
