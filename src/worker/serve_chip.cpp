#include "worker/serve_chip.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/control_records.h"

namespace simpler::worker {

Result<ChipTensor> chip_tensor(const memory::MappedTensor& tensor, const BufferDescriptor& descriptor) {
  const wire::Layout& layout = *tensor.layout;
  const std::uint32_t size = element_size(layout.dtype);
  ChipTensor out;
  out.addr = reinterpret_cast<std::uint64_t>(tensor.data) - tensor.byte_offset;
  out.size = descriptor.nbytes;
  out.start_offset = tensor.byte_offset / size;
  std::copy_n(layout.shapes.begin(), kMaxTensorDims, out.shapes.begin());
  std::copy_n(layout.strides.begin(), kMaxTensorDims, out.strides.begin());
  out.ndims = layout.ndims;
  out.dtype = layout.dtype;
  out.address_space = descriptor.address_space;
  return out;
}

Status ChipHandler::read_arguments(const lane::Task& task) {
  memory::ArgsView view;
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "task.chip.decode"));
  SIMPLER_RETURN_IF_ERROR(reader_.open(task.dispatch, view));
  tensors_.clear();
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "task.chip.import"));
  for (std::uint32_t i = 0; i < view.tensor_count(); ++i) {
    memory::MappedTensor tensor;
    SIMPLER_RETURN_IF_ERROR(view.tensor(i, tensor));
    const BufferDescriptor* descriptor = reader_.descriptor(tensor.ref.buffer);
    if (descriptor == nullptr) {
      return corrupt(fmt::format("tensor {}: buffer {} has no descriptor", i, tensor.ref.buffer));
    }
    SIMPLER_ASSIGN_OR_RETURN(const ChipTensor converted, chip_tensor(tensor, *descriptor));
    tensors_.push_back(converted);
  }
  scalars_.assign(view.scalars(), view.scalars() + view.scalar_count());
  return Status::ok();
}

Status ChipHandler::run(const lane::Task& task) {
  SIMPLER_RETURN_IF_ERROR(read_arguments(task));
  const wire::ConfigEntry* config = tables_.config(task.dispatch.config);
  if (config == nullptr) {
    return corrupt(fmt::format("config {} is not in the table", task.dispatch.config));
  }
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "task.chip.run"));
  const trace::Span span = trace_.span(task.dispatch.callable, task.dispatch.slot);
  Status status = chip_.run(task.dispatch.callable, {tensors_, scalars_}, config->config);
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "task.chip.ran"));
  user_time_.set(chip_.statistics().kernel_cpu_ns);
  if (status.is_ok()) [[likely]] {
    return status;
  }
  const wire::CallableEntry* callable = tables_.callable(task.dispatch.callable);
  return std::move(status).with_callable(callable != nullptr ? callable->name.data() : "?");
}

Status ChipHandler::copy(const lane::ControlCall& call) {
  SIMPLER_ASSIGN_OR_RETURN(const BufferDescriptor host, read_descriptor(call));
  SIMPLER_ASSIGN_OR_RETURN(const memory::Import import, imports_.materialize(host));
  const std::uint64_t device = call.args[0];
  const std::uint64_t bytes = call.args[1];
  const std::uint64_t offset = call.args[2];
  if (import.device || offset > import.nbytes || bytes > import.nbytes - offset) {
    return invalid_argument(
        fmt::format("copy of {} bytes at offset {}: the host buffer has {} bytes", bytes, offset, import.nbytes));
  }
  if (call.command == wire::ControlCommand::kCopyTo) {
    return chip_.copy_to(device, import.base + offset, bytes);
  }
  return chip_.copy_from(import.base + offset, device, bytes);
}

Result<lane::ControlAnswer> ChipHandler::control(const lane::ControlCall& call) {
  lane::ControlAnswer answer;
  switch (call.command) {
    case wire::ControlCommand::kMalloc: {
      SIMPLER_ASSIGN_OR_RETURN(answer.result, chip_.malloc(call.args[0]));
      return answer;
    }
    case wire::ControlCommand::kFree:
      SIMPLER_RETURN_IF_ERROR(chip_.free(call.args[0]));
      return answer;
    case wire::ControlCommand::kCopyTo:
    case wire::ControlCommand::kCopyFrom:
      SIMPLER_RETURN_IF_ERROR(copy(call));
      return answer;
    case wire::ControlCommand::kRegister: {
      SIMPLER_ASSIGN_OR_RETURN(const RegisterRequest request, read_register_request(call));
      SIMPLER_RETURN_IF_ERROR(chip_.register_callable(request.index, request.bytes));
      trace_.put(request.index, request.trace_name);
      return answer;
    }
    case wire::ControlCommand::kUnregister:
      SIMPLER_RETURN_IF_ERROR(chip_.unregister(static_cast<std::uint32_t>(call.args[0])));
      return answer;
    case wire::ControlCommand::kImportRelease: {
      SIMPLER_ASSIGN_OR_RETURN(const CanonicalIdentity identity, read_identity(call));
      reader_.forget(identity);
      SIMPLER_RETURN_IF_ERROR(imports_.release(identity));
      return answer;
    }
    case wire::ControlCommand::kCommittedDeviceMemory:
      answer.result = chip_.committed_memory();
      return answer;
    default:
      return Handler::control(call);
  }
}

}  // namespace simpler::worker
