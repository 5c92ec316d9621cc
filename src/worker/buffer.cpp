#include "simpler/buffer.h"

#include <iterator>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/buffer_state.h"
#include "worker/raise.h"

namespace simpler {
namespace {

const Buffer::State& require(const std::shared_ptr<Buffer::State>& state) {
  if (state == nullptr) {
    worker::raise(failed_precondition("this Buffer names no memory; make one with create_buffer"));
  }
  return *state;
}

}  // namespace

const BufferDescriptor& Buffer::descriptor() const {
  return require(state_).descriptor;
}
std::uint64_t Buffer::nbytes() const {
  return require(state_).descriptor.nbytes;
}
std::byte* Buffer::data() const {
  return require(state_).data;
}
int Buffer::owner_worker_id() const {
  return require(state_).owner_worker;
}
bool Buffer::closed() const {
  return require(state_).closed.load(std::memory_order_acquire);
}

Tensor Buffer::tensor(std::span<const std::uint32_t> shape, DataType dtype, std::span<const std::uint32_t> strides,
                      std::uint64_t byte_offset) const {
  const State& state = require(state_);
  if (closed()) {
    worker::raise(failed_precondition("tensor: " + worker::why_closed(*this)));
  }
  return worker::unwrap(make_tensor(state.descriptor, shape, dtype, strides, byte_offset));
}

void Buffer::close() {
  if (state_ != nullptr) {
    state_->closed.store(true, std::memory_order_release);
  }
}

}  // namespace simpler

namespace simpler::worker {

void BufferList::add(const BufferState& state) {
  MutexLock lock(mutex_);
  by_identity_[state->descriptor.identity] = state;
  if (state->data != nullptr) {
    by_address_[state->data] = state;
  }
}

BufferState BufferList::find(const CanonicalIdentity& identity) const {
  MutexLock lock(mutex_);
  const auto found = by_identity_.find(identity);
  return found == by_identity_.end() ? nullptr : found->second;
}

BufferState BufferList::find_address(const std::byte* address, std::uint64_t bytes) const {
  MutexLock lock(mutex_);
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) {
    return nullptr;
  }
  const BufferState& state = std::prev(after)->second;
  const auto offset = static_cast<std::uint64_t>(address - state->data);
  const bool inside = offset <= state->descriptor.nbytes && bytes <= state->descriptor.nbytes - offset;
  return inside ? state : nullptr;
}

void BufferList::remove(const CanonicalIdentity& identity) {
  MutexLock lock(mutex_);
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) {
    return;
  }
  if (found->second->data != nullptr) {
    by_address_.erase(found->second->data);
  }
  by_identity_.erase(found);
}

std::vector<BufferState> BufferList::all() const {
  MutexLock lock(mutex_);
  std::vector<BufferState> states;
  for (const auto& [identity, state] : by_identity_) {
    states.push_back(state);
  }
  return states;
}

std::string why_closed(const Buffer& buffer) {
  const Buffer::State& state = *buffer.state();
  const char* why = "is closed";
  if (state.released.load(std::memory_order_acquire)) {
    why = state.given_back.load(std::memory_order_acquire) ? "was released" : "went with its worker, which is closed";
  }
  return fmt::format("buffer {} {}", to_string(state.descriptor.identity), why);
}

Status check_owner(const Buffer& buffer, std::uint64_t worker_id, const char* call) {
  if (!buffer.valid()) {
    return invalid_argument(fmt::format("{}: the Buffer names no memory", call));
  }
  if (buffer.state()->worker_id != worker_id) {
    return invalid_argument(
        fmt::format("{}: buffer {} belongs to another worker", call, to_string(buffer.descriptor().identity)));
  }
  if (buffer.state()->released.load(std::memory_order_acquire)) {
    return failed_precondition(
        fmt::format("{}: buffer {} was released already", call, to_string(buffer.descriptor().identity)));
  }
  return Status::ok();
}

Status check_own(const Buffer& buffer, std::uint64_t worker_id, const char* call) {
  SIMPLER_RETURN_IF_ERROR(check_owner(buffer, worker_id, call));
  if (buffer.closed()) {
    return failed_precondition(fmt::format("{}: {}", call, why_closed(buffer)));
  }
  return Status::ok();
}

Result<CopyRange> check_copy(const Buffer& device, const Buffer& host, std::uint64_t device_offset,
                             std::uint64_t host_offset, std::optional<std::uint64_t> nbytes, bool to_device) {
  const char* call = to_device ? "copy_to" : "copy_from";
  if (device.owner_worker_id() < 0) {
    return invalid_argument(
        fmt::format("{}: the device side {} is host memory", call, to_string(device.descriptor().identity)));
  }
  if (host.data() == nullptr) {
    return invalid_argument(
        fmt::format("{}: the host side {} is memory of a chip", call, to_string(host.descriptor().identity)));
  }
  const AccessMode access = host.descriptor().access;
  if (to_device ? !can_read(access) : !can_write(access)) {
    return invalid_argument(fmt::format("{}: the host side {} grants {} access only", call,
                                        to_string(host.descriptor().identity), name_of(access)));
  }
  if (host_offset > host.nbytes()) {
    return invalid_argument(
        fmt::format("{}: host offset {} is past the buffer's {} bytes", call, host_offset, host.nbytes()));
  }
  const std::uint64_t bytes = nbytes.value_or(host.nbytes() - host_offset);
  if (bytes > host.nbytes() - host_offset) {
    return invalid_argument(fmt::format("{}: {} bytes at host offset {} leave the buffer's {} bytes", call, bytes,
                                        host_offset, host.nbytes()));
  }
  if (device_offset > device.nbytes() || bytes > device.nbytes() - device_offset) {
    return invalid_argument(fmt::format("{}: {} bytes at device offset {} leave the allocation's {} bytes", call, bytes,
                                        device_offset, device.nbytes()));
  }
  return CopyRange{device_offset, host_offset, bytes};
}

}  // namespace simpler::worker
