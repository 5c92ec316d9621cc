#include "worker/control_records.h"

#include <algorithm>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "memory/backing_name.h"

namespace simpler::worker {
namespace {

constexpr std::uint64_t kMaxCallableBytes = std::uint64_t{4} << 30;

template <class T>
Result<T> read_record(const lane::ControlCall& call, const char* what) {
  if (call.payload.size() != sizeof(T)) {
    return corrupt(fmt::format("control command {}: {} of {} bytes expected, got {}", static_cast<int>(call.command),
                               what, sizeof(T), call.payload.size()));
  }
  T record;
  std::memcpy(&record, call.payload.data(), sizeof record);
  return record;
}

}  // namespace

Result<StagedBytes> StagedBytes::create(std::span<const std::byte> bytes) {
  StagedBytes staged;
  staged.size_ = bytes.size();
  const std::uint64_t room = std::max<std::uint64_t>(bytes.size(), 1);
  SIMPLER_ASSIGN_OR_RETURN(staged.mapping_, memory::SharedMapping::create({.name = "simpler-callable", .bytes = room}));
  SIMPLER_RETURN_IF_ERROR(staged.mapping_.secure(0, room));
  std::copy(bytes.begin(), bytes.end(), staged.mapping_.data());
  return staged;
}

std::vector<std::byte> StagedBytes::payload(std::string_view name) const {
  const std::string place = fmt::format("{}.{}.{}", ::getpid(), mapping_.fd(), mapping_.inode());
  std::vector<std::byte> out;
  const auto append = [&](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    out.insert(out.end(), bytes.begin(), bytes.end());
  };
  append(place);
  out.push_back(std::byte{0});
  append(name.substr(0, 256));
  return out;
}

Result<RegisterRequest> read_register_request(const lane::ControlCall& call) {
  const std::string_view text(reinterpret_cast<const char*>(call.payload.data()), call.payload.size());
  const std::size_t end = text.find('\0');
  if (end == std::string_view::npos || call.args[0] == 0 || call.args[0] > UINT16_MAX ||
      call.args[2] > kMaxCallableBytes) {
    return corrupt("register command: malformed request");
  }
  RegisterRequest request;
  request.index = static_cast<std::uint16_t>(call.args[0]);
  request.kind = static_cast<CallableKind>(call.args[1]);
  request.trace_name = {static_cast<std::uint32_t>(call.args[3])};
  request.name = text.substr(end + 1);
  if (!is_known(request.kind)) {
    return corrupt(fmt::format("register command: kind {} is unknown", call.args[1]));
  }
  int pid = 0;
  int fd = -1;
  unsigned long long inode = 0;
  if (std::sscanf(std::string(text.substr(0, end)).c_str(), "%d.%d.%llu", &pid, &fd, &inode) != 3) {
    return corrupt("register command: malformed name of the staged bytes");
  }
  const std::uint64_t size = call.args[2];
  SIMPLER_ASSIGN_OR_RETURN(
      const memory::SharedMapping mapping,
      memory::SharedMapping::open_remote(pid, fd, inode, std::max<std::uint64_t>(size, 1), AccessMode::kRead));
  request.bytes.assign(mapping.data(), mapping.data() + size);
  return request;
}

Result<CanonicalIdentity> read_identity(const lane::ControlCall& call) {
  return read_record<CanonicalIdentity>(call, "an identity");
}

Result<BufferDescriptor> read_descriptor(const lane::ControlCall& call) {
  SIMPLER_ASSIGN_OR_RETURN(const BufferDescriptor descriptor, read_record<BufferDescriptor>(call, "a descriptor"));
  SIMPLER_RETURN_IF_ERROR(validate(descriptor));
  return descriptor;
}

}  // namespace simpler::worker
