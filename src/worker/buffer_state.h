// What a Buffer handle points to, and the list of those that one worker made.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "memory/tables.h"
#include "simpler/buffer.h"
#include "simpler/status.h"

namespace simpler {

// Immutable but for the three flags at the end, which are set once.
struct Buffer::State {
  BufferDescriptor descriptor;
  std::byte* data = nullptr;         // null for memory of a chip
  std::shared_ptr<const void> keep;  // what keeps `data` mapped
  int owner_worker = -1;             // the chip that holds the bytes, -1 for host memory
  std::uint64_t worker_id = 0;       // of the Worker that made it
  memory::BufferRef ref;             // in the level's tables; empty at level 2
  std::function<Status()> withdraw;  // makes shared memory unreachable for those who have not mapped it
  bool transient = false;            // belongs to a run's scope, not to the caller
  std::atomic<bool> closed{false};
  std::atomic<bool> released{false};    // the memory is gone from the worker; implies closed
  std::atomic<bool> given_back{false};  // by the caller, not with the worker; implies released once both are set

  void mark_released() {
    closed.store(true, std::memory_order_release);
    released.store(true, std::memory_order_release);
  }
  // For a call that gives this one buffer back; what goes with its worker is only released.
  void mark_given_back() {
    given_back.store(true, std::memory_order_release);
    mark_released();
  }
};

}  // namespace simpler

namespace simpler::worker {

using BufferState = std::shared_ptr<Buffer::State>;

// Live buffers of one worker by identity and by address. Thread-safe.
class BufferList {
 public:
  void add(const BufferState& state);
  // Null when unknown.
  BufferState find(const CanonicalIdentity& identity) const;
  // The host buffer that holds all of [address, address + bytes), or null.
  BufferState find_address(const std::byte* address, std::uint64_t bytes) const;
  void remove(const CanonicalIdentity& identity);
  std::vector<BufferState> all() const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<CanonicalIdentity, BufferState> by_identity_ SIMPLER_GUARDED_BY(mutex_);
  std::map<const std::byte*, BufferState> by_address_ SIMPLER_GUARDED_BY(mutex_);
};

// Why a closed buffer gives no views, with its name: closed, released, or gone with its worker.
std::string why_closed(const Buffer& buffer);

// A buffer that this worker made and still has: kInvalidArgument for a default handle or another worker's,
// kFailedPrecondition for a released one.
Status check_owner(const Buffer& buffer, std::uint64_t worker_id, const char* call);
// As check_owner, and it may be used: kFailedPrecondition for a closed one too.
Status check_own(const Buffer& buffer, std::uint64_t worker_id, const char* call);

// One direction of a copy between host and chip, checked against both buffers.
struct CopyRange {
  std::uint64_t device_offset = 0;
  std::uint64_t host_offset = 0;
  std::uint64_t nbytes = 0;
};
Result<CopyRange> check_copy(const Buffer& device, const Buffer& host, std::uint64_t device_offset,
                             std::uint64_t host_offset, std::optional<std::uint64_t> nbytes, bool to_device);

}  // namespace simpler::worker
