#include "simpler/callable.h"

#include <fmt/format.h>

#include "worker/callable_state.h"
#include "worker/raise.h"

namespace simpler {
namespace {

const callable::HandleState& require(const std::shared_ptr<const CallableHandle::State>& state) {
  if (state == nullptr) {
    worker::raise(failed_precondition("this CallableHandle names nothing; use what the worker's register returned"));
  }
  return *state->entry;
}

}  // namespace

const MappedArg& MappedArgs::operator[](std::size_t index) const {
  if (index >= tensors_.size()) {
    worker::raise(out_of_range(fmt::format("tensor {}: the task was given {}", index, tensors_.size())));
  }
  return tensors_[index];
}

std::uint64_t MappedArgs::scalar(std::size_t index) const {
  if (index >= scalars_.size()) {
    worker::raise(out_of_range(fmt::format("scalar {}: the task was given {}", index, scalars_.size())));
  }
  return scalars_[index];
}

std::string_view CallableHandle::hashid() const {
  return require(state_).hashid;
}
CallableKind CallableHandle::kind() const {
  return require(state_).kind;
}
TargetNamespace CallableHandle::target_namespace() const {
  return require(state_).target_namespace;
}
std::string_view CallableHandle::name() const {
  return require(state_).name;
}

}  // namespace simpler
