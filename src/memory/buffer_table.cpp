#include "memory/buffer_table.h"

#include "base/status_macros.h"

namespace simpler::memory {
namespace {

Status unknown(const CanonicalIdentity& identity) {
  return not_found("buffer " + to_string(identity) +
                   " is not known here: it was released or belongs to another worker");
}

}  // namespace

Result<BufferDescriptor> describe(const HostBacking& backing, const CanonicalIdentity& identity, AccessMode access) {
  BufferDescriptor descriptor;
  descriptor.address_space = AddressSpace::kHost;
  descriptor.access = access;
  descriptor.backend_kind = BackendKind::kPosixShm;
  descriptor.identity = identity;
  descriptor.nbytes = backing.nbytes();
  SIMPLER_ASSIGN_OR_RETURN(const std::string body, backing.body());
  SIMPLER_RETURN_IF_ERROR(set_body_name(descriptor, body));
  SIMPLER_RETURN_IF_ERROR(validate(descriptor));
  return descriptor;
}

Result<OwnedBuffer> BufferTable::create(HostStore& store, uint64_t nbytes, AccessMode access, Commit commit,
                                        const std::string& file) {
  const CanonicalIdentity identity = tables_.mint_identity();
  SIMPLER_ASSIGN_OR_RETURN(std::shared_ptr<HostBacking> backing, store.allocate(identity, nbytes, commit, file));
  SIMPLER_ASSIGN_OR_RETURN(const BufferDescriptor descriptor, describe(*backing, identity, access));
  return adopt(descriptor, 0, std::move(backing));
}

Result<OwnedBuffer> BufferTable::adopt(const BufferDescriptor& descriptor, uint32_t owner_worker,
                                       std::shared_ptr<HostBacking> backing) {
  SIMPLER_RETURN_IF_ERROR(validate(descriptor));
  const auto known = buffers_.find(descriptor.identity);
  if (known != buffers_.end()) {
    const std::string differing = differing_fields(known->second.descriptor, descriptor);
    if (differing.empty() && known->second.owner_worker == owner_worker) return known->second;
    return invalid_argument("buffer " + to_string(descriptor.identity) +
                            " is known with other fields: " + (differing.empty() ? "owner worker" : differing));
  }
  SIMPLER_ASSIGN_OR_RETURN(const BufferRef ref, tables_.put_buffer(descriptor, owner_worker));
  const OwnedBuffer buffer{descriptor, ref, owner_worker, std::move(backing)};
  buffers_.emplace(descriptor.identity, buffer);
  return buffer;
}

const OwnedBuffer* BufferTable::find(const CanonicalIdentity& identity) const {
  const auto known = buffers_.find(identity);
  return known == buffers_.end() ? nullptr : &known->second;
}

Result<BufferRef> BufferTable::resolve(const BufferDescriptor& descriptor) const {
  const OwnedBuffer* known = find(descriptor.identity);
  if (known == nullptr) return unknown(descriptor.identity);
  const std::string differing = differing_fields(known->descriptor, descriptor);
  if (!differing.empty()) {
    return invalid_argument("buffer " + to_string(descriptor.identity) + " is known with other fields: " + differing);
  }
  return known->ref;
}

Status BufferTable::check_releasable(const CanonicalIdentity& identity) const {
  const OwnedBuffer* known = find(identity);
  if (known == nullptr) return unknown(identity);
  const uint32_t runs = tables_.runs_naming(known->ref.index);
  if (runs == 0) return Status::ok();
  return failed_precondition("buffer " + to_string(identity) + " is named by " + std::to_string(runs) +
                             " unfinished run(s), the newest is run " +
                             std::to_string(tables_.last_run_naming(known->ref.index)) + "; wait for it first");
}

Status BufferTable::release(const CanonicalIdentity& identity) {
  SIMPLER_RETURN_IF_ERROR(check_releasable(identity));
  const auto known = buffers_.find(identity);
  if (known->second.backing != nullptr) SIMPLER_RETURN_IF_ERROR(known->second.backing->withdraw());
  SIMPLER_RETURN_IF_ERROR(tables_.retire_buffer(known->second.ref));
  buffers_.erase(known);
  return Status::ok();
}

Status BufferTable::release_all() {
  Status first;
  std::vector<CanonicalIdentity> identities;
  identities.reserve(buffers_.size());
  for (const auto& [identity, buffer] : buffers_) identities.push_back(identity);
  for (const CanonicalIdentity& identity : identities) {
    Status released = release(identity);
    if (first.is_ok()) first = std::move(released);
  }
  return first;
}

}  // namespace simpler::memory
