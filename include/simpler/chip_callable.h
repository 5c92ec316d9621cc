// What a chip runs: an orchestration with its incore kernels, packed into one position-independent block of bytes; and
// the form in which a chip takes the arguments of a run.
//
// A callable is built once and never changes. Its bytes may be stored, sent and parsed again: `from_bytes` checks every
// length and offset, and so accepts exactly what `build` can make. Code is a shared object (any file name or none: it
// is loaded from memory), or names a function that the installation has built in. Layout, little endian:
//
//   CoreCallable   CoreCallableHeader (192 B), then `binary_size` bytes of code
//   ChipCallable   ChipCallableHeader (9,376 B), then storage: the orchestration's code at 0, every child (a whole
//                  CoreCallable) at its `child_offset`, a multiple of 64
//   built-in code  u32 version, u32 length of the name, the name
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "simpler/dtype.h"
#include "simpler/enums.h"
#include "simpler/status.h"

namespace simpler {

inline constexpr uint32_t kMaxCoreSignature = 32;
inline constexpr uint32_t kMaxChipSignature = 256;
inline constexpr uint32_t kMaxChipScalars = 128;
inline constexpr uint32_t kMaxChipChildren = 1024;  // and every func_id is below it
inline constexpr uint32_t kMaxOrchestrationBytes = 4u << 20;
inline constexpr uint32_t kCallableNameBytes = 64;          // with its terminator
inline constexpr uint32_t kCoreCallableMagic = 0x43524f43;  // "CORC"
inline constexpr uint32_t kChipCallableMagic = 0x43504843;  // "CHPC"
inline constexpr uint16_t kCallableFormatVersion = 1;

enum class CodeKind : uint8_t { kSharedObject = 0, kBuiltin = 1 };

struct CoreCallableHeader {
  std::array<int32_t, kMaxCoreSignature> signature;
  uint32_t sig_count;
  uint32_t binary_size;
  uint64_t resolved_addr;  // 0 in every callable; a chip keeps addresses elsewhere
  uint32_t magic;
  uint16_t version;
  CodeKind kind;
  uint8_t padding[41];
};
static_assert(sizeof(CoreCallableHeader) == 192 && std::is_trivially_copyable_v<CoreCallableHeader>);

struct ChipCallableHeader {
  std::array<int32_t, kMaxChipSignature> signature;
  uint32_t sig_count;
  uint32_t binary_size;
  std::array<char, kCallableNameBytes> func_name;
  uint32_t func_name_length;
  std::array<uint32_t, kMaxChipChildren> child_func_ids;
  std::array<uint32_t, kMaxChipChildren> child_offsets;
  uint32_t child_count;
  std::array<char, kCallableNameBytes> config_name;
  uint32_t config_name_length;
  uint32_t magic;
  uint16_t version;
  CodeKind kind;
  uint8_t padding[5];
};
static_assert(sizeof(ChipCallableHeader) == 9376 && std::is_trivially_copyable_v<ChipCallableHeader>);

// Code that the installation provides, addressed by name and version.
struct BuiltinName {
  std::string name;
  uint32_t version = 1;
};

// One incore kernel.
class CoreCallable {
 public:
  // `binary` is a shared object that exports `kernel_entry`. Throws Error(kInvalidArgument).
  static CoreCallable build(std::span<const ArgDirection> signature, std::span<const std::byte> binary);
  static CoreCallable builtin(std::span<const ArgDirection> signature, const BuiltinName& name);
  static Result<CoreCallable> try_build(std::span<const ArgDirection> signature, std::span<const std::byte> code,
                                        CodeKind kind);
  static Result<CoreCallable> try_from_bytes(std::span<const std::byte> bytes);

  uint32_t sig_count() const { return header().sig_count; }
  ArgDirection sig(uint32_t index) const;  // throws Error(kOutOfRange)
  CodeKind kind() const { return header().kind; }
  uint32_t binary_size() const { return header().binary_size; }
  std::span<const std::byte> binary() const { return bytes().subspan(sizeof(CoreCallableHeader), binary_size()); }
  BuiltinName builtin_name() const;  // only for kBuiltin
  std::span<const std::byte> bytes() const { return *bytes_; }
  const std::byte* buffer_ptr() const { return bytes_->data(); }
  std::size_t buffer_size() const { return bytes_->size(); }

