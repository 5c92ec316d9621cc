// Who wrote and who reads each view of each buffer, within the run that is being built.
//
// One 64-byte entry per view key (buffer, generation, layout, offset) in an open-addressing table whose entries carry
// an epoch, so that forgetting a run is one increment. As long as all views of a buffer lie on one regular grid,
// different keys cannot overlap and the exact key is the whole story. The first view that leaves the grid makes the
// buffer *mixed*: its views are then kept in up to eight grids plus one bag of irregular views, each ordered by begin,
// and an access also looks at the overlapping views of the other grids. Tasks are named by references that the owner
// can test for being unfinished; finished ones need no removal. Owned by the engine; single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/dependencies.h"
#include "graph/footprint.h"
#include "graph/interval_index.h"
#include "memory/tables.h"
#include "simpler/status.h"
#include "wire/shared_tables.h"
#include "wire/tensor_ref.h"

namespace simpler::graph {

using TaskRef = uint32_t;
inline constexpr TaskRef kNoTask = 0;

// Answers whether a task still has to finish.
struct LiveProbe {
  const void* context;
  bool (*unfinished)(const void* context, TaskRef task);
  bool operator()(TaskRef task) const { return unfinished(context, task); }
};

enum EntryFlags : uint8_t {
  kEntryMixed = 1,   // overlaps of other keys are possible
  kEntryPinned = 2,  // the buffer is an allocation of the run: tasks that name it hold it
};

struct alignas(64) Entry {
  static constexpr uint32_t kInlineReaders = 5;

  uint64_t buffer;  // index, generation
  uint64_t offset;
  uint64_t layout_epoch;
  uint32_t mark;  // the member that last named this key, with bit 0 set if it writes
  TaskRef writer;
  uint32_t next_of_buffer;
  uint32_t spill;  // chunk with further readers
  uint8_t family;
  uint8_t flags;
  uint8_t denies;  // RuleBits::kNeeds* that the buffer does not grant
  uint8_t readers_inline;
  std::array<TaskRef, kInlineReaders> readers;
};
static_assert(sizeof(Entry) == 64);

class TensorMap {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  TensorMap(const memory::SharedTables& tables, LiveProbe live, uint32_t initial_entries = 4096);
  ~TensorMap();
  TensorMap(const TensorMap&) = delete;
  TensorMap& operator=(const TensorMap&) = delete;

  // Forgets everything: a new run begins to build.
  void begin_epoch();

  // Makes sure that `count` keys can be created without moving entries. Call before taking Entry pointers.
  void make_room(uint32_t count) {
    if (used_ + count > limit_) [[unlikely]]
      rebuild(count);
  }

  // Finds keys that were used before in this epoch and sit at their first place; everything else is null. For the
  // common case, without any check. Valid until the next make_room or epoch.
  class Prober {
   public:
    Entry* known(const wire::TensorRef& ref) const {
      const uint64_t buffer = word_of(ref.buffer, ref.generation);
      const uint64_t layout = word_of(ref.layout, ref.flags);
      Entry* const entry = entries_ + (hash_of(buffer, layout, ref.byte_offset) >> shift_);
      const bool same =
          entry->buffer == buffer && entry->offset == ref.byte_offset && entry->layout_epoch == layout + epoch_word_;
      return same ? entry : nullptr;
    }

   private:
    friend class TensorMap;
    Prober(Entry* entries, uint64_t epoch_word, uint32_t shift)
        : entries_(entries), epoch_word_(epoch_word), shift_(shift) {}
    Entry* entries_;
    uint64_t epoch_word_;
    uint32_t shift_;
  };
  Prober prober() const { return Prober(entries_, epoch_word_, shift_); }

  // The entry of a key whose buffer has so far been seen in such slices only, created if it is new. Null when it needs
  // more than that, see `find`.
  Entry* find_slice(const wire::TensorRef& ref);

  // The entry of a key, created if it is new. Null when the reference does not resolve; `why` says it then.
  // A view without bytes has no entry: null with an ok status.
  Entry* find(const wire::TensorRef& ref, Status* why);

