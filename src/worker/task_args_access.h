// The one reader of what TaskArgs and TaskHandle keep to themselves.
#pragma once

#include <span>
#include <vector>

#include "simpler/task_args.h"
#include "wire/tensor_ref.h"

namespace simpler {

struct TaskArgsAccess {
  static std::span<const Tensor> tensors(const TaskArgs& args) { return args.tensors_; }
  static bool on_device(const TaskArgs& args) { return args.on_device_; }
  static std::span<const TensorArgType> tags(const TaskArgs& args) { return args.tags_; }
  static std::span<const std::uint64_t> scalars(const TaskArgs& args) { return args.scalars_; }

  // Calls visit(run, slot, generation, retain) for every explicit dependency.
  template <class Visit>
  static void for_each_dependency(const TaskArgs& args, Visit&& visit) {
    for (const TaskArgs::Dependency& dependency : args.dependencies_) {
      const TaskHandle& producer = dependency.producer;
      visit(producer.run_, producer.slot_, producer.generation_, dependency.retain);
    }
  }

  // References that were looked up before for the tables `table_id`, as many as are still right; grown by `append`.
  static std::span<const wire::TensorRef> resolved(const TaskArgs& args, std::uint64_t table_id) {
    if (args.resolved_for_ != table_id) [[unlikely]] {
      args.resolved_.clear();
      args.resolved_for_ = table_id;
    }
    static_assert(sizeof(TaskArgs::Resolved) == sizeof(wire::TensorRef));
    static_assert(alignof(TaskArgs::Resolved) == alignof(wire::TensorRef));
    return {reinterpret_cast<const wire::TensorRef*>(args.resolved_.data()), args.resolved_.size()};
  }
  static void append(const TaskArgs& args, const wire::TensorRef& ref) {
    args.resolved_.push_back({{ref.buffer, ref.generation, ref.layout, ref.flags}, ref.byte_offset});
  }
  static void forget(const TaskArgs& args) { args.resolved_for_ = 0; }
};

}  // namespace simpler
