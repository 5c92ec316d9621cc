// The owner's side of buffers: which identities this worker made or adopted, and whether they may go.
//
// Creation and release belong to the control plane; the hot path only touches the run counts in SharedTables. A buffer
// that a queued, running or abandoned run names is not released. A failed release keeps the entry, so that a later call
// or the final sweep tries again. Single-threaded: the holder of the engine lock (creation of the bytes themselves does
// not need it, see HostStore).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "memory/host_backing.h"
#include "memory/tables.h"
#include "simpler/buffer_descriptor.h"
#include "simpler/status.h"

namespace simpler::memory {

struct OwnedBuffer {
  BufferDescriptor descriptor;
  BufferRef ref;
  uint32_t owner_worker = 0;             // for DEVICE memory
  std::shared_ptr<HostBacking> backing;  // null for adopted descriptors
};

// The descriptor of host memory that consumers open by name.
Result<BufferDescriptor> describe(const HostBacking& backing, const CanonicalIdentity& identity, AccessMode access);

class BufferTable {
 public:
  explicit BufferTable(SharedTables& tables) : tables_(tables) {}

  // A new shared host buffer: mint, allocate, describe, publish. kInvalidArgument for 0 bytes.
  Result<OwnedBuffer> create(HostStore& store, uint64_t nbytes, AccessMode access = AccessMode::kReadWrite,
                             Commit commit = Commit::kSecured, const std::string& file = {});
  // Publishes a valid descriptor made elsewhere: inherited tensors, device memory, a parent's buffers. The same
  // identity twice gives the same entry; other fields under a known identity are kInvalidArgument naming them.
  Result<OwnedBuffer> adopt(const BufferDescriptor& descriptor, uint32_t owner_worker = 0,
                            std::shared_ptr<HostBacking> backing = nullptr);
  const OwnedBuffer* find(const CanonicalIdentity& identity) const;
  // The reference of a tensor's buffer; adopts nothing. kNotFound names the identity.
  Result<BufferRef> resolve(const BufferDescriptor& descriptor) const;

  // kNotFound for an unknown identity or one whose entry is another buffer; kFailedPrecondition names a run that uses
  // it.
  Status check_releasable(const CanonicalIdentity& identity) const;
  // After it the descriptor is stale everywhere; bytes stay until the last view dies.
  Status release(const CanonicalIdentity& identity);
  // Releases what can be released; the first error is returned, everything else is done nevertheless.
  Status release_all();
  size_t size() const { return buffers_.size(); }

 private:
  SharedTables& tables_;
  std::unordered_map<CanonicalIdentity, OwnedBuffer> buffers_;
};

}  // namespace simpler::memory
