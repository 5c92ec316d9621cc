#include "simpler/orchestrator.h"

#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/callable_state.h"
#include "worker/orchestrator_state.h"
#include "worker/raise.h"
#include "worker/task_args_access.h"

namespace simpler {
namespace {

constexpr std::string_view kHandleAdvice = "pass the CallableHandle returned by Worker.register";

}  // namespace

Status Orchestrator::State::check_usable(const char* call) const {
  if (open && thread == std::this_thread::get_id()) [[likely]] {
    return Status::ok();
  }
  if (!open) {
    return failed_precondition(
        fmt::format("{}: this orchestrator's graph function has returned; use it only inside the function", call));
  }
  return failed_precondition(
      fmt::format("{}: an orchestrator may only be used on the thread that runs its graph function", call));
}

Status Orchestrator::State::check_callable(const CallableHandle& callable, WorkerType type, const char* call) const {
  if (!callable.valid()) {
    return wrong_type(fmt::format("{}: no callable given; {}", call, kHandleAdvice));
  }
  const callable::HandleState& entry = *callable.state()->entry;
  Status known = node.registry().check(callable.state()->entry);
  if (!known.is_ok()) [[unlikely]] {
    return std::move(known).context(call);
  }
  const TargetNamespace wanted =
      type == WorkerType::kNextLevel ? TargetNamespace::kLocalChip : TargetNamespace::kLocalPython;
  if (entry.target_namespace != wanted) [[unlikely]] {
    return invalid_argument(fmt::format("{}: callable '{}' is for {}; this call reaches {}", call, entry.name,
                                        name_of(entry.target_namespace), name_of(wanted)));
  }
  return Status::ok();
}

Status Orchestrator::State::check_before_submit(const char* call) const {
  SIMPLER_RETURN_IF_ERROR(check_usable(call));
  if (submitted) {
    return failed_precondition(
        fmt::format("{}: this run has submitted tasks already; device commands come before the first submit", call));
  }
  return Status::ok();
}

Status Orchestrator::State::before_copy(const char* call) const {
  SIMPLER_RETURN_IF_ERROR(check_before_submit(call));
  // Everything before this run has ended once it is the head of the queue; as long as that takes.
  return node.tree().driver().wait_head(run, Deadline::never());
}

Result<memory::BufferRef> Orchestrator::State::reference(const BufferDescriptor& descriptor) {
  const std::uint64_t buffer_id = descriptor.identity.buffer_id;
  if (descriptor.identity.owner_instance_id == node.tree().memory().tables().owner_instance_id()) [[likely]] {
    const Memo& memo = memos[buffer_id % kMemos];
    if (memo.buffer_id == buffer_id) [[likely]] {
      return memo.ref;
    }
    if (const auto found = allocations.find(buffer_id); found != allocations.end()) {
      memos[buffer_id % kMemos] = {buffer_id, found->second};
      return found->second;
    }
  }
  SIMPLER_ASSIGN_OR_RETURN(const memory::BufferRef ref, node.reference(descriptor));
  memos[buffer_id % kMemos] = {buffer_id, ref};
  return ref;
}

Result<engine::MemberArgs> Orchestrator::State::member_of(const TaskArgs& args, std::uint32_t target) {
  const std::span<const Tensor> tensors = TaskArgsAccess::tensors(args);
  memory::SharedTables& tables = node.tree().memory().tables();
  std::span<const wire::TensorRef> refs = TaskArgsAccess::resolved(args, tables.table_id());
  for (std::size_t i = refs.size(); i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    SIMPLER_ASSIGN_OR_RETURN(const memory::BufferRef buffer, reference(tensor.buffer));
    const std::uint32_t layout = tables.intern_layout(tensor);
    if (layout == 0) {
      return resource_exhausted(fmt::format(
          "tensor {}: {} different shapes and strides are in use, no more can be described", i, wire::kMaxLayouts));
    }
    TaskArgsAccess::append(args, {.buffer = buffer.index,
                                  .generation = buffer.generation,
                                  .layout = layout,
                                  .flags = wire::kTensorRefPlain,
                                  .byte_offset = tensor.byte_offset});
  }
  refs = TaskArgsAccess::resolved(args, tables.table_id());
  return engine::MemberArgs{
      .tensors = refs, .tags = TaskArgsAccess::tags(args), .scalars = TaskArgsAccess::scalars(args), .worker = target};
}

Status Orchestrator::State::collect_dependencies(const TaskArgs& args) {
  TaskArgsAccess::for_each_dependency(
      args, [&](std::uint64_t producer_run, std::uint32_t slot, std::uint32_t generation, bool retain) {
        dependencies.push_back({{producer_run, slot, generation}, retain});
      });
  return Status::ok();
}

Result<std::uint16_t> Orchestrator::State::config_index(const CallConfig& config) {
  if (last_config_index != 0 && config == last_config) {
    return last_config_index;
  }
  SIMPLER_RETURN_IF_ERROR(validate(config));
  memory::SharedTables& tables = node.tree().memory().tables();
  SIMPLER_ASSIGN_OR_RETURN(const std::uint16_t index,
                           node.tree().driver().with_engine([&](engine::Engine&) -> Result<std::uint16_t> {
                             return tables.acquire_config(config);
                           }));
  configs.push_back(index);
  last_config = config;
  last_config_index = index;
  return index;
}

Result<engine::TaskId> Orchestrator::State::submit(WorkerType type, const CallableHandle& callable,
                                                   std::span<const TaskArgs* const> args, std::span<const int> workers,
                                                   const CallConfig* config, const char* call) {
  SIMPLER_RETURN_IF_ERROR(check_usable(call));
  SIMPLER_RETURN_IF_ERROR(check_callable(callable, type, call));
  engine::TaskRequest request{.callable = callable.state()->entry->index, .type = type};
  if (config != nullptr) {
    SIMPLER_ASSIGN_OR_RETURN(request.config, config_index(*config));
  }
  members.clear();
  dependencies.clear();
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (type == WorkerType::kNextLevel && workers[i] < 0) {
      return invalid_argument(fmt::format("{}: worker={} must be 0 or more", call, workers[i]));
    }
    const std::uint32_t target = type == WorkerType::kNextLevel ? static_cast<std::uint32_t>(workers[i]) : 0;
    if (TaskArgsAccess::on_device(*args[i])) [[unlikely]] {
      SIMPLER_RETURN_IF_ERROR(check_placement(*args[i], type, target, call));
    }
    SIMPLER_ASSIGN_OR_RETURN(const engine::MemberArgs member, member_of(*args[i], target));
    members.push_back(member);
    SIMPLER_RETURN_IF_ERROR(check_target_limits(type, member, call));
    if (callable.state()->tensors != nullptr) {
      SIMPLER_RETURN_IF_ERROR(check_signature(*callable.state(), member, call));
    }
    SIMPLER_RETURN_IF_ERROR(collect_dependencies(*args[i]));
  }
  request.members = members;
  request.dependencies = dependencies;
  Result<engine::TaskId> task = node.tree().driver().submit(run, request);
  if (!task.ok()) [[unlikely]] {
    // A buffer that is gone may have been looked up before it went.
    memos.fill({});
    for (const TaskArgs* one : args) {
      TaskArgsAccess::forget(*one);
    }
    // What ended an earlier task of the run says itself where it comes from.
    Status why = std::move(task).status();
    return why.worker_path().empty() ? std::move(why).context(call) : std::move(why);
  }
  submitted = true;
  return task;
}

