// Host memory of one buffer, and the store that it comes from.
//
// Larger buffers have a memfd each; smaller ones share arenas, so that hundreds need a handful of descriptors. A
// backing is shared by the owner's table and every array over it: the bytes stay mapped until the last of them lets go.
// Its store may go first. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "memory/backing_name.h"
#include "memory/shared_mapping.h"
#include "memory/span_allocator.h"
#include "simpler/identity.h"
#include "simpler/status.h"

namespace simpler::memory {

class HostArena;

class HostBacking {
 public:
  HostBacking(SharedMapping mapping, uint64_t nbytes);
  HostBacking(std::shared_ptr<HostArena> arena, uint32_t node, uint64_t offset, uint64_t nbytes);
  ~HostBacking();
  HostBacking(const HostBacking&) = delete;
  HostBacking& operator=(const HostBacking&) = delete;

  std::byte* data() const { return data_; }
  uint64_t nbytes() const { return nbytes_; }
  // What goes into the descriptor's body.
  Result<std::string> body() const;
  // From now on nobody can open the buffer any more; existing mappings stay. For a named file a failed removal is
  // reported and may be retried.
  Status withdraw();

 private:
  SharedMapping mapping_;
  std::shared_ptr<HostArena> arena_;
  uint32_t node_ = SpanAllocator::kNoSpan;
  uint64_t offset_ = 0;
  std::byte* data_ = nullptr;
  uint64_t nbytes_ = 0;
  pid_t creator_ = 0;  // a forked copy of this object leaves the shared bytes alone
};

enum class Commit : uint8_t {
  kSecured,  // every byte is backed before the call returns
  kSparse,   // bytes are backed when first touched; only the head room is checked. For data larger than its use.
};

struct HostStoreOptions {
  uint64_t small_limit = uint64_t{1} << 20;   // buffers up to this size share arenas
  uint64_t arena_bytes = uint64_t{64} << 20;  // address space of one arena
  const SpaceProbe* space = nullptr;
};

class HostStore {
 public:
  explicit HostStore(const HostStoreOptions& options = {}) : options_(options) {}

  // `nbytes` > 0. `file` empty, or the path of a new file that unrelated processes can see.
  Result<std::shared_ptr<HostBacking>> allocate(const CanonicalIdentity& identity, uint64_t nbytes,
                                                Commit commit = Commit::kSecured, const std::string& file = {});
  // Descriptors held for shared arenas.
  size_t arenas() const;

 private:
  Result<std::shared_ptr<HostBacking>> allocate_small(const CanonicalIdentity& identity, uint64_t nbytes);

  HostStoreOptions options_;
  mutable Guarded<std::vector<std::shared_ptr<HostArena>>> arenas_;
};

}  // namespace simpler::memory
