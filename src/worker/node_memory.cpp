// Buffers of a node: shared host memory and memory of its chips.
#include <fmt/format.h>

#include "base/status_macros.h"
#include "memory/buffer_table.h"
#include "worker/control_records.h"
#include "worker/node_level.h"

namespace simpler::worker {

Status NodeLevel::check_chip(int worker) const {
  if (worker >= 0 && static_cast<std::size_t>(worker) < tree_->chip_count()) {
    return Status::ok();
  }
  return out_of_range(fmt::format("worker={}: this node has {} chip(s), numbered from 0", worker, tree_->chip_count()));
}

Result<BufferState> NodeLevel::publish_buffer(const BufferDescriptor& descriptor, int owner_worker) {
  memory::SharedTables& tables = tree_->memory().tables();
  auto state = std::make_shared<Buffer::State>();
  state->descriptor = descriptor;
  state->owner_worker = owner_worker;
  state->worker_id = registry_.owner_id();
  SIMPLER_ASSIGN_OR_RETURN(state->ref, tree_->driver().with_engine([&](engine::Engine&) {
    return tables.put_buffer(descriptor, static_cast<std::uint32_t>(std::max(owner_worker, 0)));
  }));
  return state;
}

Result<BufferState> NodeLevel::create_buffer(std::uint64_t nbytes) {
  if (tree_->chip_count() + tree_->host_count() == 0) {
    return failed_precondition("create_buffer: this worker has no children to share memory with");
  }
  if (nbytes == 0) {
    return invalid_argument("create_buffer: nbytes=0; a buffer has at least 1 byte");
  }
  memory::SharedTables& tables = tree_->memory().tables();
  const CanonicalIdentity identity =
      tree_->driver().with_engine([&](engine::Engine&) { return tables.mint_identity(); });
  // Beyond this size bytes are backed when they are first touched, after a look at the room that there is.
  constexpr std::uint64_t kSparseFrom = std::uint64_t{1} << 30;
  SIMPLER_ASSIGN_OR_RETURN(
      const std::shared_ptr<memory::HostBacking> backing,
      store_.allocate(identity, nbytes, nbytes >= kSparseFrom ? memory::Commit::kSparse : memory::Commit::kSecured));
  SIMPLER_ASSIGN_OR_RETURN(const BufferDescriptor descriptor,
                           memory::describe(*backing, identity, AccessMode::kReadWrite));
  SIMPLER_ASSIGN_OR_RETURN(BufferState state, publish_buffer(descriptor, -1));
  state->data = backing->data();
  state->keep = backing;
  state->withdraw = [backing] { return backing->withdraw(); };
  buffers_.add(state);
  return state;
}

Status NodeLevel::release_buffer(const BufferState& buffer) {
  if (buffers_.find(buffer->descriptor.identity) == nullptr) {
    return Status::ok();
  }
  if (buffer->owner_worker >= 0) {
    return wrong_type("release_buffer: this is memory of a chip; give it back with free");
  }
  if (is_building_here()) {
    return reentrant("release_buffer: called from inside a graph function; the run being built may name the buffer");
  }
  memory::SharedTables& tables = tree_->memory().tables();
  Status retired = tree_->driver().with_engine([&](engine::Engine&) { return tables.retire_buffer(buffer->ref); });
  if (retired.code() == StatusCode::kNotFound) {
    return Status::ok();  // another thread released it just now
  }
  SIMPLER_RETURN_IF_ERROR(std::move(retired));
  buffer->mark_given_back();
  buffers_.remove(buffer->descriptor.identity);
  Status withdrawn = buffer->withdraw ? buffer->withdraw() : Status::ok();
  tell_released(buffer->descriptor.identity);
  return withdrawn;
}

// Children drop their mapping when they get to it: one inside a long task is not waited for, and one that has not even
// taken an earlier command is told with a later release.
void NodeLevel::tell_released(const CanonicalIdentity& identity) {
  constexpr Nanos kAnswerSoon = 2 * kMillisecond;
  std::vector<Untold> untold;
  {
    MutexLock lock(mutex_);
    untold.swap(untold_);
  }
  for (std::size_t child = 0; child < tree_->host_count() + tree_->chip_count(); ++child) {
    untold.push_back({identity, child});
  }
  const Deadline soon = Deadline::after(kAnswerSoon);
  std::erase_if(untold, [&](const Untold& one) {
    return tree_->leave_command(
        one.child, {.command = wire::ControlCommand::kImportRelease, .args = {}, .payload = bytes_of(one.identity)},
        soon);
  });
  MutexLock lock(mutex_);
  untold_.insert(untold_.end(), untold.begin(), untold.end());
}

Result<BufferState> NodeLevel::device_malloc(int worker, std::uint64_t nbytes) {
  SIMPLER_RETURN_IF_ERROR(check_chip(worker));
  if (nbytes == 0) {
    return invalid_argument("alloc_child_tensor: the shape has no bytes");
  }
  const auto chip = static_cast<std::uint32_t>(worker);
  SIMPLER_ASSIGN_OR_RETURN(
      const lane::ControlAnswer answer,
      tree_->control_chip(chip, {.command = wire::ControlCommand::kMalloc, .args = {nbytes, 0, 0, 0}},
                          control_deadline()));
  BufferDescriptor descriptor;
  descriptor.address_space = AddressSpace::kDevice;
  descriptor.access = AccessMode::kReadWrite;
  descriptor.backend_kind = BackendKind::kDeviceMalloc;
  descriptor.identity =
      tree_->driver().with_engine([&](engine::Engine&) { return tree_->memory().tables().mint_identity(); });
  descriptor.nbytes = nbytes;
  set_body_address(descriptor, answer.result);
  Result<BufferState> state = publish_buffer(descriptor, worker);
  if (!state.ok()) {
    give_back(chip, answer.result);
    return state;
  }
  Status added;
  {
    MutexLock lock(mutex_);
    added = pointers_.add(chip, answer.result, nbytes);
  }
  if (!added.is_ok()) {
    // The chip gave out an address that is live already: the bytes are somebody else's to give back.
    (void)tree_->driver().with_engine(
        [&](engine::Engine&) { return tree_->memory().tables().retire_buffer((*state)->ref); });
    return added;
  }
  buffers_.add(*state);
  return state;
}

void NodeLevel::give_back(std::uint32_t chip, std::uint64_t address) {
  // The failure that led here is the one to report.
  (void)tree_->control_chip(chip, {.command = wire::ControlCommand::kFree, .args = {address, 0, 0, 0}},
                            control_deadline());
}

Status NodeLevel::device_free(const BufferState& buffer) {
  if (buffer->owner_worker < 0) {
    return wrong_type("free: this is host memory; give it back with release_buffer");
  }
  const auto chip = static_cast<std::uint32_t>(buffer->owner_worker);
  const std::uint64_t address = body_address(buffer->descriptor);
  {
    MutexLock lock(mutex_);
    SIMPLER_RETURN_IF_ERROR(pointers_.check_base(chip, address));
  }
  SIMPLER_RETURN_IF_ERROR(tree_->driver().with_engine(
      [&](engine::Engine&) { return tree_->memory().tables().retire_buffer(buffer->ref); }));
  buffer->mark_given_back();
  buffers_.remove(buffer->descriptor.identity);
  {
    MutexLock lock(mutex_);
    SIMPLER_RETURN_IF_ERROR(pointers_.remove(chip, address));
  }
  SIMPLER_ASSIGN_OR_RETURN(
      const lane::ControlAnswer answer,
      tree_->control_chip(chip, {.command = wire::ControlCommand::kFree, .args = {address, 0, 0, 0}},
                          control_deadline()));
  (void)answer;
  return Status::ok();
}

Status NodeLevel::copy(const Buffer& device, const Buffer& host, const CopyRange& range, bool to_device) {
  SIMPLER_RETURN_IF_ERROR(begin_copy(to_device ? "copy_to" : "copy_from"));
  struct End {
    NodeLevel& node;
    ~End() { node.end_copy(); }
  } end{*this};
  if (range.nbytes == 0) {
    return Status::ok();
  }
  const auto chip = static_cast<std::uint32_t>(device.owner_worker_id());
  const std::uint64_t address = body_address(device.descriptor()) + range.device_offset;
  {
    MutexLock lock(mutex_);
    SIMPLER_RETURN_IF_ERROR(pointers_.check_range(chip, address, range.nbytes));
  }
  const lane::ControlCall call{.command = to_device ? wire::ControlCommand::kCopyTo : wire::ControlCommand::kCopyFrom,
                               .args = {address, range.nbytes, range.host_offset, 0},
                               .payload = bytes_of(host.descriptor())};
  // As long as the bytes take; it ends with the chip, and terminate() ends that.
  SIMPLER_ASSIGN_OR_RETURN(const lane::ControlAnswer answer, tree_->control_chip(chip, call, Deadline::never()));
  (void)answer;
  return Status::ok();
}

Result<std::uint64_t> NodeLevel::committed_device_memory(int worker) {
  SIMPLER_RETURN_IF_ERROR(check_chip(worker));
  SIMPLER_ASSIGN_OR_RETURN(
      const lane::ControlAnswer answer,
      tree_->control_chip(static_cast<std::size_t>(worker),
                          {.command = wire::ControlCommand::kCommittedDeviceMemory, .args = {}}, control_deadline()));
  return answer.result;
}

std::vector<Worker::ChildStatistics> NodeLevel::statistics() const {
  return tree_->statistics();
}

std::uint64_t NodeLevel::peak_heap_bytes() const {
  return tree_->driver().with_engine([&](engine::Engine&) { return tree_->memory().heap().peak_bytes(); });
}

}  // namespace simpler::worker
