#include "chip/host_access.h"

namespace simpler::chip {

void HostAccess::clear() {
  host_.clear();
  own_writes_.clear();
}

void HostAccess::add_host(uint64_t begin, uint64_t bytes, bool readable) {
  host_.push_back(Region{begin, begin + bytes, readable});
}

void HostAccess::add_device_write(uint64_t begin, uint64_t bytes) {
  own_writes_.push_back(Region{begin, begin + bytes, true});
}

Access HostAccess::check(uint64_t address, uint64_t bytes) const {
  for (const Region& region : host_) {
    if (address >= region.begin && address < region.end) {
      if (bytes > region.end - address) return Access::kNotCovered;
      return region.readable ? Access::kAllowed : Access::kNotReadable;
    }
  }
  const DeviceMemory::Span span = memory_.find(address, bytes);
  if (span.base == 0) return Access::kNotCovered;
  // Who writes is known per allocation, so this run's own declarations on it are subtracted.
  uint32_t own = 0;
  for (const Region& region : own_writes_) {
    if (region.begin >= span.base && region.begin - span.base < span.size) ++own;
  }
  return memory_.written_by_other(address, bytes, own) ? Access::kBeingWritten : Access::kAllowed;
}

}  // namespace simpler::chip
