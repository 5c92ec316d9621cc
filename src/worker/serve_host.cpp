#include "worker/serve_host.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <memory>
#include <typeinfo>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "worker/control_records.h"

namespace simpler::worker {
namespace {

std::string demangle(const std::type_info& type) {
  int failed = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed),
                                                         &std::free);
  return failed == 0 && text ? text.get() : type.name();
}

MappedArg mapped(const memory::MappedTensor& tensor) {
  const wire::Layout& layout = *tensor.layout;
  MappedArg arg;
  arg.data = tensor.data;
  arg.nbytes = layout.extent_bytes;
  arg.writable = can_write(tensor.access);
  arg.dtype = layout.dtype;
  arg.ndims = layout.ndims;
  std::copy_n(layout.shapes.begin(), kMaxTensorDims, arg.shape);
  std::copy_n(layout.strides.begin(), kMaxTensorDims, arg.strides);
  arg.byte_offset = tensor.byte_offset;
  return arg;
}

}  // namespace

HostFunction wrap_native(NativeFunction function) {
  return [function = std::move(function)](const MappedArgs& args) -> Status {
    try {
      function(args);
      return Status::ok();
    } catch (const Error& error) {
      return task_failed(std::string(error.status().message())).with_type_name("simpler::Error");
    } catch (const std::exception& error) {
      return task_failed(error.what()).with_type_name(demangle(typeid(error)));
    } catch (...) {
      const std::type_info* type = abi::__cxa_current_exception_type();
      return task_failed("an exception that is not a std::exception")
          .with_type_name(type != nullptr ? demangle(*type) : "unknown");
    }
  };
}

Status HostHandler::map_arguments(const lane::Task& task) {
  memory::ArgsView view;
  SIMPLER_RETURN_IF_ERROR(reader_.open(task.dispatch, view));
  tensors_.clear();
  for (std::uint32_t i = 0; i < view.tensor_count(); ++i) {
    memory::MappedTensor tensor;
    SIMPLER_RETURN_IF_ERROR(view.tensor(i, tensor));
    if (tensor.device) {
      return invalid_argument(fmt::format("tensor {} lies on a chip; a host callable takes host memory", i));
    }
    tensors_.push_back(mapped(tensor));
  }
  scalars_.assign(view.scalars(), view.scalars() + view.scalar_count());
  return Status::ok();
}

Status HostHandler::run(const lane::Task& task) {
  const HostTable::Entry* entry = table_.find(task.dispatch.callable);
  if (entry == nullptr) [[unlikely]] {
    return not_found(fmt::format("callable {} is not registered in this child", task.dispatch.callable));
  }
  Status status = map_arguments(task);
  if (status.is_ok()) {
    const trace::Span span = trace_.span(task.dispatch.callable, task.dispatch.slot);
    status = user_time_.measure([&] { return entry->function(MappedArgs(tensors_, scalars_)); });
  }
  if (!status.is_ok()) [[unlikely]] {
    return std::move(status).with_callable(entry->name);
  }
  return status;
}

Status HostHandler::register_function(const lane::ControlCall& call) {
  SIMPLER_ASSIGN_OR_RETURN(const RegisterRequest request, read_register_request(call));
  if (!language_.load) {
    return unsupported("this child cannot load callables: it was started by a program without Python");
  }
  SIMPLER_ASSIGN_OR_RETURN(HostFunction function, language_.load(request.kind, request.bytes));
  table_.put(request.index, request.name, std::move(function));
  trace_.put(request.index, request.trace_name);
  return Status::ok();
}

Result<lane::ControlAnswer> HostHandler::control(const lane::ControlCall& call) {
  switch (call.command) {
    case wire::ControlCommand::kPythonRegister:
      SIMPLER_RETURN_IF_ERROR(register_function(call));
      return lane::ControlAnswer{};
    case wire::ControlCommand::kPythonUnregister:
      table_.clear(static_cast<std::uint16_t>(call.args[0]));
      return lane::ControlAnswer{};
    case wire::ControlCommand::kImportRelease: {
      SIMPLER_ASSIGN_OR_RETURN(const CanonicalIdentity identity, read_identity(call));
      reader_.forget(identity);
      SIMPLER_RETURN_IF_ERROR(imports_.release(identity));
      return lane::ControlAnswer{};
    }
    default:
      return Handler::control(call);
  }
}

}  // namespace simpler::worker
