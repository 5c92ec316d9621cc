// The interned tables of one level: what buffers, layouts, configs and callables are, each said once.
//
// One mapping, written by the parent only and mapped read-only by its children. An entry is written completely, then
// the table's count is raised with release; index 0 of every table is invalid. Layouts never change once counted.
// Buffers and configs are recycled: their generation is 0 while they are rewritten and a fresh non-zero number
// afterwards, so a reader that was given index and generation notices a stale pair. Offsets from the start of the
// mapping:
//   0 header · kBuffersOffset · kLayoutsOffset · kConfigsOffset · kCallablesOffset · kTablesBytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simpler/buffer_descriptor.h"
#include "simpler/call_config.h"
#include "simpler/dtype.h"
#include "simpler/enums.h"
#include "simpler/tensor.h"
#include "wire/layout.h"

namespace simpler::wire {

inline constexpr uint32_t kTablesMagic = 0x53544231;  // "STB1"
inline constexpr uint32_t kTablesVersion = 1;
inline constexpr uint32_t kMaxBuffers = 65536;
inline constexpr uint32_t kMaxLayouts = 65536;
inline constexpr uint32_t kMaxConfigs = 1024;
inline constexpr uint32_t kMaxCallables = 4096;
inline constexpr uint32_t kDefaultConfig = 1;  // the entry that holds a default CallConfig, always live

// Rank, shape, strides and type of a view, with the two sizes that follow from them.
struct Layout {
  uint32_t ndims = 0;
  DataType dtype = DataType::kFloat32;
  std::array<uint8_t, 3> padding{};
  std::array<uint32_t, kMaxTensorDims> shapes{};
  std::array<uint32_t, kMaxTensorDims> strides{};
  uint64_t extent_bytes = 0;   // first to last byte; 0 for a zero-size view
  uint64_t logical_bytes = 0;  // elements times element size
};
static_assert(WireRecord<Layout> && sizeof(Layout) == 64);

enum class EntryState : uint32_t { kEmpty = 0, kLive = 1, kRetired = 2 };

struct BufferEntry {
  BufferDescriptor descriptor;
  uint32_t generation = 0;  // written last; 0 while the entry is not to be read
  EntryState state = EntryState::kEmpty;
  uint32_t owner_worker = 0;  // the child that holds the bytes, for DEVICE memory
  uint32_t reserved0 = 0;
  std::array<uint64_t, 3> reserved1{};
};
static_assert(WireRecord<BufferEntry> && sizeof(BufferEntry) == 128 && offsetof(BufferEntry, generation) == 88);

struct ConfigEntry {
  CallConfig config;
  uint32_t generation = 0;
  EntryState state = EntryState::kEmpty;
};
static_assert(WireRecord<ConfigEntry> && sizeof(ConfigEntry) == 1152);

inline constexpr uint32_t kCallableNameBytes = 80;

struct CallableEntry {
  std::array<uint8_t, 32> digest{};
  CallableKind kind{};
  TargetNamespace target_namespace{};
  uint32_t generation = 0;
  EntryState state = EntryState::kEmpty;
  std::array<char, kCallableNameBytes> name{};  // NUL-terminated, for people
};
static_assert(WireRecord<CallableEntry> && sizeof(CallableEntry) == 128);

struct alignas(kCacheLinePair) TableCount {
  uint32_t count;  // entries 0 .. count-1 may be read; released by the parent
  std::array<uint8_t, kCacheLinePair - 4> padding;
};

struct TablesHeader {
  uint32_t magic;
  uint32_t version;
  uint64_t table_id;  // random; what a cached index is valid for
  std::array<uint8_t, kCacheLinePair - 16> padding;
  TableCount buffers;
  TableCount layouts;
  TableCount configs;
  TableCount callables;
};
static_assert(WireRecord<TablesHeader> && sizeof(TablesHeader) <= 4096);

inline constexpr uint64_t kBuffersOffset = 4096;
inline constexpr uint64_t kLayoutsOffset = kBuffersOffset + uint64_t{kMaxBuffers} * sizeof(BufferEntry);
inline constexpr uint64_t kConfigsOffset = kLayoutsOffset + uint64_t{kMaxLayouts} * sizeof(Layout);
inline constexpr uint64_t kCallablesOffset = kConfigsOffset + uint64_t{kMaxConfigs} * sizeof(ConfigEntry);
inline constexpr uint64_t kTablesBytes = kCallablesOffset + uint64_t{kMaxCallables} * sizeof(CallableEntry);
static_assert(kLayoutsOffset % 4096 == 0 && kConfigsOffset % 4096 == 0 && kCallablesOffset % 4096 == 0 &&
              kTablesBytes % 4096 == 0);

// The layout of a valid tensor, sizes filled in.
Layout layout_of(const Tensor& tensor);
// Used for inline layouts, which come out of an argument block.
Status validate(const Layout& layout);
// The self-contained form of a view. Fails when offset and extent leave the buffer or the offset is not aligned.
Result<Tensor> tensor_of(const BufferDescriptor& buffer, const Layout& layout, uint64_t byte_offset);

}  // namespace simpler::wire
