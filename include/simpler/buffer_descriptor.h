// What a buffer is, in 88 little-endian bytes that mean the same in every process.
//
// | offset | field           | offset | field                  |
// |      0 | magic 0x5342    |     40 | nbytes                 |
// |      2 | address space   |     48 | owner worker path id   |
// |      3 | access          |     52 | body length            |
// |      4 | backend kind    |     56 | body                   |
// |      8 | identity        |        |                        |
// The body says where the bytes are: an address for inherited and device memory, a printable name for shared memory
// that a consumer opens. `validate` is the only way in for bytes from elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "simpler/enums.h"
#include "simpler/identity.h"
#include "simpler/status.h"

namespace simpler {

inline constexpr uint16_t kBufferDescriptorMagic = 0x5342;
inline constexpr uint32_t kDescriptorBodyBytes = 32;

struct BufferDescriptor {
  uint16_t magic = kBufferDescriptorMagic;
  AddressSpace address_space = AddressSpace::kHost;
  AccessMode access = AccessMode::kReadWrite;
  BackendKind backend_kind = BackendKind::kForkShm;
  std::array<uint8_t, 3> padding0{};
  CanonicalIdentity identity;
  uint64_t nbytes = 0;
  uint32_t owner_worker_path_id = 0;
  uint16_t body_len = 0;
  std::array<uint8_t, 2> padding1{};
  std::array<char, kDescriptorBodyBytes> body{};
};
static_assert(sizeof(BufferDescriptor) == 88 && std::is_trivially_copyable_v<BufferDescriptor> &&
              std::is_standard_layout_v<BufferDescriptor>);
static_assert(offsetof(BufferDescriptor, identity) == 8 && offsetof(BufferDescriptor, nbytes) == 40 &&
              offsetof(BufferDescriptor, body_len) == 52 && offsetof(BufferDescriptor, body) == 56);

// True for kinds whose body is an address.
constexpr bool bears_address(BackendKind kind) {
  return kind == BackendKind::kForkShm || kind == BackendKind::kForkCow || kind == BackendKind::kVmmWindow ||
         kind == BackendKind::kDeviceMalloc;
}

// The address in the body of a valid descriptor of an address-bearing kind; 0 for other kinds.
uint64_t body_address(const BufferDescriptor& descriptor);
// The printable name in the body; empty for address-bearing kinds.
std::string_view body_name(const BufferDescriptor& descriptor);
void set_body_address(BufferDescriptor& descriptor, uint64_t address);
// Fails when the name is not 1..32 printable characters without '/'.
Status set_body_name(BufferDescriptor& descriptor, std::string_view name);

// Used for construction, decoding and control copies alike.
Status validate(const BufferDescriptor& descriptor);
// The names of the fields in which two descriptors differ, comma-separated; empty when they are equal.
std::string differing_fields(const BufferDescriptor& a, const BufferDescriptor& b);

}  // namespace simpler
