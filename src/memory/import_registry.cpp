#include "memory/import_registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status_macros.h"

namespace simpler::memory {
namespace {

Status gone(const CanonicalIdentity& identity, std::string_view why) {
  return not_found("buffer " + to_string(identity) + " is gone: " + std::string(why));
}

// Whether every page of the range is mapped in this process.
bool is_mapped(uint64_t address, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t from = address / page * page;
  if (bytes == 0) bytes = 1;
  if (bytes > UINT64_MAX - address) return false;
  return msync(reinterpret_cast<void*>(from), address + bytes - from, MS_ASYNC) == 0;
}

// Checks the header before the data of a buffer that shares its object.
Status check_header(const SharedMapping& object, const BackingName& name, const CanonicalIdentity* identity,
                    uint64_t nbytes) {
  if (name.offset < kSmallHeaderBytes || name.offset % 8 != 0 || name.offset > object.size() ||
      nbytes > object.size() - name.offset) {
    return invalid_argument("the shared object has " + std::to_string(object.size()) + " bytes, " +
                            std::to_string(nbytes) + " at " + std::to_string(name.offset) + " were announced");
  }
  const auto* header = reinterpret_cast<const SmallHeader*>(object.data() + name.offset - kSmallHeaderBytes);
  const uint32_t live = std::atomic_ref(const_cast<uint32_t&>(header->live)).load(std::memory_order_acquire);
  if (live != 1 || header->magic != kSmallHeaderMagic) return not_found("its owner released it");
  if (identity != nullptr && !(header->identity == *identity))
    return not_found("its place belongs to another buffer now");
  if (nbytes > header->nbytes) {
    return invalid_argument("the buffer has " + std::to_string(header->nbytes) + " bytes, " + std::to_string(nbytes) +
                            " were announced");
  }
  return Status::ok();
}

}  // namespace

Result<Import> ImportRegistry::materialize(const BufferDescriptor& descriptor) {
  const auto known = imports_.find(descriptor.identity);
  if (known != imports_.end()) {
    const std::string differing = differing_fields(known->second.descriptor, descriptor);
    if (differing.empty()) return known->second.import;
    return invalid_argument("buffer " + to_string(descriptor.identity) +
                            " is already mapped with other fields: " + differing);
  }
  SIMPLER_RETURN_IF_ERROR(validate(descriptor));
  SIMPLER_ASSIGN_OR_RETURN(Import import, open(descriptor));
  import.nbytes = descriptor.nbytes;
  import.access = descriptor.access;
  imports_.emplace(descriptor.identity, Known{descriptor, import});
  return import;
}

Result<Import> ImportRegistry::inherited(const BufferDescriptor& descriptor) {
  SIMPLER_RETURN_IF_ERROR(validate(descriptor));
  SIMPLER_ASSIGN_OR_RETURN(Import import, open_address(descriptor));
  import.nbytes = descriptor.nbytes;
  import.access = descriptor.access;
  return import;
}

Result<Import> ImportRegistry::open(const BufferDescriptor& descriptor) {
  const std::string what = "buffer " + to_string(descriptor.identity);
  switch (descriptor.backend_kind) {
    case BackendKind::kForkShm:
    case BackendKind::kForkCow:
      return open_address(descriptor);
    case BackendKind::kPosixShm:
      return open_shared(descriptor);
    case BackendKind::kDeviceMalloc:
    case BackendKind::kVmmWindow: {
      if (options_.endpoint != Endpoint::kChip) {
        return unsupported(what +
                           " is memory of a chip, a host process cannot touch it; copy it to a host buffer first");
      }
      if (descriptor.identity.owner_instance_id != options_.device_owner) {
        return unsupported(what + " is device memory of another worker");
      }
      Import import;
      import.base = reinterpret_cast<std::byte*>(body_address(descriptor));
      import.device = true;
      return import;
    }
    case BackendKind::kRemoteSidecar:
      break;
  }
  return unsupported(what + " lies on a remote host and has no local memory");
}

Result<Import> ImportRegistry::open_address(const BufferDescriptor& descriptor) {
  const uint64_t address = body_address(descriptor);
  if (!is_trusted(address, descriptor.nbytes) && !is_mapped(address, descriptor.nbytes)) {
    return gone(descriptor.identity,
                "its memory is not inherited by this process (it must exist before the worker starts)");
  }
  Import import;
  import.base = reinterpret_cast<std::byte*>(address);
  return import;
}

Result<Import> ImportRegistry::open_shared(const BufferDescriptor& descriptor) {
  SIMPLER_ASSIGN_OR_RETURN(const BackingName name, parse_backing_name(body_name(descriptor)));
  Result<ImportedMapping> object = object_of(descriptor, name, name.offset + descriptor.nbytes);
  Status good = object.ok() && name.offset != 0 ? check_header(**object, name, &descriptor.identity, descriptor.nbytes)
                                                : object.status();
  if (good.code() == StatusCode::kNotFound) return gone(descriptor.identity, good.message());
  if (!good.is_ok()) return std::move(good).context("buffer " + to_string(descriptor.identity));
  Import import;
  import.mapping = *object;
  import.base = import.mapping->data() + name.offset;
  return import;
}

Result<ImportedMapping> ImportRegistry::object_of(const BufferDescriptor& descriptor, const BackingName& name,
                                                  uint64_t min_bytes) {
  std::weak_ptr<SharedMapping>& kept = objects_[{name.inode, can_write(descriptor.access)}];
  // An object that belongs to one buffer is looked at afresh each time: its owner may have gone since.
  if (name.offset != 0) {
    if (ImportedMapping alive = kept.lock()) return alive;
  }
  Result<SharedMapping> opened =
      SharedMapping::open_remote(name.pid, name.fd, name.inode, min_bytes, descriptor.access);
  if (!opened.ok() && source_ != nullptr) {
    UniqueFd passed = source_->fetch(name);
    if (passed) opened = SharedMapping::map_descriptor(std::move(passed), name.inode, min_bytes, descriptor.access);
  }
  SIMPLER_RETURN_IF_ERROR(opened.status());
  opened->forget_descriptor();
  auto mapping = std::make_shared<SharedMapping>(std::move(*opened));
  kept = mapping;
  return mapping;
}

bool ImportRegistry::is_trusted(uint64_t address, uint64_t bytes) const {
  return std::any_of(trusted_.begin(), trusted_.end(), [&](const Range& range) {
    return address >= range.base && address - range.base <= range.bytes &&
           bytes <= range.bytes - (address - range.base);
  });
}

Status ImportRegistry::release(const CanonicalIdentity& identity, bool refuse_in_use) {
  const auto known = imports_.find(identity);
  if (known == imports_.end()) return not_found("buffer " + to_string(identity) + " is not mapped here");
  // Our own reference, and with shared objects one for every other buffer in it: views are what is left over.
  const ImportedMapping& mapping = known->second.import.mapping;
  if (refuse_in_use && mapping != nullptr) {
    const auto ours = std::count_if(imports_.begin(), imports_.end(),
                                    [&](const auto& entry) { return entry.second.import.mapping == mapping; });
    if (mapping.use_count() > ours) {
      return failed_precondition("buffer " + to_string(identity) + " is still viewed in this process");
    }
  }
  imports_.erase(known);
  std::erase_if(objects_, [](const auto& object) { return object.second.expired(); });
  return Status::ok();
}

void ImportRegistry::close() {
  imports_.clear();
  objects_.clear();
}

size_t ImportRegistry::mapped_objects() const {
  return static_cast<size_t>(
      std::count_if(objects_.begin(), objects_.end(), [](const auto& object) { return !object.second.expired(); }));
}

Result<Import> attach(std::string_view text, AccessMode access) {
  SIMPLER_ASSIGN_OR_RETURN(const BackingName name, parse_backing_name(text));
  SIMPLER_ASSIGN_OR_RETURN(SharedMapping opened,
                           SharedMapping::open_remote(name.pid, name.fd, name.inode, name.offset + 1, access));
  opened.forget_descriptor();
  Import import;
  import.access = access;
  import.nbytes = opened.size();
  if (name.offset != 0) {
    SIMPLER_RETURN_IF_ERROR(check_header(opened, name, nullptr, 1));
    const auto* header = reinterpret_cast<const SmallHeader*>(opened.data() + name.offset - kSmallHeaderBytes);
    import.nbytes = header->nbytes;
    SIMPLER_RETURN_IF_ERROR(check_header(opened, name, nullptr, import.nbytes));
  }
  import.mapping = std::make_shared<SharedMapping>(std::move(opened));
  import.base = import.mapping->data() + name.offset;
  return import;
}

}  // namespace simpler::memory
