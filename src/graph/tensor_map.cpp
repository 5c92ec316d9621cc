#include "graph/tensor_map.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "base/check.h"

namespace simpler::graph {

namespace {

template <class T>
T* map_zeroed(uint64_t count) {
  void* memory =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SIMPLER_CHECK(memory != MAP_FAILED, count, sizeof(T));
  return static_cast<T*>(memory);
}

std::string text_of(const wire::TensorRef& ref) {
  return "buffer " + std::to_string(ref.buffer) + " generation " + std::to_string(ref.generation) + " layout " +
         std::to_string(ref.layout) + " offset " + std::to_string(ref.byte_offset);
}

}  // namespace

TensorMap::TensorMap(const memory::SharedTables& tables, LiveProbe live, uint32_t initial_entries)
    : tables_(tables), layouts_(tables.layouts()), live_(live), views_(map_zeroed<BufferViews>(wire::kMaxBuffers)) {
  uint32_t size = 64;
  while (size < initial_entries) size *= 2;
  entries_ = map_zeroed<Entry>(size);
  mask_ = size - 1;
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
  limit_ = size / 2;
  begin_epoch();
}

TensorMap::~TensorMap() {
  munmap(entries_, (mask_ + 1) * sizeof(Entry));
  if (spare_ != nullptr) munmap(spare_, (mask_ + 1) * sizeof(Entry));
  munmap(views_, wire::kMaxBuffers * sizeof(BufferViews));
}

void TensorMap::begin_epoch() {
  if (++epoch_ == 0) {
    std::memset(static_cast<void*>(entries_), 0, (mask_ + 1) * sizeof(Entry));
    std::memset(static_cast<void*>(views_), 0, wire::kMaxBuffers * sizeof(BufferViews));
    if (spare_ != nullptr) std::memset(static_cast<void*>(spare_), 0, (mask_ + 1) * sizeof(Entry));
    epoch_ = 1;
  }
  epoch_word_ = uint64_t{epoch_} << 32;
  used_ = 0;
  families_used_ = 0;
  free_family_ = kNone;
  free_chunk_ = kNone;
  chunks_used_ = 0;
  named_.clear();
}

Status TensorMap::check(const wire::TensorRef& ref) const {
  if (ref.flags != wire::kTensorRefPlain) {
    return unsupported("tensor with an inline layout: dependencies need a layout of the shared table");
  }
  if (ref.buffer == 0 || ref.buffer >= tables_.buffer_count() || ref.layout == 0 ||
      ref.layout >= tables_.layout_count()) {
    return out_of_range("tensor reference outside of the tables: " + text_of(ref));
  }
  const wire::BufferEntry& buffer = tables_.buffer(ref.buffer);
  if (!tables_.buffer_live(ref.buffer, ref.generation)) {
    return not_found("tensor of a buffer that was released: " + text_of(ref));
  }
  const wire::Layout& layout = layouts_[ref.layout];
  const uint64_t bytes = buffer.descriptor.nbytes;
  if (ref.byte_offset > bytes || layout.extent_bytes > bytes - ref.byte_offset) {
    return invalid_argument("view of " + std::to_string(layout.extent_bytes) + " bytes leaves a buffer of " +
                            std::to_string(bytes) + ": " + text_of(ref));
  }
  return Status::ok();
}

void TensorMap::open_buffer(uint32_t index, uint32_t generation, uint8_t flags) {
  BufferViews& views = views_[index];
  if (views.epoch == epoch_) {
    while (views.families != kNone) {
      const uint32_t next = families_[views.families].next;
      families_[views.families].next = free_family_;
      free_family_ = views.families;
      views.families = next;
    }
  }
  views = BufferViews{};
  views.epoch = epoch_;
  views.generation = generation;
  views.flags = flags;
  views.bytes = tables_.buffer(index).descriptor.nbytes;
  const AccessMode mode = tables_.buffer(index).descriptor.access;
  views.denies = static_cast<uint8_t>((can_read(mode) ? 0 : kNeedsRead) | (can_write(mode) ? 0 : kNeedsWrite));
  if ((flags & kEntryPinned) == 0) named_.push_back({index, generation});
}

void TensorMap::pin_buffer(uint32_t index, uint32_t generation) {
  open_buffer(index, generation, kEntryPinned);
}

// The entry of a key, or what `on_new(place)` says of one that is not there.
template <class OnNew>
inline Entry* TensorMap::find_or(const wire::TensorRef& ref, OnNew&& on_new) {
  const uint64_t buffer = word_of(ref.buffer, ref.generation);
  const uint64_t layout = word_of(ref.layout, ref.flags);
  const uint64_t layout_epoch = layout + epoch_word_;
  uint64_t at = place_of(buffer, layout, ref.byte_offset);
  while (true) {
    Entry& entry = entries_[at];
    if (entry.layout_epoch == layout_epoch && entry.offset == ref.byte_offset && entry.buffer == buffer) return &entry;
    if (static_cast<uint32_t>(entry.layout_epoch >> 32) != epoch_) return on_new(at);
    at = (at + 1) & mask_;
  }
}

Entry* TensorMap::find(const wire::TensorRef& ref, Status* why) {
  return find_or(ref, [&](uint64_t at) { return create(ref, at, why); });
}

Entry* TensorMap::find_slice(const wire::TensorRef& ref) {
  return find_or(ref, [&](uint64_t at) -> Entry* {
    BufferViews& views = views_[ref.buffer < wire::kMaxBuffers ? ref.buffer : 0];
    return is_simple_slice(views, ref) ? fill(ref, at, views, 0) : nullptr;
  });
}

// A new slice of a buffer that so far has such slices only: nothing else needs to be looked at.
inline bool TensorMap::on_known_slice(const BufferViews& views, const wire::TensorRef& ref) const {
  return views.epoch == epoch_ && !views.mixed && on_slice_grid(views, ref);
}

inline bool TensorMap::on_slice_grid(const BufferViews& views, const wire::TensorRef& ref) const {
  if (views.generation != ref.generation) return false;
  if (views.slice_layout != ref.layout || ref.flags != wire::kTensorRefPlain) return false;
  if (ref.byte_offset > views.bytes || views.slice_extent > views.bytes - ref.byte_offset) return false;
  const uint64_t phase =
      views.slice_mask != 0 ? ref.byte_offset & views.slice_mask : ref.byte_offset % views.slice_extent;
  return phase == views.slice_phase;
}

// The first view of a buffer in this epoch, a slice as the first ones of an earlier epoch were: the same run again.
// What was found out about the grid then still holds.
bool TensorMap::reopen_sliced(BufferViews& views, const wire::TensorRef& ref) {
  if (views.epoch == 0 || views.epoch == epoch_ || views.flags != 0 || !on_slice_grid(views, ref)) return false;
  if (!tables_.buffer_live(ref.buffer, ref.generation)) return false;
  views.epoch = epoch_;
  views.first_entry = views.families = kNone;
  views.family_count = 0;
  views.mixed = false;
  views.implied = true;
  named_.push_back({ref.buffer, ref.generation});
  return true;
}

inline bool TensorMap::is_simple_slice(BufferViews& views, const wire::TensorRef& ref) {
  return on_known_slice(views, ref) || reopen_sliced(views, ref);
}

Entry* TensorMap::create(const wire::TensorRef& ref, uint64_t at, Status* why) {
  BufferViews& views = views_[ref.buffer < wire::kMaxBuffers ? ref.buffer : 0];
  uint8_t family = 0;
  if (!is_simple_slice(views, ref)) [[unlikely]] {
    if (Status status = check(ref); !status.is_ok()) {
      *why = std::move(status);
      return nullptr;
    }
    if (layouts_[ref.layout].extent_bytes == 0) return nullptr;
    if (views.epoch != epoch_ || views.generation != ref.generation) open_buffer(ref.buffer, ref.generation, 0);
    family = family_for(views, ref);
  }
  return fill(ref, at, views, family);
}

inline Entry* TensorMap::fill(const wire::TensorRef& ref, uint64_t at, BufferViews& views, uint8_t family) {
  Entry& entry = entries_[at];
  entry.buffer = word_of(ref.buffer, ref.generation);
  entry.offset = ref.byte_offset;
  entry.layout_epoch = ref.layout + epoch_word_;
  entry.mark = 0;
  entry.writer = kNoTask;
  entry.spill = kNone;
  entry.family = family;
  entry.flags = views.flags;
  entry.denies = views.denies;
  entry.readers_inline = 0;
  ++used_;
  link(static_cast<uint32_t>(at), views);
  return &entry;
}

void TensorMap::link(uint32_t at, BufferViews& views) {
  Entry& entry = entries_[at];
  entry.next_of_buffer = views.first_entry;
  views.first_entry = at;
  if (views.mixed) {
    entry.flags |= kEntryMixed;
    index_entry(views, at);
  }
}

bool TensorMap::on_grid(const Family& family, uint64_t offset) const {
  if (family.flat) {
    if (((offset | family.lattice.extent) >> 32) == 0) {
      return static_cast<uint32_t>(offset) % static_cast<uint32_t>(family.lattice.extent) == family.phase.remainder;
    }
    return offset % family.lattice.extent == family.phase.remainder;
  }
  const Coordinates at = coordinates_of(family.lattice, offset);
  if (!stays_inside(family.lattice, at)) return false;
  for (uint32_t i = 0; i < family.lattice.ndims; ++i) {
    if (at.axis[i] % family.lattice.shape[i] != family.phase.axis[i]) return false;
  }
  return at.remainder % family.lattice.element == family.phase.remainder;
}

// The grid that the view lies on, or the bag. Makes the buffer mixed when the view needs a second family.
uint8_t TensorMap::family_for(BufferViews& views, const wire::TensorRef& ref) {
  if (std::exchange(views.implied, false)) {
    wire::TensorRef slice = ref;
    slice.layout = views.slice_layout;
    slice.byte_offset = views.slice_phase;
    add_family(views, slice, lattice_of(layouts_[slice.layout]), true);
  }
  for (uint32_t i = views.families; i != kNone; i = families_[i].next) {
    const Family& family = families_[i];
    if (family.number != kIrregular && family.layout == ref.layout && on_grid(family, ref.byte_offset)) {
      return family.number;
    }
  }
  const Lattice lattice = lattice_of(layouts_[ref.layout]);
  const bool regular = lattice.regular && stays_inside(lattice, coordinates_of(lattice, ref.byte_offset)) &&
                       views.family_count < kMaxGrids;
  if (!regular) {
    for (uint32_t i = views.families; i != kNone; i = families_[i].next) {
      if (families_[i].number == kIrregular) return kIrregular;
    }
  }
  const bool first = views.families == kNone;
  if ((!first || !regular) && !views.mixed) mix(views);
  return add_family(views, ref, lattice, regular);
}

uint8_t TensorMap::add_family(BufferViews& views, const wire::TensorRef& ref, const Lattice& lattice, bool regular) {
  uint32_t fresh = free_family_;
  if (fresh != kNone) {
    free_family_ = families_[fresh].next;
  } else {
    if (families_used_ == families_.size()) families_.emplace_back();
    fresh = families_used_++;
  }
  Family& family = families_[fresh];
  family.layout = ref.layout;
  family.next = views.families;
  family.lattice = lattice;
  family.index.clear();
  family.number = regular ? views.family_count++ : kIrregular;
  family.flat = regular && lattice.ndims == 1 && lattice.dense;
  if (family.flat) {
    family.phase.remainder = ref.byte_offset % lattice.extent;
  } else if (regular) {
    family.phase = coordinates_of(lattice, ref.byte_offset);
    for (uint32_t i = 0; i < lattice.ndims; ++i) family.phase.axis[i] %= lattice.shape[i];
    family.phase.remainder %= lattice.element;
  }
  views.families = fresh;
  if (family.flat && family.number == 0) {
    views.slice_layout = ref.layout;
    views.slice_extent = lattice.extent;
    views.slice_phase = family.phase.remainder;
    views.slice_mask = std::has_single_bit(lattice.extent) && lattice.extent > 1 ? lattice.extent - 1 : 0;
  }
  return family.number;
}

// From now on views of this buffer may overlap: index those that exist.
void TensorMap::mix(BufferViews& views) {
  views.mixed = true;
  for (uint32_t at = views.first_entry; at != kNone; at = entries_[at].next_of_buffer) {
    entries_[at].flags |= kEntryMixed;
    index_entry(views, at);
  }
}

TensorMap::Family& TensorMap::family_of(const BufferViews& views, uint8_t number) {
  uint32_t i = views.families;
  while (i != kNone && families_[i].number != number) i = families_[i].next;
  SIMPLER_CHECK(i != kNone, uint32_t{number});
  return families_[i];
}

void TensorMap::index_entry(BufferViews& views, uint32_t at) {
  const Entry& entry = entries_[at];
  const uint64_t extent = layouts_[static_cast<uint32_t>(entry.layout_epoch)].extent_bytes;
  family_of(views, entry.family).index.insert({entry.offset, entry.offset + extent, at});
}

const std::vector<TensorMap::Meeting>& TensorMap::meetings(const Entry& entry) {
  meetings_.clear();
  const BufferViews& views = views_[static_cast<uint32_t>(entry.buffer)];
  const auto self = static_cast<uint32_t>(&entry - entries_);
  const Lattice lattice = lattice_at(entry.layout_epoch);
  const Footprint probe{&lattice, entry.offset};
  for (uint32_t i = views.families; i != kNone; i = families_[i].next) {
    const Family& family = families_[i];
    if (family.number == entry.family && family.number != kIrregular) continue;
    family.index.for_each(probe.offset, probe.end(), [&](uint32_t at) {
      const Entry& other = entries_[at];
      if (at == self || (other.writer == kNoTask && other.readers_inline == 0)) return;
      Overlap how;
      if (family.number != kIrregular) {
        how = overlap(probe, {&family.lattice, other.offset});
      } else {
        const Lattice other_lattice = lattice_at(other.layout_epoch);
        how = overlap(probe, {&other_lattice, other.offset});
      }
      if (how != Overlap::kNone) meetings_.push_back({at, how == Overlap::kCovered});
    });
  }
  return meetings_;
}

bool TensorMap::may_overlap(const wire::TensorRef& a, const wire::TensorRef& b) const {
  if (a.buffer != b.buffer || a.generation != b.generation) return false;
  const Lattice first = lattice_of(layouts_[a.layout]);
  const Lattice second = lattice_of(layouts_[b.layout]);
  if (first.extent == 0 || second.extent == 0) return false;
  return overlap({&first, a.byte_offset}, {&second, b.byte_offset}) != Overlap::kNone;
}

bool TensorMap::is_mixed(const wire::TensorRef& ref) const {
  const BufferViews& views = views_[ref.buffer];
  return views.epoch == epoch_ && views.generation == ref.generation && views.mixed;
}

void TensorMap::forget_users(Entry& entry) {
  if (entry.spill != kNone) free_chunks(entry);
  entry.writer = kNoTask;
  entry.readers_inline = 0;
}

uint32_t TensorMap::take_chunk() {
  if (free_chunk_ != kNone) {
    const uint32_t taken = free_chunk_;
    free_chunk_ = chunks_[taken].next;
    return taken;
  }
  if (chunks_used_ == chunks_.size()) chunks_.emplace_back();
  return chunks_used_++;
}

void TensorMap::free_chunks(Entry& entry) {
  while (entry.spill != kNone) {
    const uint32_t next = chunks_[entry.spill].next;
    chunks_[entry.spill].next = free_chunk_;
    free_chunk_ = entry.spill;
    entry.spill = next;
  }
}

// Adds a reader beyond the inline ones. Finished readers are dropped whenever the chain has doubled since the last
// time, so that the list stays in proportion to the unfinished ones.
void TensorMap::spill_reader(Entry& entry, TaskRef self) {
  const uint32_t head = entry.spill;
  if (head != kNone && chunks_[head].count < Chunk::kIds) {
    chunks_[head].ids[chunks_[head].count++] = self;
    return;
  }
  const uint32_t chain = head == kNone ? 0 : chunks_[head].chain;
  uint32_t limit = head == kNone ? 1 : chunks_[head].limit;
  if (chain == 0 || chain >= limit) {
    std::vector<TaskRef>& alive = scratch_;
    alive.clear();
    const auto keep = [&](TaskRef task) {
      if (live_(task)) alive.push_back(task);
    };
    for (uint32_t i = 0; i < entry.readers_inline; ++i) keep(entry.readers[i]);
    for (uint32_t chunk = head; chunk != kNone; chunk = chunks_[chunk].next) {
      for (uint32_t i = 0; i < chunks_[chunk].count; ++i) keep(chunks_[chunk].ids[i]);
    }
    alive.push_back(self);
    free_chunks(entry);
    entry.readers_inline = static_cast<uint8_t>(std::min<size_t>(alive.size(), Entry::kInlineReaders));
    std::copy_n(alive.begin(), entry.readers_inline, entry.readers.begin());
    uint32_t chain_now = 0;
    for (size_t i = entry.readers_inline; i < alive.size(); ++i) {
      if (entry.spill == kNone || chunks_[entry.spill].count == Chunk::kIds) {
        const uint32_t fresh = take_chunk();
        chunks_[fresh] = {entry.spill, 0, ++chain_now, 0, {}};
        entry.spill = fresh;
      }
      Chunk& chunk = chunks_[entry.spill];
      chunk.ids[chunk.count++] = alive[i];
    }
    if (entry.spill != kNone) chunks_[entry.spill].limit = 2 * chain_now;
    return;
  }
  const uint32_t fresh = take_chunk();
  chunks_[fresh] = {head, 1, chain + 1, limit, {self}};
  entry.spill = fresh;
}

bool TensorMap::dead(const Entry& entry) const {
  if (entry.writer != kNoTask && live_(entry.writer)) return false;
  for (uint32_t i = 0; i < entry.readers_inline; ++i) {
    if (live_(entry.readers[i])) return false;
  }
  for (uint32_t chunk = entry.spill; chunk != kNone; chunk = chunks_[chunk].next) {
    for (uint32_t i = 0; i < chunks_[chunk].count; ++i) {
      if (live_(chunks_[chunk].ids[i])) return false;
    }
  }
  return true;
}

// Copies what is still needed into an emptied table, a larger one when more than a quarter is.
void TensorMap::rebuild(uint32_t room) {
  Entry* const old = entries_;
  const uint64_t old_size = mask_ + 1;
  uint32_t alive = 0;
  for (uint64_t i = 0; i < old_size; ++i) {
    Entry& entry = old[i];
    if (static_cast<uint32_t>(entry.layout_epoch >> 32) != epoch_) continue;
    BufferViews& views = views_[static_cast<uint32_t>(entry.buffer)];
    views.first_entry = kNone;
    if (views.generation != static_cast<uint32_t>(entry.buffer >> 32) || dead(entry)) {
      free_chunks(entry);
      entry.layout_epoch = 0;
    } else {
      ++alive;
    }
  }
  uint64_t size = old_size;
  while (size / 4 < uint64_t{alive} + room) size *= 2;
  SIMPLER_CHECK(size <= (uint64_t{1} << 31), size);
  if (size != old_size || spare_ == nullptr) {
    if (spare_ != nullptr) munmap(spare_, old_size * sizeof(Entry));
    spare_ = map_zeroed<Entry>(size);
  } else {
    for (uint64_t i = 0; i < size; ++i) spare_[i].layout_epoch = 0;
  }
  for (uint32_t i = 0; i < families_used_; ++i) families_[i].index.clear();
  entries_ = spare_;
  mask_ = size - 1;
  shift_ = 64 - static_cast<uint32_t>(std::countr_zero(size));
  limit_ = static_cast<uint32_t>(size / 2);
  used_ = 0;
  for (uint64_t i = 0; i < old_size; ++i) {
    if (static_cast<uint32_t>(old[i].layout_epoch >> 32) != epoch_) continue;
    uint64_t at = place_of(old[i].buffer, static_cast<uint32_t>(old[i].layout_epoch), old[i].offset);
    while (static_cast<uint32_t>(entries_[at].layout_epoch >> 32) == epoch_) at = (at + 1) & mask_;
    entries_[at] = old[i];
    ++used_;
    link(static_cast<uint32_t>(at), views_[static_cast<uint32_t>(entries_[at].buffer)]);
  }
  if (size == old_size) {
    spare_ = old;
  } else {
    munmap(old, old_size * sizeof(Entry));
    spare_ = nullptr;
  }
}

}  // namespace simpler::graph
