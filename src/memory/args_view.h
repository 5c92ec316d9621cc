// A child's reading of a dispatch line: from indices and offsets to tensors and scalars, every one of them checked.
//
// What a buffer index means is kept with its generation, so the second task that names a buffer costs two compares. The
// block in the arena belongs to the task's slot: a view is valid until the line is answered.
#pragma once

#include <cstdint>
#include <memory>
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
  struct Known {
    uint32_t generation = 0;
    AccessMode access = AccessMode::kRead;
    bool device = false;
    std::byte* base = nullptr;
    uint64_t nbytes = 0;
    BufferDescriptor descriptor;
  };

  Status learn(const wire::TensorRef& ref);
  const wire::Layout* layout_of(const ArgsView& view, const wire::TensorRef& ref) const;

  SharedTablesView tables_;
  ArgsArenaView arena_;
  ImportRegistry& imports_;
  std::vector<Known> known_;
};

}  // namespace simpler::memory
