// Arguments of one task: tensors with access tags, then 64-bit scalars, then explicit dependencies.
//
// A TaskArgs is a plain builder owned by its caller. A submit copies what it needs, so the same object may be changed,
// cleared or submitted again at once. Order is meaning: tensors come first, in the order of the callable's signature.
// There is no limit on counts here; each target has its own (a chip takes 256 tensors and 128 scalars).
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "simpler/enums.h"
#include "simpler/tensor.h"

namespace simpler {

// Names one submitted task of one run. Only use: TaskArgs::add_dep and add_dep_wait inside the same run.
class TaskHandle {
 public:
  TaskHandle() = default;
  bool valid() const { return run_ != 0; }

 private:
  friend class Orchestrator;
  friend struct TaskArgsAccess;
  TaskHandle(std::uint64_t run, std::uint32_t slot, std::uint32_t generation)
      : run_(run), slot_(slot), generation_(generation) {}
  std::uint64_t run_ = 0;  // 0 is no run
  std::uint32_t slot_ = 0;
  std::uint32_t generation_ = 0;
};

// Bits of a scalar as they travel: floats are bit-cast to 32 bits, integers are sign- or zero-extended.
template <class T>
requires std::is_arithmetic_v<T> || std::is_enum_v<T>
constexpr std::uint64_t scalar_bits(T value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<std::uint64_t>(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(value);
  } else {
    return static_cast<std::uint64_t>(value);
  }
}

class TaskArgs {
 public:
  // Appends a tensor. Throws Error(kFailedPrecondition) after a scalar was added, Error(kInvalidArgument) when the view
  // does not lie in its buffer or `tag` needs more access than the buffer grants.
  TaskArgs& add_tensor(const Tensor& tensor, TensorArgType tag = TensorArgType::kInput);
  TaskArgs& input(const Tensor& tensor) { return add_tensor(tensor, TensorArgType::kInput); }
  TaskArgs& output(const Tensor& tensor) { return add_tensor(tensor, TensorArgType::kOutputExisting); }
  TaskArgs& inout(const Tensor& tensor) { return add_tensor(tensor, TensorArgType::kInout); }
  TaskArgs& no_dep(const Tensor& tensor) { return add_tensor(tensor, TensorArgType::kNoDep); }

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> TaskArgs& add_scalar(T value) {
    scalars_.push_back(scalar_bits(value));
    return *this;
  }

  // The task starts after `producer` ended, whose storage is kept until this task is terminal.
  TaskArgs& add_dep(TaskHandle producer);
  // The task starts after `producer` ended; nothing is kept.
  TaskArgs& add_dep_wait(TaskHandle producer);

  // Each throws Error(kOutOfRange) for a bad index.
  const Tensor& tensor(std::size_t index) const;
  std::uint64_t scalar(std::size_t index) const;
  TensorArgType tag(std::size_t index) const;
  void set_tag(std::size_t index, TensorArgType tag);

  std::size_t tensor_count() const { return tensors_.size(); }
  std::size_t scalar_count() const { return scalars_.size(); }
  std::size_t dependency_count() const { return dependencies_.size(); }
  std::size_t size() const { return tensors_.size() + scalars_.size(); }
  void clear();

 private:
  friend struct TaskArgsAccess;

  struct Dependency {
    TaskHandle producer;
    bool retain = true;
  };
  // The in-tree form of a tensor (buffer index, generation, layout index, flags, byte offset), valid for the worker
  // whose table id it was looked up for. Filled by a submit; `resolved_` counts the tensors looked up so far.
  struct Resolved {
    std::uint32_t words[4];
    std::uint64_t byte_offset;
  };

  std::vector<Tensor> tensors_;
  bool on_device_ = false;  // some tensor lies in memory of a chip
  std::vector<TensorArgType> tags_;
  std::vector<std::uint64_t> scalars_;
  std::vector<Dependency> dependencies_;
  mutable std::vector<Resolved> resolved_;
  mutable std::uint64_t resolved_for_ = 0;
};

}  // namespace simpler