// Memory of a chip is of use on that chip only.
Status Orchestrator::State::check_placement(const TaskArgs& args, WorkerType type, std::uint32_t target,
                                            const char* call) const {
  const std::span<const Tensor> tensors = TaskArgsAccess::tensors(args);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].buffer.address_space != AddressSpace::kDevice) {
      continue;
    }
    SIMPLER_ASSIGN_OR_RETURN(const int owner, node.owner_of(tensors[i].buffer));
    if (type == WorkerType::kSub) {
      return invalid_argument(fmt::format(
          "{}: tensor {} lies in memory of chip {}; a host callable takes host memory, copy_from brings it there", call,
          i, owner));
    }
    if (owner < 0 || static_cast<std::uint32_t>(owner) != target) {
      return invalid_argument(
          fmt::format("{}: tensor {} lies in memory of chip {} and the task is for worker {}", call, i, owner, target));
    }
  }
  return Status::ok();
}

Status Orchestrator::State::check_target_limits(WorkerType type, const engine::MemberArgs& member,
                                                const char* call) const {
  if (type != WorkerType::kNextLevel) {
    return Status::ok();
  }
  if (member.tensors.size() > kMaxChipSignature) {
    return invalid_argument(
        fmt::format("{}: {} tensors; a chip takes {}", call, member.tensors.size(), kMaxChipSignature));
  }
  if (member.scalars.size() > kMaxChipScalars) {
    return invalid_argument(
        fmt::format("{}: {} scalars; a chip takes {}", call, member.scalars.size(), kMaxChipScalars));
  }
  return Status::ok();
}

