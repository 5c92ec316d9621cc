// What a worker can run, and the handle that names it after registration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "simpler/dtype.h"
#include "simpler/enums.h"

namespace simpler {

// One tensor argument as the callable sees it: mapped into its own process.
struct MappedArg {
  std::byte* data = nullptr;  // first byte of the view
  std::uint64_t nbytes = 0;   // bytes from `data` to the end of the view's extent
  bool writable = false;      // false when the backing grants only READ
  DataType dtype = DataType::kFloat32;
  std::uint32_t ndims = 0;
  std::uint32_t shape[5] = {};
  std::uint32_t strides[5] = {};  // in elements
  std::uint64_t byte_offset = 0;  // of the view in its buffer

  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// Arguments of one call, valid during the call only.
class MappedArgs {
 public:
  MappedArgs(std::span<const MappedArg> tensors, std::span<const std::uint64_t> scalars)
      : tensors_(tensors), scalars_(scalars) {}
  std::size_t size() const { return tensors_.size(); }
  std::size_t tensor_count() const { return tensors_.size(); }
  std::size_t scalar_count() const { return scalars_.size(); }
  // Both throw Error(kOutOfRange) for a bad index.
  const MappedArg& operator[](std::size_t index) const;
  std::uint64_t scalar(std::size_t index) const;
  std::span<const MappedArg> tensors() const { return tensors_; }
  std::span<const std::uint64_t> scalars() const { return scalars_; }

 private:
  std::span<const MappedArg> tensors_;
  std::span<const std::uint64_t> scalars_;
};

// Runs in a child process of the worker. An exception fails the task and carries its type name and text to the waiter.
using NativeFunction = std::function<void(const MappedArgs&)>;

// Names a registered callable. Accepted only by the worker that made it, and only until it is unregistered there.
class CallableHandle {
 public:
  CallableHandle() = default;
  bool valid() const { return state_ != nullptr; }
  std::string_view hashid() const;  // "sha256:" and 64 hexadecimal digits
  CallableKind kind() const;
  TargetNamespace target_namespace() const;
  std::string_view name() const;  // for people; not part of the identity

  struct State;
  explicit CallableHandle(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const std::shared_ptr<const State>& state() const { return state_; }

 private:
  std::shared_ptr<const State> state_;
};

}  // namespace simpler
