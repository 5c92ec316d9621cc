// DeviceMemory: the allocations that callers made on one chip, who is using them, and whether they may still be freed.
//
// Only `malloc` makes entries. A run borrows every allocation it names; while borrowed it can't be freed, and an
// allocation named by a run that never ended is kept for good. Addresses are host addresses, valid in this process
// only. Safe from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "simpler/status.h"

namespace simpler::chip {

class DeviceMemory {
 public:
  static constexpr uint64_t kAlignment = 1024;

  // `limit` bytes in all; 0 = what the machine gives.
  explicit DeviceMemory(uint64_t limit) : limit_(limit) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Result<uint64_t> allocate(uint64_t bytes);
  Status release(uint64_t address);
  Status copy_in(uint64_t device, const void* host, uint64_t bytes);
  Status copy_out(void* host, uint64_t device, uint64_t bytes);
  uint64_t committed() const;
  uint64_t quarantined() const;

  // The allocation that holds the whole span, or base 0.
  struct Span {
    uint64_t base = 0;
    uint64_t size = 0;
  };
  Span find(uint64_t address, uint64_t bytes) const;

  // One named span of a run. Spans outside every allocation are nobody's and are skipped.
  struct Borrow {
    uint64_t address = 0;
    uint64_t bytes = 0;
    bool writes = false;
  };
  void borrow(std::span<const Borrow> spans);
  void give_back(std::span<const Borrow> spans);
  // The run never ended: its allocations stay.
  void quarantine(std::span<const Borrow> spans);
  // True when a run other than the caller's own borrows writes into the allocation that holds the span; `own_writes` is
  // how many write borrows on it are the caller's.
  bool written_by_other(uint64_t address, uint64_t bytes, uint32_t own_writes) const;

 private:
  struct Allocation {
    uint64_t size = 0;
    uint32_t borrows = 0;
    uint32_t writers = 0;
    bool kept = false;
  };
  using Map = std::map<uint64_t, Allocation>;

  const Map::value_type* holder(uint64_t address, uint64_t bytes) const SIMPLER_REQUIRES(mutex_);
  Allocation* mutable_holder(const Borrow& span) SIMPLER_REQUIRES(mutex_);
  Status no_allocation(const char* what, uint64_t address, uint64_t bytes) const;

  const uint64_t limit_;
  mutable Mutex mutex_;
  Map map_ SIMPLER_GUARDED_BY(mutex_);
  uint64_t committed_ SIMPLER_GUARDED_BY(mutex_) = 0;
  uint64_t kept_bytes_ SIMPLER_GUARDED_BY(mutex_) = 0;
};

}  // namespace simpler::chip
