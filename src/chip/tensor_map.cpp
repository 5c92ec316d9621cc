#include "chip/tensor_map.h"

#include "base/status_macros.h"

namespace simpler::chip {

Status TensorMap::reserve(uint32_t entries, uint32_t buckets) {
  SIMPLER_RETURN_IF_ERROR(entries_.reserve(entries, "tensor map"));
  SIMPLER_RETURN_IF_ERROR(buckets_.reserve(buckets, "tensor map"));
  limit_ = entries;
  bucket_mask_ = buckets - 1;
  return Status::ok();
}

void TensorMap::reset() {
  if (++epoch_ == 0) {
    for (uint32_t i = 0; i <= bucket_mask_; ++i) buckets_[i].epoch = 0;
    epoch_ = 1;
  }
  used_ = bump_ = 0;
  free_ = kNil;
}

bool TensorMap::add(uint64_t addr, const Footprint& footprint, uint32_t task) {
  if (used_ == limit_) return false;
  uint32_t index = free_;
  if (index != kNil) {
    free_ = entries_[index].next;
  } else {
    index = bump_++;
  }
  ++used_;
  Bucket& bucket = bucket_of(addr);
  if (bucket.epoch != epoch_) bucket = Bucket{epoch_, kNil};
  Entry& entry = entries_[index];
  entry.addr = addr;
  entry.task = task;
  entry.next = bucket.head;
  entry.footprint = footprint;
  bucket.head = index;
  return true;
}

}  // namespace simpler::chip
