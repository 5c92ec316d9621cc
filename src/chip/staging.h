// Staging: turns the arguments of a run into the runtime's tensors, with a copy of every HOST one in chip memory.
//
// One retained buffer per run slot: slices at multiples of 1024 bytes, replaced by a larger one only when a run needs
// more. IN and INOUT are copied in, OUT and INOUT copied back after success, by the callable's signature. DEVICE
// tensors pass through; one inside a known allocation is renamed to offset form, so that two arguments that point into
// one allocation are seen to overlap. Views are copied element by element, so bytes between the elements of a view are
// never written.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "chip/device_memory.h"
#include "chip/host_access.h"
#include "chip/reserved_array.h"
#include "simpler/chip_callable.h"
#include "simpler/orchestration.h"
#include "simpler/status.h"

namespace simpler::chip {

class Staging {
 public:
  static constexpr uint64_t kAlignment = 1024;

  // `directions` holds one entry per tensor that the signature names; HOST tensors beyond it are read and written.
  // Fails with run code 5 before anything is copied.
  Status stage(std::span<const ChipTensor> tensors, std::span<const ArgDirection> directions, DeviceMemory& memory,
               HostAccess& access);
  void copy_back() const;

  std::span<const orchestration::Tensor> tensors() const { return tensors_; }
  std::span<const DeviceMemory::Borrow> borrows() const { return borrows_; }
  uint64_t retained_bytes() const { return buffer_.capacity_bytes(); }
  uint64_t buffer_address() const { return reinterpret_cast<uint64_t>(buffer_.data()); }

 private:
  struct Slice {
    ChipTensor host;
    uint64_t chip = 0;  // address of the first element's copy
    bool copy_in = false;
    bool copy_out = false;
  };

  Status check(std::span<const ChipTensor> tensors, std::span<const ArgDirection> directions) const;
  void add_device(const ChipTensor& tensor, ArgDirection direction, const DeviceMemory& memory, HostAccess& access);

  ReservedArray<std::byte> buffer_;
  std::vector<Slice> slices_;
  std::vector<orchestration::Tensor> tensors_;
  std::vector<DeviceMemory::Borrow> borrows_;
};

}  // namespace simpler::chip
