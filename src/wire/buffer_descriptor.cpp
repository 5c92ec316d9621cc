#include "simpler/buffer_descriptor.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace simpler {
namespace {

Status bad(std::string text) {
  return invalid_argument("buffer descriptor: " + std::move(text));
}

std::string number(uint64_t value) {
  return std::to_string(value);
}

bool is_name_character(char c) {
  return c >= 0x21 && c <= 0x7E && c != '/';
}

Status validate_body(const BufferDescriptor& d) {
  if (d.body_len > kDescriptorBodyBytes) {
    return bad("body_len is " + number(d.body_len) + ", at most " + number(kDescriptorBodyBytes) + " bytes fit");
  }
  const auto unused = std::find_if(d.body.begin() + d.body_len, d.body.end(), [](char c) { return c != 0; });
  if (unused != d.body.end()) return bad("bytes after the body's end must be zero");
  if (bears_address(d.backend_kind)) {
    if (d.body_len != 8) {
      return bad(std::string(name_of(d.backend_kind)) + " needs an address of 8 bytes, body_len is " +
                 number(d.body_len));
    }
    return body_address(d) != 0 ? Status::ok() : bad(std::string(name_of(d.backend_kind)) + " with a null address");
  }
  if (d.backend_kind == BackendKind::kRemoteSidecar) {
    return d.body_len == 0 ? Status::ok() : bad("REMOTE_SIDECAR has no body, body_len is " + number(d.body_len));
  }
  if (d.body_len == 0) return bad("POSIX_SHM needs a name of 1 to 32 characters");
  if (!std::all_of(d.body.begin(), d.body.begin() + d.body_len, is_name_character)) {
    return bad("a POSIX_SHM name has printable characters without '/' only");
  }
  return Status::ok();
}

}  // namespace

uint64_t body_address(const BufferDescriptor& descriptor) {
  if (!bears_address(descriptor.backend_kind)) return 0;
  uint64_t address = 0;
  std::memcpy(&address, descriptor.body.data(), sizeof address);
  return address;
}

std::string_view body_name(const BufferDescriptor& descriptor) {
  if (bears_address(descriptor.backend_kind)) return {};
  return {descriptor.body.data(), std::min<size_t>(descriptor.body_len, kDescriptorBodyBytes)};
}

void set_body_address(BufferDescriptor& descriptor, uint64_t address) {
  descriptor.body.fill(0);
  std::memcpy(descriptor.body.data(), &address, sizeof address);
  descriptor.body_len = sizeof address;
}

Status set_body_name(BufferDescriptor& descriptor, std::string_view name) {
  if (name.empty() || name.size() > kDescriptorBodyBytes || !std::all_of(name.begin(), name.end(), is_name_character)) {
    return bad("'" + std::string(name) + "' is no name of 1 to 32 printable characters without '/'");
  }
  descriptor.body.fill(0);
  std::copy(name.begin(), name.end(), descriptor.body.begin());
  descriptor.body_len = static_cast<uint16_t>(name.size());
  return Status::ok();
}

Status validate(const BufferDescriptor& d) {
  if (d.magic != kBufferDescriptorMagic) return bad("magic is " + number(d.magic) + ", not 21314 (0x5342)");
  if (!is_known(d.address_space)) return bad("address space " + number(static_cast<uint8_t>(d.address_space)));
  if (!is_known(d.access)) return bad("access mode " + number(static_cast<uint8_t>(d.access)));
  if (!is_known(d.backend_kind)) return bad("backend kind " + number(static_cast<uint8_t>(d.backend_kind)));
  if (d.identity.generation == 0) return bad("generation 0 marks an identity that was never set");
  const bool device_backend = d.backend_kind == BackendKind::kVmmWindow || d.backend_kind == BackendKind::kDeviceMalloc;
  if (d.backend_kind != BackendKind::kRemoteSidecar && device_backend != (d.address_space == AddressSpace::kDevice)) {
    return bad(std::string(name_of(d.backend_kind)) + " cannot lie in address space " +
               std::string(name_of(d.address_space)));
  }
  if (d.backend_kind == BackendKind::kForkCow && d.access != AccessMode::kRead) {
    return bad("FORK_COW grants READ only, access is " + std::string(name_of(d.access)));
  }
  return validate_body(d);
}

std::string differing_fields(const BufferDescriptor& a, const BufferDescriptor& b) {
  std::string names;
  const auto note = [&names](bool same, std::string_view name) {
    if (same) return;
    if (!names.empty()) names += ", ";
    names += name;
  };
  note(a.magic == b.magic, "magic");
  note(a.address_space == b.address_space, "address_space");
  note(a.access == b.access, "access");
  note(a.backend_kind == b.backend_kind, "backend_kind");
  note(a.identity == b.identity, "identity");
  note(a.nbytes == b.nbytes, "nbytes");
  note(a.owner_worker_path_id == b.owner_worker_path_id, "owner_worker_path_id");
  note(a.body_len == b.body_len && a.body == b.body, "body");
  return names;
}

}  // namespace simpler
