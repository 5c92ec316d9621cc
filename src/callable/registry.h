// The parent's list of what its children can run.
//
// A registration is two steps around a broadcast to the children: `begin` reserves an index and says whether the digest
// is new, `commit` gives the handle, `abort` takes everything back. Every registration gives a handle of its own, also
// for code that is known already; the index is freed with the last one. While children are told to forget a digest it
// cannot come back (a tombstone), and one whose undo was not confirmed never does. Thread-safe; no lock is held over a
// broadcast.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "callable/identity.h"
#include "simpler/enums.h"
#include "simpler/status.h"

namespace simpler::callable {

inline constexpr uint32_t kMaxCallableIndex = 4095;

struct HandleState {
  std::string hashid;
  CallableKind kind{};
  TargetNamespace target_namespace{};
  Digest digest{};
  uint16_t index = 0;  // in the shared table; 0 is no callable
  std::string name;
  uint64_t handle_id = 0;
  uint64_t owner_id = 0;
  // Set once at unregister; pairs with the acquire in Registry::check.
  mutable std::atomic<bool> live{true};
};
using Handle = std::shared_ptr<const HandleState>;

struct RegistryOptions {
  uint32_t chip_capacity = 64;  // distinct chip callables: a chip's table is that large
  uint32_t host_capacity = kMaxCallableIndex;
};

// A registration between begin and commit or abort.
struct Registration {
  Identity identity;
  TargetNamespace target_namespace{};
  std::string name;
  uint16_t index = 0;
  bool first = false;  // children do not know the digest yet
};

// An unregistration between begin and finish.
struct Removal {
  Digest digest{};
  CallableKind kind{};
  TargetNamespace target_namespace{};
  uint16_t index = 0;
  bool last = false;  // children forget the digest; the index is free after finish
};

class Registry {
 public:
  explicit Registry(const RegistryOptions& options = {});

  uint64_t owner_id() const { return owner_id_; }

  // Fails with LOCAL_SLOT_EXHAUSTED, REGISTER_CLEANUP_UNCERTAIN, REGISTER_TOMBSTONE_ACTIVE (also while another thread's
  // registration of the same digest is under way) or HASHID_DESCRIPTOR_MISMATCH.
  Result<Registration> begin(const Identity& identity, TargetNamespace target_namespace, std::string_view name);
  Handle commit(const Registration& registration);
  // `undo_confirmed` false: some child may still know the digest; it is refused from now on.
  void abort(const Registration& registration, bool undo_confirmed = true);

  // The handle is dead at once. kNotFound for a foreign or stale one, UNREGISTER_TOMBSTONE_ACTIVE while the digest is
  // being registered or removed by somebody else.
  Result<Removal> begin_unregister(const Handle& handle);
  void finish_unregister(const Removal& removal);

  // Ok while `handle` is live and was made here; kWrongType for a null one, kNotFound for foreign or stale ones. Takes
  // no lock.
  Status check(const Handle& handle) const {
    if (handle != nullptr && handle->owner_id == owner_id_ && handle->live.load(std::memory_order_acquire)) [[likely]] {
      return Status::ok();
    }
    return refuse(handle);
  }
  // For a surface whose handles can be altered: kFailedPrecondition with CALLABLE_HANDLE_MUTATED.
  static Status check_unmodified(const HandleState& state, std::string_view hashid, CallableKind kind,
                                 TargetNamespace target_namespace);

  struct Entry {
    Identity identity;
    TargetNamespace target_namespace{};
    std::string name;
    uint16_t index = 0;
    uint32_t handles = 0;
  };
  // All committed entries, by index; what a child starts with.
  std::vector<Entry> snapshot() const;
  size_t size() const;

 private:
  struct Record {
    Entry entry;
    bool busy = false;  // a registration or removal of this digest is between its two steps
    std::map<uint64_t, std::weak_ptr<const HandleState>> handles;
  };
  struct State {
    std::map<Digest, Record> records;
    std::set<Digest> uncertain;
    std::vector<bool> index_used;
    uint32_t chip_count = 0;
    uint32_t host_count = 0;
    uint64_t next_handle = 1;
  };

  Status refuse(const Handle& handle) const;
  static void drop_index(State& state, const Record& record);

  RegistryOptions options_;
  uint64_t owner_id_;
  mutable Guarded<State> state_;
};

}  // namespace simpler::callable
