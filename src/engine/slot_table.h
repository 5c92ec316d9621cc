// The tasks that are not consumed yet: one hot 64-byte line each, one cold line for what most tasks never touch.
//
// A slot's generation lies above its index in one 32-bit word and is odd while the task is unfinished, so that a copy
// of the word tells by one compare whether there is still something to wait for. It comes round after 2^32 / window / 2
// uses of one slot; a name kept that long could cause a needless wait for an earlier task, never a missing one. The
// lowest free slot is used first: a small working set stays in cache, and a steady load touches no new page. Owned by
// the engine; single-threaded.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "graph/tensor_map.h"
#include "simpler/enums.h"
#include "wire/tensor_ref.h"

namespace simpler::engine {

inline constexpr uint32_t kNoSlot = 0xFFFFFFFF;
inline constexpr uint32_t kNoChunk = 0xFFFFFFFF;
inline constexpr uint16_t kAnySub = 0xFFFF;     // `lane` of a SUB task that is not dispatched
inline constexpr uint16_t kGroupLane = 0xFFFE;  // `lane` of a group

enum SlotFlags : uint8_t {
  kSlotPoisoned = 1,  // a producer failed
  kSlotGroup = 2,
  kSlotEarly = 4,       // in its lane's list of tasks that may be pushed early
  kSlotPins = 8,        // names allocations
  kSlotRetains = 16,    // keeps producers
  kSlotInline = 32,     // the only tensor lies in the cold line, there is no argument block
  kSlotLarge = 64,      // the argument block is not the slot's own
  kSlotRetained = 128,  // somebody keeps it: SlotDetails::retained_by is valid
};

struct alignas(64) Slot {
  static constexpr uint32_t kInlineSuccessors = 6;

  uint32_t generation;  // generation and index
  uint32_t mark;        // the last consumer that took an edge from here: filters duplicates
  uint32_t pending;     // unfinished producers
  uint32_t successor_count;
  uint32_t spill;       // first chunk of further successors
  uint32_t after_mask;  // ring positions of the unfinished producers that are pushed on `lane`
  uint16_t callable;
  uint16_t config;
  uint16_t tensors;
  uint16_t scalars;
  uint16_t lane;
  uint8_t run;  // place in the table of active runs
  TaskState state;
  uint8_t on_lane;   // unfinished producers that are pushed on `lane`
  uint8_t flags;     // SlotFlags
  uint8_t position;  // ring position of its line on `lane`
  bool timed;        // SlotDetails::timeout_ms is valid
  std::array<uint32_t, kInlineSuccessors> successors;
};
static_assert(sizeof(Slot) == 64);

struct alignas(64) SlotDetails {
  uint32_t next;  // in the one list that the task is in
  uint32_t prev;
  uint32_t args;         // place of the block in the arena
  uint32_t retained_by;  // unfinished tasks that keep this one
  uint32_t retains;      // chunk list of the producers kept
  uint32_t group;
  uint32_t spill_tail;
  uint32_t timeout_ms;
  wire::TensorRef tensor;
};
static_assert(sizeof(SlotDetails) == 64);

struct alignas(64) IdChunk {
  static constexpr uint32_t kIds = 14;
  uint32_t next;
  uint32_t count;
  std::array<uint32_t, kIds> ids;
};
static_assert(sizeof(IdChunk) == 64);

class SlotTable {
 public:
  // `window` is a power of two, 64 .. 2^20.
  explicit SlotTable(uint32_t window);
  ~SlotTable();
  SlotTable(const SlotTable&) = delete;
  SlotTable& operator=(const SlotTable&) = delete;

  Slot& operator[](uint32_t index) { return slots_[index]; }
  const Slot& operator[](uint32_t index) const { return slots_[index]; }
  SlotDetails& details(uint32_t index) { return details_[index]; }

  bool full() const { return live_ == window_; }
  uint32_t live() const { return live_; }
  uint32_t window() const { return window_; }

  // Needs !full(). The generation becomes odd.
  uint32_t take() {
    uint64_t word = free_[lowest_];
    if (word == 0) [[unlikely]] {
      find_lowest();
      word = free_[lowest_];
    }
    const uint32_t index = lowest_ * 64 + static_cast<uint32_t>(std::countr_zero(word));
    free_[lowest_] = word & (word - 1);
    ++live_;
    slots_[index].generation += window_;
    return index;
  }
  void put_back(uint32_t index) {
    const uint32_t word = index / 64;
    free_[word] |= uint64_t{1} << (index % 64);
    free_summary_[word / 64] |= uint64_t{1} << (word % 64);
    if (word < lowest_) lowest_ = word;
    --live_;
  }

  // The 32-bit name under which the tensor map knows an unfinished task.
  graph::TaskRef ref(uint32_t index) const { return slots_[index].generation; }
  uint32_t index_of(graph::TaskRef ref) const { return ref & (window_ - 1); }
  // A name is only ever taken of an unfinished task.
  bool unfinished(graph::TaskRef ref) const { return slots_[index_of(ref)].generation == ref; }
  bool is_terminal(uint32_t index) const { return (slots_[index].generation & window_) == 0; }
  // The generation becomes even: whoever still names the task has nothing to wait for.
  void end(Slot& slot) const { slot.generation += window_; }
  // True when `name` was this slot's unfinished name and the task has ended since, whether or not it is consumed.
  bool has_ended(uint32_t index, graph::TaskRef name) const { return slots_[index].generation == name + window_; }

  uint32_t take_chunk();
  void free_chunk(uint32_t chunk) {
    chunks_[chunk].next = free_chunk_;
    free_chunk_ = chunk;
    --chunks_live_;
  }
  IdChunk& chunk(uint32_t index) { return chunks_[index]; }
  uint32_t chunks_live() const { return chunks_live_; }

 private:
  void find_lowest();

  uint32_t window_;
  uint32_t live_ = 0;
  Slot* slots_;
  SlotDetails* details_;
  uint32_t lowest_ = 0;                 // no word before this one has a free slot
  std::vector<uint64_t> free_;          // a bit for each free slot
  std::vector<uint64_t> free_summary_;  // a bit for each word that may have one
  std::vector<IdChunk> chunks_;
  uint32_t free_chunk_ = kNoChunk;
  uint32_t chunks_live_ = 0;
};

}  // namespace simpler::engine
