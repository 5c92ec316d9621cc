#include "simpler/task_args.h"

#include <fmt/format.h>

#include "simpler/status.h"
#include "worker/raise.h"

namespace simpler {
namespace {

// Why `tensor` cannot carry `tag`, or ok.
Status check_access(const Tensor& tensor, TensorArgType tag, std::size_t index) {
  if (!is_known(tag)) {
    return invalid_argument(fmt::format("tensor {}: tag {} is not a TensorArgType", index, static_cast<int>(tag)));
  }
  if (grants(tensor.buffer.access, tag)) {
    return Status::ok();
  }
  return invalid_argument(fmt::format("tensor {}: tag {} needs more than the {} access that its buffer {} grants",
                                      index, name_of(tag), name_of(tensor.buffer.access),
                                      to_string(tensor.buffer.identity)));
}

Status index_error(const char* what, std::size_t index, std::size_t count) {
  return out_of_range(fmt::format("{} {}: these arguments have {}", what, index, count));
}

}  // namespace

TaskArgs& TaskArgs::add_tensor(const Tensor& tensor, TensorArgType tag) {
  if (!scalars_.empty()) {
    worker::raise(failed_precondition(
        fmt::format("add_tensor after {} scalar(s): tensors come first, then scalars", scalars_.size())));
  }
  worker::raise_if_error(validate(tensor));
  worker::raise_if_error(check_access(tensor, tag, tensors_.size()));
  tensors_.push_back(tensor);
  on_device_ = on_device_ || tensor.buffer.address_space == AddressSpace::kDevice;
  tags_.push_back(tag);
  return *this;
}

TaskArgs& TaskArgs::add_dep(TaskHandle producer) {
  if (!producer.valid()) {
    worker::raise(invalid_argument("add_dep: the handle names no task; use what submit_next_level returned"));
  }
  dependencies_.push_back({producer, true});
  return *this;
}

TaskArgs& TaskArgs::add_dep_wait(TaskHandle producer) {
  if (!producer.valid()) {
    worker::raise(invalid_argument("add_dep_wait: the handle names no task; use what submit_next_level returned"));
  }
  dependencies_.push_back({producer, false});
  return *this;
}

const Tensor& TaskArgs::tensor(std::size_t index) const {
  if (index >= tensors_.size()) {
    worker::raise(index_error("tensor", index, tensors_.size()));
  }
  return tensors_[index];
}

std::uint64_t TaskArgs::scalar(std::size_t index) const {
  if (index >= scalars_.size()) {
    worker::raise(index_error("scalar", index, scalars_.size()));
  }
  return scalars_[index];
}

TensorArgType TaskArgs::tag(std::size_t index) const {
  if (index >= tags_.size()) {
    worker::raise(index_error("tag", index, tags_.size()));
  }
  return tags_[index];
}

void TaskArgs::set_tag(std::size_t index, TensorArgType tag) {
  if (index >= tags_.size()) {
    worker::raise(index_error("tag", index, tags_.size()));
  }
  worker::raise_if_error(check_access(tensors_[index], tag, index));
  tags_[index] = tag;
}

void TaskArgs::clear() {
  tensors_.clear();
  on_device_ = false;
  tags_.clear();
  scalars_.clear();
  dependencies_.clear();
  resolved_.clear();
  resolved_for_ = 0;
}

}  // namespace simpler
