#include "memory/args_arena.h"

#include <algorithm>

#include "base/status_macros.h"

namespace simpler::memory {

Result<std::unique_ptr<ArgsArena>> ArgsArena::create(const ArgsArenaOptions& options) {
  constexpr uint64_t kMostBytes = (uint64_t{UINT32_MAX} + 1) * 8;  // what a place can name
  const uint64_t chunks = (options.large_bytes + kArenaChunkBytes - 1) / kArenaChunkBytes;
  const uint64_t slot_bytes = (uint64_t{options.slots} + 1) * kSlotBlockBytes;
  const uint64_t first_chunk = (slot_bytes + kArenaChunkBytes - 1) / kArenaChunkBytes * kArenaChunkBytes;
  const uint64_t total = first_chunk + chunks * kArenaChunkBytes;
  if (options.slots == 0 || chunks == 0 || total >= kMostBytes) {
    return invalid_argument("argument arena with " + std::to_string(options.slots) + " slots and " +
                            std::to_string(options.large_bytes) + " bytes for larger blocks");
  }
  std::unique_ptr<ArgsArena> arena(new ArgsArena);
  SIMPLER_ASSIGN_OR_RETURN(arena->mapping_,
                           SharedMapping::create({.name = "simpler-args", .bytes = total, .space = options.space}));
  SIMPLER_RETURN_IF_ERROR(arena->mapping_.secure(0, slot_bytes));
  arena->mapping_.prefault(0, slot_bytes);
  arena->large_ = SecuredFront(arena->mapping_, first_chunk, chunks * kArenaChunkBytes);
  arena->base_ = arena->mapping_.data();
  arena->slots_ = options.slots;
  arena->first_chunk_ = static_cast<uint32_t>(first_chunk / 8);
  std::fill(std::begin(arena->partial_), std::end(arena->partial_), kNoChunk);
  arena->chunks_.resize(chunks);
  arena->free_chunks_.reserve(chunks);
  // Left unwritten: a chunk's part is written before it is read, so unused parts cost no page.
  arena->next_free_.reset(new uint16_t[chunks * kGranules]);
  return arena;
}

uint32_t ArgsArena::alloc_from_new_chunk(uint32_t size_class) {
  uint32_t index = kNoChunk;
  if (!free_chunks_.empty()) {
    index = free_chunks_.back();
    free_chunks_.pop_back();
  } else if (chunks_touched_ < chunks_.size()) {
    shortage_ = !large_.require((uint64_t{chunks_touched_} + 1) * kArenaChunkBytes).is_ok();
    if (shortage_) return 0;
    index = chunks_touched_++;
  } else {
    shortage_ = false;
    return 0;
  }
  Chunk& chunk = chunks_[index];
  chunk = Chunk{};
  chunk.size_class = static_cast<uint8_t>(size_class);
  ++chunks_in_use_;
  link(index);
  return take(index, size_class);
}

void ArgsArena::link(uint32_t index) {
  Chunk& chunk = chunks_[index];
  uint32_t& head = partial_[chunk.size_class];
  chunk.prev = kNoChunk;
  chunk.next = head;
  if (head != kNoChunk) chunks_[head].prev = index;
  head = index;
}

void ArgsArena::unlink(uint32_t index) {
  const Chunk& chunk = chunks_[index];
  (chunk.prev == kNoChunk ? partial_[chunk.size_class] : chunks_[chunk.prev].next) = chunk.next;
  if (chunk.next != kNoChunk) chunks_[chunk.next].prev = chunk.prev;
}

Status ArgsArena::why_exhausted() const {
  if (shortage_) return resource_exhausted("the argument arena could not secure more memory");
  return would_block("all " + std::to_string(chunks_.size()) + " chunks of the argument arena hold live arguments");
}

}  // namespace simpler::memory
