// The shared arena of argument blocks: written once at submit, read by children, returned when the slot is consumed.
//
// Every slot owns a block of 128 bytes that needs no allocation. Larger blocks come in power-of-two classes from 256
// bytes to 64 KiB, cut from chunks of 64 KiB; a chunk whose blocks are all free goes back and may serve another class,
// so a drained arena accepts any block again. Allocation and release are O(1), allocate nothing themselves and reuse
// the lowest used chunks, so a steady load touches no new page. Places are offsets in 8-byte units; 0 is no block.
// Single-threaded: the holder of the engine. Children get an ArgsArenaView.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "memory/shared_mapping.h"
#include "simpler/status.h"

namespace simpler::memory {

inline constexpr uint32_t kSlotBlockBytes = 128;
inline constexpr uint32_t kArenaChunkBytes = 64 * 1024;
inline constexpr uint32_t kMaxArgsBytes = kArenaChunkBytes;

struct ArgsArenaOptions {
  uint32_t slots = 4096;
  uint64_t large_bytes = uint64_t{64} << 20;  // address space for larger blocks, secured as it is used
  const SpaceProbe* space = nullptr;
};

class ArgsArena {
 public:
  static Result<std::unique_ptr<ArgsArena>> create(const ArgsArenaOptions& options);

  // The block that belongs to a slot.
  uint32_t slot_block(uint32_t slot) const {
    SIMPLER_CHECK(slot < slots_, slot, slots_);
    return (slot + 1) * (kSlotBlockBytes / 8);
  }
  // A block of at least `bytes` (1..kMaxArgsBytes), or 0 when none is free now: wait for a task to be consumed.
  uint32_t alloc(uint32_t bytes) {
    const uint32_t size_class = class_of(bytes);
    const uint32_t chunk = partial_[size_class];
    if (chunk == kNoChunk) [[unlikely]]
      return alloc_from_new_chunk(size_class);
    return take(chunk, size_class);
  }
  // Returns a block of alloc(bytes) with the same `bytes`.
  void free(uint32_t place, uint32_t bytes);

  // Slot block if it fits, else alloc().
  uint32_t place_for(uint32_t slot, uint32_t bytes) {
    return bytes <= kSlotBlockBytes ? slot_block(slot) : alloc(bytes);
  }
  void release(uint32_t place, uint32_t bytes) {
    if (bytes > kSlotBlockBytes) free(place, bytes);
  }

  std::byte* at(uint32_t place) const { return base_ + uint64_t{place} * 8; }
  const SharedMapping& mapping() const { return mapping_; }
  uint32_t slots() const { return slots_; }
  uint64_t live_blocks() const { return live_blocks_; }
  uint32_t chunks_in_use() const { return chunks_in_use_; }
  uint32_t chunk_capacity() const { return static_cast<uint32_t>(chunks_.size()); }
  // Why alloc returned 0: kWouldBlock while blocks are live, kResourceExhausted when memory could not be secured.
  Status why_exhausted() const;

 private:
  static constexpr uint32_t kClasses = 9;  // 256 B .. 64 KiB
  static constexpr uint32_t kSmallestShift = 8;
  static constexpr uint32_t kNoChunk = UINT32_MAX;
  static constexpr uint16_t kNoBlock = UINT16_MAX;
  static constexpr uint32_t kGranules = kArenaChunkBytes >> kSmallestShift;  // blocks of the smallest class in a chunk

  struct Chunk {
    uint32_t prev = kNoChunk;  // in the list of its class's partly free chunks
    uint32_t next = kNoChunk;
    uint16_t free_head = kNoBlock;
    uint16_t fresh = 0;  // blocks never handed out since the chunk was taken
    uint16_t live = 0;
    uint8_t size_class = 0;
  };

  ArgsArena() = default;

  static uint32_t class_of(uint32_t bytes) {
    SIMPLER_CHECK(bytes - 1 < kMaxArgsBytes, bytes);
    const uint32_t width = static_cast<uint32_t>(std::bit_width(bytes - 1));
    return width <= kSmallestShift ? 0 : width - kSmallestShift;
  }
  static constexpr uint32_t blocks_of(uint32_t size_class) { return kGranules >> size_class; }

  uint32_t take(uint32_t index, uint32_t size_class) {
    Chunk& chunk = chunks_[index];
    uint32_t block = chunk.free_head;
    if (block != kNoBlock) {
      chunk.free_head = next_free_[index * kGranules + block];
    } else {
      block = chunk.fresh++;
    }
    ++live_blocks_;
    if (++chunk.live == blocks_of(size_class)) unlink(index);
    return first_chunk_ + index * (kArenaChunkBytes / 8) + (block << (size_class + kSmallestShift - 3));
  }
  uint32_t alloc_from_new_chunk(uint32_t size_class);
  void link(uint32_t index);
  void unlink(uint32_t index);

  SharedMapping mapping_;
  SecuredFront large_;
  std::byte* base_ = nullptr;
  uint32_t slots_ = 0;
  uint32_t first_chunk_ = 0;  // place of chunk 0
  uint64_t live_blocks_ = 0;
  uint32_t chunks_in_use_ = 0;
  uint32_t chunks_touched_ = 0;
  bool shortage_ = false;
  uint32_t partial_[kClasses];
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_chunks_;
  std::unique_ptr<uint16_t[]> next_free_;
};

inline void ArgsArena::free(uint32_t place, uint32_t bytes) {
  SIMPLER_CHECK(place >= first_chunk_, place);
  const uint32_t index = (place - first_chunk_) / (kArenaChunkBytes / 8);
  SIMPLER_CHECK(index < chunks_touched_, place);
  Chunk& chunk = chunks_[index];
  const uint32_t size_class = chunk.size_class;
  const uint32_t shift = size_class + kSmallestShift - 3;
  const uint32_t inside = (place - first_chunk_) % (kArenaChunkBytes / 8);
  const uint32_t block = inside >> shift;
  SIMPLER_CHECK(chunk.live > 0 && size_class == class_of(bytes) && (block << shift) == inside && block < chunk.fresh,
                place, bytes);
  next_free_[index * kGranules + block] = chunk.free_head;
  chunk.free_head = static_cast<uint16_t>(block);
  --live_blocks_;
  if (chunk.live-- == blocks_of(size_class)) link(index);
  if (chunk.live == 0) {
    unlink(index);
    free_chunks_.push_back(index);
    --chunks_in_use_;
  }
}

// A child's side: turns a place that it was given into an address, or refuses it.
class ArgsArenaView {
 public:
  ArgsArenaView() = default;
  ArgsArenaView(const std::byte* base, uint64_t bytes) : base_(base), bytes_(bytes) {}
  // Null unless place 0 < place and [place, place + bytes) lies in the arena.
  const std::byte* at(uint32_t place, uint64_t bytes) const {
    const uint64_t offset = uint64_t{place} * 8;
    return place != 0 && offset < bytes_ && bytes <= bytes_ - offset ? base_ + offset : nullptr;
  }

 private:
  const std::byte* base_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace simpler::memory
