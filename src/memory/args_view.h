// A child's reading of a dispatch line: from indices and offsets to tensors and scalars, every one of them checked.
//
// What a buffer index means is kept with its generation, so the second task that names a buffer costs two compares. The
// block in the arena belongs to the task's slot: a view is valid until the line is answered.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "memory/args_arena.h"
#include "memory/import_registry.h"
#include "memory/tables.h"
#include "simpler/status.h"
#include "wire/dispatch_line.h"
#include "wire/tensor_ref.h"

namespace simpler::memory {

// One tensor argument mapped into this process.
struct MappedTensor {
  std::byte* data = nullptr;  // first byte of the view (a device address when `device`)
  const wire::Layout* layout = nullptr;
  uint64_t byte_offset = 0;  // of the view in its buffer
  AccessMode access = AccessMode::kReadWrite;
  bool device = false;
  wire::TensorRef ref;
};

class ArgsReader;

class ArgsView {
 public:
  uint32_t tensor_count() const { return tensors_; }
  uint32_t scalar_count() const { return scalars_; }
  // kOutOfRange for a bad position; else why the reference does not resolve.
  Status tensor(uint32_t position, MappedTensor& out) const;
  Result<uint64_t> scalar(uint32_t position) const;
  Result<wire::TensorRef> reference(uint32_t position) const;
  // All scalars where they lie; 8-byte aligned.
  const uint64_t* scalars() const { return scalar_words_; }

 private:
  friend class ArgsReader;
  Status tensor_slow(uint32_t position, MappedTensor& out) const;

  ArgsReader* reader_ = nullptr;
  const std::byte* block_ = nullptr;
  const uint64_t* scalar_words_ = nullptr;
  wire::TensorRef inline_tensor_;
  uint32_t place_ = 0;
  uint32_t tensors_ = 0;
  uint32_t scalars_ = 0;
  bool has_inline_ = false;
};

// One per serve loop; holds the cache. Single-threaded.
class ArgsReader {
 public:
  ArgsReader(SharedTablesView tables, ArgsArenaView arena, ImportRegistry& imports);

  // kCorrupt when the line's counts and place do not describe a block inside the arena.
  Status open(const wire::Dispatch& dispatch, ArgsView& out);
  Status resolve(const ArgsView& view, const wire::TensorRef& ref, MappedTensor& out);
  // The descriptor behind an index of the last resolved generation; null when unknown.
  const BufferDescriptor* descriptor(uint32_t buffer) const;
  // Forgets what it kept about a released buffer.
  void forget(const CanonicalIdentity& identity);

 private:
  friend class ArgsView;
  struct Known {
    uint32_t generation = 0;
    AccessMode access = AccessMode::kRead;
    bool device = false;
    std::byte* base = nullptr;
    uint64_t nbytes = 0;
    BufferDescriptor descriptor;
  };

  // The common case: a buffer that was seen before, an interned layout, a view inside. False: `resolve` finds out.
  bool resolve_known(const wire::TensorRef& ref, MappedTensor& out) const;
  Status learn(const wire::TensorRef& ref);
  const wire::Layout* layout_of(const ArgsView& view, const wire::TensorRef& ref) const;

  SharedTablesView tables_;
  ArgsArenaView arena_;
  ImportRegistry& imports_;
  std::vector<Known> known_;
};

inline bool ArgsReader::resolve_known(const wire::TensorRef& ref, MappedTensor& out) const {
  if (ref.buffer >= known_.size() || ref.generation == 0 || ref.flags != 0) return false;
  const Known& known = known_[ref.buffer];
  if (known.generation != ref.generation || !tables_.buffer_current(ref.buffer, ref.generation)) return false;
  const wire::Layout* layout = tables_.layout(ref.layout);
  if (layout == nullptr || ref.byte_offset > known.nbytes || layout->extent_bytes > known.nbytes - ref.byte_offset ||
      (ref.byte_offset & (element_size(layout->dtype) - 1)) != 0) {
    return false;
  }
  out.data = known.base + ref.byte_offset;
  out.layout = layout;
  out.byte_offset = ref.byte_offset;
  out.access = known.access;
  out.device = known.device;
  out.ref = ref;
  return true;
}

inline Status ArgsView::tensor(uint32_t position, MappedTensor& out) const {
  if (position < tensors_) [[likely]] {
    wire::TensorRef ref;
    if (!has_inline_) {
      std::memcpy(&ref, block_ + position * sizeof ref, sizeof ref);
    } else if (position == 0) {
      ref = inline_tensor_;
    } else {
      std::memcpy(&ref, block_ + (position - 1) * sizeof ref, sizeof ref);
    }
    if (reader_->resolve_known(ref, out)) [[likely]]
      return Status::ok();
  }
  return tensor_slow(position, out);
}

}  // namespace simpler::memory