  // A task reads the view: `on_producer(task)` for each task it must wait for. `kMayMix` is false where the caller
  // knows that the entry is not mixed.
  template <Inference kInference, bool kMayMix, class OnProducer>
  void read(Entry& entry, TaskRef self, OnProducer&& on_producer) {
    if (entry.writer != kNoTask) on_producer(entry.writer);
    if (kMayMix && (entry.flags & kEntryMixed) != 0) [[unlikely]] {
      for (const Meeting& other : meetings(entry)) {
        if (entries_[other.entry].writer != kNoTask) on_producer(entries_[other.entry].writer);
      }
    }
    if (kInference != Inference::kFull) return;
    const uint32_t readers = entry.readers_inline;
    if (readers < Entry::kInlineReaders) [[likely]] {
      entry.readers[readers] = self;
      entry.readers_inline = static_cast<uint8_t>(readers + 1);
    } else {
      spill_reader(entry, self);
    }
  }

  // A task writes the view; `after_writer` is false for pure outputs and matters under the weaker rules only.
  template <Inference kInference, bool kMayMix, class OnProducer>
  void write(Entry& entry, TaskRef self, bool after_writer, OnProducer&& on_producer) {
    const bool waits = kInference == Inference::kFull || after_writer;
    if (waits) last_users(entry, on_producer);
    if (kMayMix && (entry.flags & kEntryMixed) != 0) [[unlikely]] {
      for (const Meeting& other : meetings(entry)) {
        Entry& met = entries_[other.entry];
        if (waits) last_users(met, on_producer);
        if (other.covered) forget_users(met);
      }
    }
    if (entry.spill != kNone) [[unlikely]]
      free_chunks(entry);
    entry.readers_inline = 0;
    entry.writer = self;
  }

  // Whether a reference resolves: indices, generation, bounds.
  Status check(const wire::TensorRef& ref) const;
  // Whether two references name common bytes, by the same rules; both must resolve.
  bool may_overlap(const wire::TensorRef& a, const wire::TensorRef& b) const;
  bool is_mixed(const wire::TensorRef& ref) const;

  uint32_t epoch() const { return epoch_; }
  uint32_t used() const { return used_; }
  uint32_t capacity() const { return static_cast<uint32_t>(mask_ + 1); }

  struct NamedBuffer {
    uint32_t index;
    uint32_t generation;
  };
  // Buffers named in this epoch, each once, in order of first use; pinned ones are not among them.
  const std::vector<NamedBuffer>& buffers_named() const { return named_; }

  // The buffer is an allocation of this run; called before the first find of one of its views.
  void pin_buffer(uint32_t index, uint32_t generation);

 private:
  static constexpr uint32_t kMaxGrids = 8;
  static constexpr uint8_t kIrregular = kMaxGrids;  // family number of the bag

  struct Meeting {
    uint32_t entry;
    bool covered;
  };
  struct alignas(64) Chunk {
    static constexpr uint32_t kIds = 12;
    uint32_t next;
    uint32_t count;
    uint32_t chain;  // chunks from here on
    uint32_t limit;  // chain length at which finished readers are dropped first
    std::array<TaskRef, kIds> ids;
  };
  struct Family {
    uint32_t layout = 0;
    uint32_t next = kNone;
    uint8_t number = 0;
    bool flat = false;  // dense one-dimensional slices: one modulo decides
    Lattice lattice;
    Coordinates phase;  // origin of the grid: coordinates modulo the shape
    IntervalIndex index;
  };
  struct alignas(64) BufferViews {
    uint32_t epoch = 0;
    uint32_t generation = 0;
    uint32_t first_entry = kNone;
    uint32_t families = kNone;
    uint64_t bytes = 0;
    uint8_t family_count = 0;
    bool mixed = false;
    bool implied = false;  // the first grid is known from an earlier epoch: no family stands for it yet
    uint8_t flags = 0;
    uint8_t denies = 0;
    // A copy of what decides about the first grid when that is made of flat slices; no layout otherwise.
    uint32_t slice_layout = kNone;
    uint64_t slice_extent = ~uint64_t{0};  // no buffer holds such a slice
    uint64_t slice_phase = 0;
    uint64_t slice_mask = 0;  // extent - 1 for a power of two, else 0
  };