// More tensors than the signature names are allowed: they order the task and the chip passes them on.
Status Orchestrator::State::check_signature(const CallableHandle::State& callable, const engine::MemberArgs& member,
                                            const char* call) const {
  const std::vector<ArgDirection>& expected = callable.tensors->of;
  if (member.tensors.size() < expected.size()) {
    return invalid_argument(fmt::format("{}: '{}' has {} tensors in its signature, the task has {}", call,
                                        callable.entry->name, expected.size(), member.tensors.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (member.tags[i] != TensorArgType::kInput || expected[i] == ArgDirection::kIn) {
      continue;
    }
    if (!callable.tensors->told.exchange(true, std::memory_order_relaxed)) {
      node.tree().logger().log(
          LogLevel::kWarn, call,
          fmt::format("tensor {} of '{}' is {} in its signature and tagged INPUT: later readers do not wait for what "
                      "the chip writes there",
                      i, callable.entry->name, expected[i] == ArgDirection::kOut ? "OUT" : "INOUT"));
    }
    break;
  }
  return Status::ok();
}

TaskHandle Orchestrator::submit_next_level(const CallableHandle& callable, const TaskArgs& args, int worker) {
  const TaskArgs* one = &args;
  const engine::TaskId task = worker::unwrap(
      state_->submit(WorkerType::kNextLevel, callable, {&one, 1}, {&worker, 1}, nullptr, "submit_next_level"));
  return {task.run, task.slot, task.generation};
}

TaskHandle Orchestrator::submit_next_level(const CallableHandle& callable, const TaskArgs& args, int worker,
                                           const CallConfig& config) {
  const TaskArgs* one = &args;
  const engine::TaskId task = worker::unwrap(
      state_->submit(WorkerType::kNextLevel, callable, {&one, 1}, {&worker, 1}, &config, "submit_next_level"));
  return {task.run, task.slot, task.generation};
}

TaskHandle Orchestrator::submit_next_level_group(const CallableHandle& callable, std::span<const TaskArgs> args,
                                                 std::span<const int> workers, const CallConfig& config) {
  if (args.empty() || args.size() != workers.size()) {
    worker::raise(invalid_argument(fmt::format(
        "submit_next_level_group: {} argument lists for {} workers; one each is needed", args.size(), workers.size())));
  }
  std::vector<const TaskArgs*> all;
  for (const TaskArgs& one : args) {
    all.push_back(&one);
  }
  const engine::TaskId task = worker::unwrap(
      state_->submit(WorkerType::kNextLevel, callable, all, workers, &config, "submit_next_level_group"));
  return {task.run, task.slot, task.generation};
}

void Orchestrator::submit_sub(const CallableHandle& callable, const TaskArgs& args) {
  const TaskArgs* one = &args;
  worker::unwrap(state_->submit(WorkerType::kSub, callable, {&one, 1}, {}, nullptr, "submit_sub"));
}

void Orchestrator::submit_sub_group(const CallableHandle& callable, std::span<const TaskArgs> args) {
  if (args.empty()) {
    worker::raise(invalid_argument("submit_sub_group: no argument lists; one for each member is needed"));
  }
  std::vector<const TaskArgs*> all;
  for (const TaskArgs& one : args) {
    all.push_back(&one);
  }
  worker::unwrap(state_->submit(WorkerType::kSub, callable, all, {}, nullptr, "submit_sub_group"));
}

Buffer Orchestrator::alloc(std::span<const std::uint32_t> shape, DataType dtype) {
  worker::raise_if_error(state_->check_usable("alloc"));
  const std::uint64_t bytes = worker::unwrap(worker::bytes_of_shape(shape, dtype, "alloc"));
  Result<engine::Allocation> allocated = state_->node.tree().driver().alloc(state_->run, bytes);
  if (allocated.status().code() == StatusCode::kOutOfRange) {
    // To the caller a request that no waiting can serve is one and the same, whatever stands in its way.
    worker::raise(resource_exhausted(std::string(allocated.status().message())).context("alloc"));
  }
  const engine::Allocation allocation = worker::unwrap(std::move(allocated));
  state_->submitted = true;
  const std::uint64_t buffer_id = allocation.descriptor.identity.buffer_id;
  state_->allocations[buffer_id] = allocation.buffer;
  auto state = std::make_shared<Buffer::State>();
  state->descriptor = allocation.descriptor;
  state->data = allocation.data;
  state->keep = state_->node.tree().shared_memory();
  state->worker_id = state_->node.registry().owner_id();
  state->ref = allocation.buffer;
  state->transient = true;
  return Buffer(std::move(state));
}

void Orchestrator::scope_begin() {
  worker::raise_if_error(state_->check_usable("scope_begin"));
  worker::raise_if_error(state_->node.tree().driver().scope_begin(state_->run));
}

void Orchestrator::scope_end() {
  worker::raise_if_error(state_->check_usable("scope_end"));
  worker::raise_if_error(state_->node.tree().driver().scope_end(state_->run));
}

Buffer Orchestrator::alloc_child_tensor(int worker, std::span<const std::uint32_t> shape, DataType dtype) {
  worker::raise_if_error(state_->check_before_submit("alloc_child_tensor"));
  const std::uint64_t bytes = worker::unwrap(worker::bytes_of_shape(shape, dtype, "alloc_child_tensor"));
  return Buffer(worker::unwrap(state_->node.device_malloc(worker, bytes)));
}

void Orchestrator::free(const Buffer& buffer) {
  worker::raise_if_error(state_->check_before_submit("free"));
  worker::raise_if_error(worker::check_owner(buffer, state_->node.registry().owner_id(), "free"));
  worker::raise_if_error(state_->node.device_free(buffer.state()));
}

void Orchestrator::State::copy(const Buffer& device, const Buffer& host, std::uint64_t device_offset,
                               std::uint64_t host_offset, std::optional<std::uint64_t> nbytes, bool to_device) {
  const char* call = to_device ? "copy_to" : "copy_from";
  worker::raise_if_error(check_usable(call));
  worker::raise_if_error(worker::check_own(device, node.registry().owner_id(), call));
  worker::raise_if_error(worker::check_own(host, node.registry().owner_id(), call));
  const worker::CopyRange range =
      worker::unwrap(worker::check_copy(device, host, device_offset, host_offset, nbytes, to_device));
  worker::raise_if_error(node.copy(device, host, range, to_device));
}

void Orchestrator::copy_to(const Buffer& device, const Buffer& host, std::uint64_t device_offset,
                           std::uint64_t host_offset, std::optional<std::uint64_t> nbytes) {
  state_->copy(device, host, device_offset, host_offset, nbytes, true);
}

void Orchestrator::copy_from(const Buffer& host, const Buffer& device, std::uint64_t host_offset,
                             std::uint64_t device_offset, std::optional<std::uint64_t> nbytes) {
  state_->copy(device, host, device_offset, host_offset, nbytes, false);
}

}  // namespace simpler

namespace simpler::worker {

Result<std::uint64_t> bytes_of_shape(std::span<const std::uint32_t> shape, DataType dtype, const char* call) {
  if (shape.empty() || shape.size() > kMaxTensorDims) {
    return invalid_argument(fmt::format("{}: rank {}; tensors have rank 1 to {}", call, shape.size(), kMaxTensorDims));
  }
  if (!is_known(dtype)) {
    return invalid_argument(fmt::format("{}: dtype {} is not a DataType", call, static_cast<int>(dtype)));
  }
  std::uint64_t bytes = element_size(dtype);
  for (const std::uint32_t extent : shape) {
    if (__builtin_mul_overflow(bytes, std::uint64_t{extent}, &bytes)) {
      return invalid_argument(fmt::format("{}: the shape has more bytes than 64 bits can count", call));
    }
  }
  return bytes;
}

}  // namespace simpler::worker
