#include "memory/device_space.h"

#include <string>

#include "base/status_macros.h"

namespace simpler::memory {
namespace {

std::string at(uint32_t worker, uint64_t address) {
  return "device address " + std::to_string(address) + " of worker " + std::to_string(worker);
}

}  // namespace

const DevicePointers::Allocation* DevicePointers::find(uint32_t worker, uint64_t address, uint64_t* base) const {
  auto next = live_.upper_bound({worker, address});
  if (next == live_.begin()) return nullptr;
  --next;
  if (next->first.first != worker || address - next->first.second >= next->second.bytes) return nullptr;
  *base = next->first.second;
  return &next->second;
}

Status DevicePointers::add(uint32_t worker, uint64_t address, uint64_t bytes, PointerRole role) {
  if (address == 0 || bytes == 0 || bytes > UINT64_MAX - address) {
    return invalid_argument(at(worker, address) + " with " + std::to_string(bytes) + " bytes is no allocation");
  }
  uint64_t base = 0;
  const auto next = live_.lower_bound({worker, address});
  const bool touches_next = next != live_.end() && next->first.first == worker && next->first.second < address + bytes;
  if (touches_next || find(worker, address, &base) != nullptr) {
    return already_exists(at(worker, address) + " overlaps a live allocation");
  }
  live_.emplace(std::pair(worker, address), Allocation{bytes, role});
  return Status::ok();
}

Status DevicePointers::check_base(uint32_t worker, uint64_t address) const {
  if (live_.contains({worker, address})) return Status::ok();
  return invalid_argument(at(worker, address) + " is no live allocation there");
}

Status DevicePointers::check_range(uint32_t worker, uint64_t address, uint64_t bytes) const {
  uint64_t base = 0;
  const Allocation* found = find(worker, address, &base);
  if (found == nullptr) return invalid_argument(at(worker, address) + " lies in no live allocation there");
  if (bytes > found->bytes - (address - base)) {
    return invalid_argument(std::to_string(bytes) + " bytes from " + at(worker, address) + " leave the allocation of " +
                            std::to_string(found->bytes) + " bytes at " + std::to_string(base));
  }
  return Status::ok();
}

Status DevicePointers::remove(uint32_t worker, uint64_t address) {
  return remove(worker, address, PointerRole::kMalloc);
}
Status DevicePointers::remove_window(uint32_t worker, uint64_t address) {
  return remove(worker, address, PointerRole::kWindow);
}

Status DevicePointers::remove(uint32_t worker, uint64_t address, PointerRole role) {
  const auto found = live_.find({worker, address});
  if (found == live_.end() || found->second.role != role) {
    return invalid_argument(at(worker, address) + " is not the base of a live " +
                            (role == PointerRole::kMalloc ? "allocation" : "window") + " there");
  }
  live_.erase(found);
  return Status::ok();
}

void DevicePointers::drop_worker(uint32_t worker) {
  live_.erase(live_.lower_bound({worker, 0}), live_.upper_bound({worker, UINT64_MAX}));
}

uint64_t DevicePointers::live_bytes(uint32_t worker) const {
  uint64_t bytes = 0;
  const auto end = live_.upper_bound({worker, UINT64_MAX});
  for (auto i = live_.lower_bound({worker, 0}); i != end; ++i) bytes += i->second.bytes;
  return bytes;
}

}  // namespace simpler::memory