  static uint64_t word_of(uint32_t low, uint32_t high) { return low | (uint64_t{high} << 32); }
  // The top bits of a multiplicative hash of the reference's three words.
  static uint64_t hash_of(uint64_t buffer, uint64_t layout, uint64_t offset) {
    return ((buffer + (layout << 17)) * 0x9E3779B97F4A7C15u + offset) * 0xC2B2AE3D27D4EB4Fu;
  }
  uint64_t place_of(uint64_t buffer, uint64_t layout, uint64_t offset) const {
    return hash_of(buffer, layout, offset) >> shift_;
  }

  template <class OnProducer>
  void last_users(Entry& entry, OnProducer& on_producer) {
    const uint32_t readers = entry.readers_inline;
    if (readers == 0) {
      if (entry.writer != kNoTask) on_producer(entry.writer);
      return;
    }
    for (uint32_t i = 0; i < readers; ++i) on_producer(entry.readers[i]);
    if (entry.spill == kNone) [[likely]]
      return;
    for (uint32_t chunk = entry.spill; chunk != kNone; chunk = chunks_[chunk].next) {
      for (uint32_t i = 0; i < chunks_[chunk].count; ++i) on_producer(chunks_[chunk].ids[i]);
    }
  }

  template <class OnNew>
  Entry* find_or(const wire::TensorRef& ref, OnNew&& on_new);
  Entry* create(const wire::TensorRef& ref, uint64_t at, Status* why);
  Entry* fill(const wire::TensorRef& ref, uint64_t at, BufferViews& views, uint8_t family);
  bool is_simple_slice(BufferViews& views, const wire::TensorRef& ref);
  bool on_known_slice(const BufferViews& views, const wire::TensorRef& ref) const;
  bool on_slice_grid(const BufferViews& views, const wire::TensorRef& ref) const;
  bool reopen_sliced(BufferViews& views, const wire::TensorRef& ref);
  void open_buffer(uint32_t index, uint32_t generation, uint8_t flags);
  const std::vector<Meeting>& meetings(const Entry& entry);
  void forget_users(Entry& entry);
  void free_chunks(Entry& entry);
  void spill_reader(Entry& entry, TaskRef self);
  uint32_t take_chunk();
  void rebuild(uint32_t room);
  bool dead(const Entry& entry) const;
  void link(uint32_t at, BufferViews& views);
  uint8_t family_for(BufferViews& views, const wire::TensorRef& ref);
  bool on_grid(const Family& family, uint64_t offset) const;
  uint8_t add_family(BufferViews& views, const wire::TensorRef& ref, const Lattice& lattice, bool regular);
  void mix(BufferViews& views);
  Family& family_of(const BufferViews& views, uint8_t number);
  void index_entry(BufferViews& views, uint32_t at);
  Lattice lattice_at(uint64_t layout_epoch) const { return lattice_of(layouts_[static_cast<uint32_t>(layout_epoch)]); }

  const memory::SharedTables& tables_;
  const wire::Layout* layouts_;
  LiveProbe live_;

  Entry* entries_ = nullptr;
  Entry* spare_ = nullptr;  // as large as entries_, or null until the first rebuild at this size
  uint64_t mask_ = 0;
  uint32_t shift_ = 0;
  uint32_t epoch_ = 0;
  uint64_t epoch_word_ = 0;  // the epoch in the high half
  uint32_t used_ = 0;
  uint32_t limit_ = 0;

  BufferViews* views_;  // by buffer index
  std::vector<Family> families_;
  uint32_t families_used_ = 0;
  uint32_t free_family_ = kNone;
  std::vector<Chunk> chunks_;
  uint32_t free_chunk_ = kNone;
  uint32_t chunks_used_ = 0;
  std::vector<Meeting> meetings_;
  std::vector<TaskRef> scratch_;
  std::vector<NamedBuffer> named_;
};

}  // namespace simpler::graph
