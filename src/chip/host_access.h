// HostAccess: which memory an orchestration may look at while it builds: the run's arguments and nothing else.
//
// One object per run slot; filled when the arguments are staged, cleared when the run is over.
#pragma once

#include <cstdint>
#include <vector>

#include "chip/device_memory.h"

namespace simpler::chip {

enum class Access : uint8_t {
  kAllowed,
  kNotCovered,    // no argument of the run holds the bytes
  kNotReadable,   // a pure output: its bytes are undefined until the run ended
  kBeingWritten,  // an unfinished earlier run writes into the allocation
};

class HostAccess {
 public:
  explicit HostAccess(const DeviceMemory& memory) : memory_(memory) {}

  void clear();
  void add_host(uint64_t begin, uint64_t bytes, bool readable);
  void add_device_write(uint64_t begin, uint64_t bytes);  // a DEVICE argument that this run itself writes

  Access check(uint64_t address, uint64_t bytes) const;

 private:
  struct Region {
    uint64_t begin;
    uint64_t end;
    bool readable;
  };
  const DeviceMemory& memory_;
  std::vector<Region> host_;
  std::vector<Region> own_writes_;
};

}  // namespace simpler::chip
