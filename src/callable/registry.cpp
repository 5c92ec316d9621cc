#include "callable/registry.h"

#include <algorithm>
#include <sys/random.h>

#include "base/check.h"

namespace simpler::callable {
namespace {

uint64_t random_id() {
  uint64_t id = 0;
  SIMPLER_CHECK(getrandom(&id, sizeof id, 0) == static_cast<ssize_t>(sizeof id));
  return id | 1;
}

}  // namespace

Registry::Registry(const RegistryOptions& options) : options_(options), owner_id_(random_id()) {
  auto state = state_.lock();
  state->index_used.assign(kMaxCallableIndex + 1, false);
  state->index_used[0] = true;
}

Result<Registration> Registry::begin(const Identity& identity, TargetNamespace target_namespace,
                                     std::string_view name) {
  auto state = state_.lock();
  const std::string id = hashid(identity.digest);
  if (state->uncertain.contains(identity.digest)) {
    return failed_precondition("REGISTER_CLEANUP_UNCERTAIN: a child may still hold an earlier registration of " + id +
                               "; restart the worker to use it again");
  }
  const auto known = state->records.find(identity.digest);
  if (known != state->records.end()) {
    Record& record = known->second;
    if (record.busy) {
      return failed_precondition("REGISTER_TOMBSTONE_ACTIVE: another registration or removal of " + id +
                                 " is under way");
    }
    if (record.entry.identity.kind != identity.kind || record.entry.identity.descriptor != identity.descriptor) {
      return failed_precondition("HASHID_DESCRIPTOR_MISMATCH: " + id + " is registered with another description");
    }
    if (record.entry.target_namespace != target_namespace) {
      return failed_precondition("HASHID_DESCRIPTOR_MISMATCH: " + id + " is registered for " +
                                 std::string(name_of(record.entry.target_namespace)));
    }
    record.busy = true;
    return Registration{identity, target_namespace, std::string(name), record.entry.index, false};
  }
  const bool chip = identity.kind == CallableKind::kChipCallable;
  uint32_t& in_use = chip ? state->chip_count : state->host_count;
  const uint32_t capacity = chip ? options_.chip_capacity : options_.host_capacity;
  const auto slot = std::find(state->index_used.begin(), state->index_used.end(), false);
  if (in_use >= capacity || slot == state->index_used.end()) {
    return resource_exhausted("LOCAL_SLOT_EXHAUSTED: " + std::to_string(in_use) + " different " +
                              (chip ? "chip" : "host") +
                              " callables are registered, which is the most; unregister one");
  }
  const auto index = static_cast<uint16_t>(slot - state->index_used.begin());
  *slot = true;
  ++in_use;
  Record record;
  record.entry = {identity, target_namespace, std::string(name), index, 0};
  record.busy = true;
  state->records.emplace(identity.digest, std::move(record));
  return Registration{identity, target_namespace, std::string(name), index, true};
}

Handle Registry::commit(const Registration& registration) {
  auto state = state_.lock();
  const auto known = state->records.find(registration.identity.digest);
  SIMPLER_CHECK(known != state->records.end() && known->second.busy, registration.index);
  auto handle = std::make_shared<HandleState>();
  handle->hashid = hashid(registration.identity.digest);
  handle->kind = registration.identity.kind;
  handle->target_namespace = registration.target_namespace;
  handle->digest = registration.identity.digest;
  handle->index = registration.index;
  handle->name = registration.name;
  handle->handle_id = state->next_handle++;
  handle->owner_id = owner_id_;
  known->second.busy = false;
  ++known->second.entry.handles;
  known->second.handles.emplace(handle->handle_id, handle);
  return handle;
}

void Registry::abort(const Registration& registration, bool undo_confirmed) {
  auto state = state_.lock();
  const auto known = state->records.find(registration.identity.digest);
  SIMPLER_CHECK(known != state->records.end() && known->second.busy, registration.index);
  known->second.busy = false;
  if (!undo_confirmed) state->uncertain.insert(registration.identity.digest);
  if (known->second.entry.handles == 0) {
    // An index that a child may still map to the old code is never given out again.
    if (undo_confirmed) drop_index(*state, known->second);
    state->records.erase(known);
  }
}

Result<Removal> Registry::begin_unregister(const Handle& handle) {
  Status live = check(handle);
  if (!live.is_ok()) return live;
  auto state = state_.lock();
  const auto known = state->records.find(handle->digest);
  if (known == state->records.end() || !known->second.handles.contains(handle->handle_id)) return refuse(handle);
  Record& record = known->second;
  if (record.busy) {
    return failed_precondition("UNREGISTER_TOMBSTONE_ACTIVE: another registration or removal of " + handle->hashid +
                               " is under way");
  }
  handle->live.store(false, std::memory_order_release);
  record.handles.erase(handle->handle_id);
  --record.entry.handles;
  record.busy = true;
  return Removal{handle->digest, handle->kind, handle->target_namespace, record.entry.index, record.entry.handles == 0};
}

void Registry::finish_unregister(const Removal& removal) {
  auto state = state_.lock();
  const auto known = state->records.find(removal.digest);
  SIMPLER_CHECK(known != state->records.end() && known->second.busy, removal.index);
  known->second.busy = false;
  if (!removal.last) return;
  drop_index(*state, known->second);
  state->records.erase(known);
}

void Registry::drop_index(State& state, const Record& record) {
  state.index_used[record.entry.index] = false;
  --(record.entry.identity.kind == CallableKind::kChipCallable ? state.chip_count : state.host_count);
}

Status Registry::refuse(const Handle& handle) const {
  if (handle == nullptr) return wrong_type("a CallableHandle returned by Worker.register is needed, this one is empty");
  if (handle->owner_id != owner_id_)
    return not_found("callable handle " + handle->hashid + " was made by another worker");
  return not_found("callable handle " + handle->hashid + " is stale: it was unregistered");
}

Status Registry::check_unmodified(const HandleState& state, std::string_view hashid, CallableKind kind,
                                  TargetNamespace target_namespace) {
  if (state.hashid == hashid && state.kind == kind && state.target_namespace == target_namespace) return Status::ok();
  return failed_precondition("CALLABLE_HANDLE_MUTATED: the fields of handle " + state.hashid + " were changed");
}

std::vector<Registry::Entry> Registry::snapshot() const {
  auto state = state_.lock();
  std::vector<Entry> entries;
  for (const auto& [digest, record] : state->records) {
    if (record.entry.handles != 0) entries.push_back(record.entry);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.index < b.index; });
  return entries;
}

size_t Registry::size() const {
  auto state = state_.lock();
  return static_cast<size_t>(std::count_if(state->records.begin(), state->records.end(),
                                           [](const auto& entry) { return entry.second.entry.handles != 0; }));
}

}  // namespace simpler::callable