 private:
  explicit CoreCallable(std::vector<std::byte> bytes)
      : bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}
  const CoreCallableHeader& header() const { return *reinterpret_cast<const CoreCallableHeader*>(bytes_->data()); }

  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

struct ChipChild {
  uint32_t func_id;
  CoreCallable callable;
};

// An orchestration and its kernels.
class ChipCallable {
 public:
  // `func_name` is the orchestration's entry; `config_name` may be empty. Names longer than 63 characters are cut.
  // Throws Error(kInvalidArgument).
  static ChipCallable build(std::span<const ArgDirection> signature, std::string_view func_name,
                            std::span<const std::byte> binary, std::span<const ChipChild> children,
                            std::string_view config_name = {});
  // The orchestration is built in; its entry and config are known under the name.
  static ChipCallable builtin(std::span<const ArgDirection> signature, const BuiltinName& name,
                              std::span<const ChipChild> children);
  static ChipCallable from_bytes(std::span<const std::byte> bytes);  // throws Error(kInvalidArgument)
  static Result<ChipCallable> try_build(std::span<const ArgDirection> signature, std::string_view func_name,
                                        std::span<const std::byte> code, CodeKind kind,
                                        std::span<const ChipChild> children, std::string_view config_name);
  static Result<ChipCallable> try_from_bytes(std::span<const std::byte> bytes);

  uint32_t sig_count() const { return header().sig_count; }
  ArgDirection sig(uint32_t index) const;  // throws Error(kOutOfRange), as all below with an index
  CodeKind kind() const { return header().kind; }
  uint32_t binary_size() const { return header().binary_size; }
  std::span<const std::byte> binary() const { return bytes().subspan(sizeof(ChipCallableHeader), binary_size()); }
  BuiltinName builtin_name() const;  // only for kBuiltin
  std::string_view func_name() const { return {header().func_name.data(), header().func_name_length}; }
  std::string_view config_name() const { return {header().config_name.data(), header().config_name_length}; }
  uint32_t child_count() const { return header().child_count; }
  uint32_t child_func_id(uint32_t index) const;
  uint32_t child_offset(uint32_t index) const;
  CoreCallable child(uint32_t index) const;
  std::span<const std::byte> bytes() const { return *bytes_; }
  const std::byte* buffer_ptr() const { return bytes_->data(); }
  std::size_t buffer_size() const { return bytes_->size(); }

 private:
  explicit ChipCallable(std::vector<std::byte> bytes)
      : bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}
  const ChipCallableHeader& header() const { return *reinterpret_cast<const ChipCallableHeader*>(bytes_->data()); }

  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

// A tensor argument of a run: pure geometry over an address that is valid in the chip's process (HOST) or on the chip
// (DEVICE). Strides count elements and are at least 1.
struct ChipTensor {
  uint64_t addr = 0;          // first byte of the buffer
  uint64_t size = 0;          // bytes of the buffer
  uint64_t start_offset = 0;  // elements before the view
  std::array<uint32_t, 5> shapes{};
  std::array<uint32_t, 5> strides{};
  uint32_t ndims = 0;
  DataType dtype = DataType::kFloat32;
  AddressSpace address_space = AddressSpace::kHost;
  std::array<uint8_t, 2> padding{};

  // A dense row-major tensor over `data`. Throws Error(kInvalidArgument).
  static ChipTensor make(uint64_t data, std::span<const uint32_t> shapes, DataType dtype, bool child_memory = false);

  bool child_memory() const { return address_space == AddressSpace::kDevice; }
  bool is_contiguous() const;
  uint64_t element_count() const;
  uint64_t nbytes() const { return element_count() * element_size(dtype); }
  uint64_t extent_elements() const;  // from the first to the last element; 0 when a dimension is 0
  uint64_t byte_begin() const { return start_offset * element_size(dtype); }
  uint64_t byte_end() const { return byte_begin() + extent_elements() * element_size(dtype); }
};
static_assert(sizeof(ChipTensor) == 72 && std::is_trivially_copyable_v<ChipTensor>);
static_assert(offsetof(ChipTensor, start_offset) == 16 && offsetof(ChipTensor, shapes) == 24 &&
              offsetof(ChipTensor, strides) == 44 && offsetof(ChipTensor, ndims) == 64 &&
              offsetof(ChipTensor, dtype) == 68 && offsetof(ChipTensor, address_space) == 69);

// Rank 1 to 5, known type, positive strides, the view inside its buffer.
Status validate(const ChipTensor& tensor);

// The argument block of a run as one record.
struct ChipStorageTaskArgs {
  std::array<ChipTensor, kMaxChipSignature> tensors;
  std::array<uint64_t, kMaxChipScalars> scalars;
  uint32_t tensor_count;
  uint32_t scalar_count;
};
static_assert(sizeof(ChipStorageTaskArgs) == 19464);

}  // namespace simpler
