// Memory of a chip, as its host process sees it; and the parent's record of who got which address there.
//
// DeviceSpace is implemented by a chip. DevicePointers answers, before anything is sent to a child, whether an address
// is live on exactly that child: dispatch needs the base, copies need a range inside one allocation, free needs a base
// that came from malloc. Single-threaded: the holder of the engine lock.
#pragma once

#include <cstdint>
#include <map>
#include <span>

#include "simpler/status.h"

namespace simpler::memory {

class DeviceSpace {
 public:
  virtual ~DeviceSpace() = default;

  virtual Result<uint64_t> allocate(uint64_t bytes) = 0;
  virtual Status release(uint64_t address) = 0;
  virtual Status copy_in(uint64_t address, std::span<const std::byte> bytes) = 0;
  virtual Status copy_out(std::span<std::byte> bytes, uint64_t address) = 0;
  virtual uint64_t committed_bytes() const = 0;
};

enum class PointerRole : uint8_t { kMalloc, kWindow };

class DevicePointers {
 public:
  // kAlreadyExists when the range touches a live one of that worker.
  Status add(uint32_t worker, uint64_t address, uint64_t bytes, PointerRole role = PointerRole::kMalloc);
  // The base of a live allocation of exactly this worker.
  Status check_base(uint32_t worker, uint64_t address) const;
  Status check_range(uint32_t worker, uint64_t address, uint64_t bytes) const;
  // Revokes a malloc base; afterwards every check of it fails.
  Status remove(uint32_t worker, uint64_t address);
  Status remove_window(uint32_t worker, uint64_t address);
  void drop_worker(uint32_t worker);
  uint64_t live_bytes(uint32_t worker) const;

 private:
  struct Allocation {
    uint64_t bytes;
    PointerRole role;
  };
  const Allocation* find(uint32_t worker, uint64_t address, uint64_t* base) const;
  Status remove(uint32_t worker, uint64_t address, PointerRole role);

  std::map<std::pair<uint32_t, uint64_t>, Allocation> live_;
};

}  // namespace simpler::memory
