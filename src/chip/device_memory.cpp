#include "chip/device_memory.h"

#include <cstring>
#include <string>
#include <sys/mman.h>

namespace simpler::chip {
namespace {

std::string hex(uint64_t value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  do {
    out.insert(out.begin(), kDigits[value & 15]);
    value >>= 4;
  } while (value != 0);
  return "0x" + out;
}

// Small allocations share nothing with their neighbours: a kernel that runs over the end meets unused bytes of the page
// at most, as on a chip.
constexpr uint64_t kPage = 4096;
uint64_t mapped_bytes(uint64_t size) {
  return (size + kPage - 1) / kPage * kPage;
}

}  // namespace

DeviceMemory::~DeviceMemory() {
  MutexLock lock(mutex_);
  for (const auto& [base, allocation] : map_) {
    if (!allocation.kept) ::munmap(reinterpret_cast<void*>(base), mapped_bytes(allocation.size));
  }
}

Result<uint64_t> DeviceMemory::allocate(uint64_t bytes) {
  if (bytes == 0) return invalid_argument("device malloc: 0 bytes; ask for at least 1");
  if (bytes > (uint64_t{1} << 46)) {
    return resource_exhausted("device malloc: asked for " + std::to_string(bytes) + " bytes, more than the chip has");
  }
  const uint64_t mapped = mapped_bytes(bytes);
  MutexLock lock(mutex_);
  if (limit_ != 0 && mapped > limit_ - committed_) {
    return resource_exhausted("device malloc: asked for " + std::to_string(bytes) + " bytes, " +
                              std::to_string(limit_ - committed_) + " of " + std::to_string(limit_) + " are left");
  }
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    return resource_exhausted("device malloc: asked for " + std::to_string(bytes) + " bytes, the machine refused");
  }
  const auto address = reinterpret_cast<uint64_t>(memory);
  map_.emplace(address, Allocation{.size = bytes});
  committed_ += mapped;
  return address;
}

Status DeviceMemory::release(uint64_t address) {
  MutexLock lock(mutex_);
  const auto at = map_.find(address);
  if (at == map_.end()) return not_found("device free: no allocation begins at " + hex(address));
  Allocation& allocation = at->second;
  if (allocation.kept) {
    return failed_precondition("device free: " + hex(address) +
                               " was named by a run whose kernel never returned; it is kept until the process ends");
  }
  if (allocation.borrows != 0) {
    return failed_precondition("device free: " + hex(address) + " is named by " + std::to_string(allocation.borrows) +
                               " argument(s) of unfinished runs; free it after they are finalized");
  }
  const uint64_t mapped = mapped_bytes(allocation.size);
  map_.erase(at);
  committed_ -= mapped;
  ::munmap(reinterpret_cast<void*>(address), mapped);
  return Status::ok();
}

Status DeviceMemory::copy_in(uint64_t device, const void* host, uint64_t bytes) {
  if (bytes == 0) return Status::ok();
  {
    MutexLock lock(mutex_);
    if (holder(device, bytes) == nullptr) return no_allocation("copy to device", device, bytes);
  }
  std::memcpy(reinterpret_cast<void*>(device), host, bytes);
  return Status::ok();
}

Status DeviceMemory::copy_out(void* host, uint64_t device, uint64_t bytes) {
  if (bytes == 0) return Status::ok();
  {
    MutexLock lock(mutex_);
    if (holder(device, bytes) == nullptr) return no_allocation("copy from device", device, bytes);
  }
  std::memcpy(host, reinterpret_cast<const void*>(device), bytes);
  return Status::ok();
}

Status DeviceMemory::no_allocation(const char* what, uint64_t address, uint64_t bytes) const {
  return out_of_range(std::string(what) + ": no device allocation holds " + std::to_string(bytes) + " bytes at " +
                      hex(address));
}

uint64_t DeviceMemory::committed() const {
  MutexLock lock(mutex_);
  return committed_;
}

uint64_t DeviceMemory::quarantined() const {
  MutexLock lock(mutex_);
  return kept_bytes_;
}

const DeviceMemory::Map::value_type* DeviceMemory::holder(uint64_t address, uint64_t bytes) const {
  auto at = map_.upper_bound(address);
  if (at == map_.begin()) return nullptr;
  --at;
  const uint64_t offset = address - at->first;
  if (offset > at->second.size || bytes > at->second.size - offset) return nullptr;
  if (offset == at->second.size && bytes == 0) return nullptr;
  return &*at;
}

DeviceMemory::Span DeviceMemory::find(uint64_t address, uint64_t bytes) const {
  MutexLock lock(mutex_);
  const auto* entry = holder(address, bytes);
  return entry == nullptr ? Span{} : Span{entry->first, entry->second.size};
}

DeviceMemory::Allocation* DeviceMemory::mutable_holder(const Borrow& span) {
  if (span.bytes == 0) return nullptr;
  const auto* entry = holder(span.address, span.bytes);
  return entry == nullptr ? nullptr : &map_.find(entry->first)->second;
}

void DeviceMemory::borrow(std::span<const Borrow> spans) {
  MutexLock lock(mutex_);
  for (const Borrow& span : spans) {
    if (Allocation* allocation = mutable_holder(span)) {
      ++allocation->borrows;
      if (span.writes) ++allocation->writers;
    }
  }
}

void DeviceMemory::give_back(std::span<const Borrow> spans) {
  MutexLock lock(mutex_);
  for (const Borrow& span : spans) {
    if (Allocation* allocation = mutable_holder(span)) {
      --allocation->borrows;
      if (span.writes) --allocation->writers;
    }
  }
}

void DeviceMemory::quarantine(std::span<const Borrow> spans) {
  MutexLock lock(mutex_);
  for (const Borrow& span : spans) {
    Allocation* allocation = mutable_holder(span);
    if (allocation == nullptr || allocation->kept) continue;
    allocation->kept = true;
    kept_bytes_ += mapped_bytes(allocation->size);
  }
}

bool DeviceMemory::written_by_other(uint64_t address, uint64_t bytes, uint32_t own_writes) const {
  MutexLock lock(mutex_);
  const auto* entry = holder(address, bytes);
  return entry != nullptr && entry->second.writers > own_writes;
}

}  // namespace simpler::chip
