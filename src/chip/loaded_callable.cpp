#include "chip/loaded_callable.h"

#include "base/status_macros.h"

namespace simpler::chip {
namespace {

std::string versioned(const BuiltinName& name) {
  return "'" + name.name + "' version " + std::to_string(name.version);
}

}  // namespace

Result<std::unique_ptr<LoadedCallable>> LoadedCallable::load(std::span<const std::byte> bytes,
                                                             const kernel::KernelSource* kernels,
                                                             const orchestration::OrchestrationSource* orchestrations) {
  SIMPLER_ASSIGN_OR_RETURN(const ChipCallable callable, ChipCallable::try_from_bytes(bytes));
  std::unique_ptr<LoadedCallable> out(new LoadedCallable());
  for (uint32_t i = 0; i < callable.sig_count(); ++i) {
    if (callable.sig(i) == ArgDirection::kScalar) {
      ++out->scalars_expected_;
    } else {
      out->tensor_directions_.push_back(callable.sig(i));
    }
  }
  SIMPLER_RETURN_IF_ERROR(out->load_orchestration(callable, orchestrations));
  for (uint32_t i = 0; i < callable.child_count(); ++i) {
    SIMPLER_RETURN_IF_ERROR(out->load_kernel(callable.child(i), callable.child_func_id(i), kernels));
  }
  return out;
}

Status LoadedCallable::load_orchestration(const ChipCallable& callable,
                                          const orchestration::OrchestrationSource* source) {
  if (callable.kind() == CodeKind::kBuiltin) {
    const BuiltinName name = callable.builtin_name();
    const auto* builtin = source == nullptr ? nullptr : source->find(name.name.data(), name.name.size(), name.version);
    if (builtin == nullptr) return not_found("no built-in orchestration " + versioned(name) + " in this installation");
    name_ = name.name;
    entry_ = builtin->entry;
    config_ = builtin->config;
    bind_ = builtin->bind;
    return Status::ok();
  }
  name_ = callable.func_name();
  const std::string who = "orchestration '" + name_ + "'";
  SIMPLER_ASSIGN_OR_RETURN(SharedObject object, SharedObject::load(callable.binary(), who));
  entry_ = reinterpret_cast<Entry>(object.symbol(name_.c_str()));
  if (entry_ == nullptr) {
    return not_found(who + ": its shared object does not export that function; declare it SIMPLER_ORCHESTRATION");
  }
  bind_ = reinterpret_cast<Bind>(object.symbol("framework_bind_runtime"));
  if (bind_ == nullptr) {
    return not_found(who +
                     ": its shared object does not export framework_bind_runtime; include simpler/orchestration.h");
  }
  if (!callable.config_name().empty()) {
    const std::string config(callable.config_name());
    config_ = reinterpret_cast<Config>(object.symbol(config.c_str()));
    if (config_ == nullptr) return not_found(who + ": its shared object does not export '" + config + "'");
  }
  objects_.push_back(std::move(object));
  return Status::ok();
}

Status LoadedCallable::load_kernel(const CoreCallable& kernel, uint32_t func_id, const kernel::KernelSource* source) {
  if (kernels_.size() <= func_id) kernels_.resize(func_id + 1);
  KernelRef& ref = kernels_[func_id];
  if (kernel.kind() == CodeKind::kBuiltin) {
    const BuiltinName name = kernel.builtin_name();
    const auto* builtin = source == nullptr ? nullptr : source->find(name.name.data(), name.name.size(), name.version);
    if (builtin == nullptr || builtin->entry == nullptr) {
      return not_found("kernel func_id " + std::to_string(func_id) + ": no built-in kernel " + versioned(name) +
                       " in this installation");
    }
    ref = KernelRef{builtin->entry, builtin->core_type, name.name};
    return Status::ok();
  }
  const std::string who = "kernel func_id " + std::to_string(func_id);
  SIMPLER_ASSIGN_OR_RETURN(SharedObject object, SharedObject::load(kernel.binary(), who));
  ref.entry = reinterpret_cast<kernel::KernelEntry>(object.symbol("kernel_entry"));
  if (ref.entry == nullptr) {
    return not_found(who + ": its shared object does not export kernel_entry; declare it SIMPLER_KERNEL");
  }
  ref.name = object.own_name();
  if (ref.name.empty()) ref.name = "func_id " + std::to_string(func_id);
  objects_.push_back(std::move(object));
  return Status::ok();
}

void LoadedCallable::abandon() {
  for (SharedObject& object : objects_) object.abandon();
}

}  // namespace simpler::chip
