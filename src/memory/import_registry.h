// The consumer's side of buffers: from a descriptor to an address of this process, mapped once per identity.
//
// Memory that existed before the fork is where it was; shared memory made later is opened through its owner's
// descriptor table and checked by inode, size and, where buffers share an object, by the header before the data. A
// descriptor that contradicts what is already known under its identity is refused and changes nothing. One object per
// process that serves tasks; single-threaded (its serve loop).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/backing_name.h"
#include "memory/shared_mapping.h"
#include "simpler/buffer_descriptor.h"
#include "simpler/status.h"

namespace simpler::memory {

// A mapped object; shared by the buffers in it and by whoever keeps a view.
using ImportedMapping = std::shared_ptr<SharedMapping>;

struct Import {
  std::byte* base = nullptr;  // first byte of the buffer, or a device address
  uint64_t nbytes = 0;
  AccessMode access = AccessMode::kReadWrite;
  bool device = false;
  ImportedMapping mapping;  // null for inherited and device memory
};

enum class Endpoint : uint8_t { kHost, kChip };

// Where inherited memory may lie, and what passes descriptors where /proc is missing.
struct ImportOptions {
  Endpoint endpoint = Endpoint::kHost;
  OwnerInstanceId device_owner{};  // on a chip: whose device memory is accepted
};

// Receives a descriptor for a buffer's object from its owner (over a socket, from a test); invalid when it cannot.
class DescriptorSource {
 public:
  virtual ~DescriptorSource() = default;
  virtual UniqueFd fetch(const BackingName& name) = 0;
};

class ImportRegistry {
 public:
  explicit ImportRegistry(const ImportOptions& options = {}) : options_(options) {}

  // Used when a descriptor cannot be opened through /proc. Not owned.
  void set_source(DescriptorSource* source) { source_ = source; }
  // Memory inherited at the same address whose descriptors need no check of their own, such as the heap.
  void trust(const std::byte* base, uint64_t bytes) { trusted_.push_back({reinterpret_cast<uintptr_t>(base), bytes}); }

  // kNotFound names the identity when the owner or the buffer is gone; kInvalidArgument for a bad descriptor, one that
  // differs from the known one (naming the fields), or an object smaller than nbytes; kUnsupported for memory that this
  // endpoint cannot reach.
  Result<Import> materialize(const BufferDescriptor& descriptor);
  // True for a descriptor of trusted inherited memory; `inherited` then answers without keeping an entry.
  bool is_inherited(const BufferDescriptor& descriptor) const {
    return (descriptor.backend_kind == BackendKind::kForkShm || descriptor.backend_kind == BackendKind::kForkCow) &&
           is_trusted(body_address(descriptor), descriptor.nbytes);
  }
  Result<Import> inherited(const BufferDescriptor& descriptor);
  // Drops the mapping. With `refuse_in_use` (views are counted through Import::mapping) kFailedPrecondition keeps it.
  Status release(const CanonicalIdentity& identity, bool refuse_in_use = false);
  void close();

  bool knows(const CanonicalIdentity& identity) const { return imports_.contains(identity); }
  size_t size() const { return imports_.size(); }
  // Objects mapped, never more than the buffers known.
  size_t mapped_objects() const;

 private:
  struct Range {
    uintptr_t base;
    uint64_t bytes;
  };
  struct Known {
    BufferDescriptor descriptor;
    Import import;
  };
  using ObjectKey = std::pair<uint64_t, bool>;  // inode, writable

  Result<Import> open(const BufferDescriptor& descriptor);
  Result<Import> open_address(const BufferDescriptor& descriptor);
  Result<Import> open_shared(const BufferDescriptor& descriptor);
  Result<ImportedMapping> object_of(const BufferDescriptor& descriptor, const BackingName& name, uint64_t min_bytes);
  bool is_trusted(uint64_t address, uint64_t bytes) const;

  ImportOptions options_;
  DescriptorSource* source_ = nullptr;
  std::vector<Range> trusted_;
  std::unordered_map<CanonicalIdentity, Known> imports_;
  std::map<ObjectKey, std::weak_ptr<SharedMapping>> objects_;
};

// For processes outside the tree: maps a buffer by the name in its descriptor's body.
Result<Import> attach(std::string_view name, AccessMode access = AccessMode::kReadWrite);

}  // namespace simpler::memory
