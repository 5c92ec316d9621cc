// What the author of a chip graph sees. An orchestration is a function that the runtime calls once per run, on the
// host, before the chip starts: it looks at its arguments and submits tasks. The runtime infers which task waits for
// which.
//
//   using namespace simpler::orchestration;
//   SIMPLER_ORCHESTRATION void aicpu_orchestration_entry(const ChipTaskArgs& args) {
//     CoreTaskArgs task;
//     task.add_input(args.tensor(0));
//     task.add_output(args.tensor(1));
//     rt_submit_aiv_task(0, task);
//   }
//
// A shared object built from this header links against nothing: every call goes through the function table of the bound
// runtime, whose size, ABI number and capability bits are checked when the runtime binds itself. C++17 is enough.
// Mistakes never throw: they latch a fatal status with a text, after which every call is a silent no-op.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <type_traits>

#include "simpler/kernel.h"
#include "simpler/orchestration_abi.h"
#include "simpler/orchestration_tensor.h"

#define SIMPLER_ORCHESTRATION extern "C" __attribute__((visibility("default")))

namespace simpler::orchestration {

// The arguments of one run, as the entry function gets them. A bad index latches a fatal status.
class ChipTaskArgs {
 public:
  ChipTaskArgs(const Tensor* tensors, uint32_t tensor_count, const uint64_t* scalars, uint32_t scalar_count)
      : struct_size_(sizeof(ChipTaskArgs)),
        tensor_count_(tensor_count),
        scalar_count_(scalar_count),
        tensors_(tensors),
        scalars_(scalars) {}

  uint32_t struct_size() const { return struct_size_; }
  uint32_t tensor_count() const { return tensor_count_; }
  uint32_t scalar_count() const { return scalar_count_; }
  const Tensor& tensor(uint32_t index) const {
    if (index < tensor_count_) return tensors_[index];
    detail::misuse("args.tensor(i): the run has fewer tensor arguments");
    return detail::invalid_tensor();
  }
  uint64_t scalar(uint32_t index) const {
    if (index < scalar_count_) return scalars_[index];
    detail::misuse("args.scalar(i): the run has fewer scalar arguments");
    return 0;
  }
  template <class T>
  T scalar(uint32_t index) const {
    const uint64_t word = scalar(index);
    T value;
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
  }

 private:
  uint32_t struct_size_;
  uint32_t tensor_count_;
  uint32_t scalar_count_;
  const Tensor* tensors_;
  const uint64_t* scalars_;
};

// Returned by the optional config function, which the runtime calls before the entry.
struct OrchestrationConfig {
  uint32_t expected_arg_count;  // tensors and scalars together
};

// --- Tasks
// -------------------------------------------------------------------------------------------------------------

struct LaunchSpec {
  void set_block_num(uint32_t n) { block_num = n; }
  void set_require_sync_start(bool on) { require_sync_start = on; }
  uint32_t block_num = 1;
  bool require_sync_start = false;
};

// The kernels of a task, one func_id per core of a cluster.
struct MixedKernels {
  int32_t aic = kNoKernel;
  int32_t aiv0 = kNoKernel;
  int32_t aiv1 = kNoKernel;
};

struct PredicateSource {
  const Tensor* tensor;
  uint32_t ndims;
  uint32_t index[kMaxRank];
};

// The arguments of one task: tensors first, then scalars. It keeps addresses until the submit, so tensors and create
// infos must be named objects. One pack can be reset and used again.
class CoreTaskArgs {
 public:
  LaunchSpec launch_spec;

  void reset() {
    launch_spec = LaunchSpec{};
    tensor_count_ = scalar_count_ = dependency_count_ = flags_ = 0;
    misuse_ = nullptr;
  }

  template <class... Ts>
  void add_input(Ts&... tensors) {
    (add_tensor(ArgTag::kInput, tensors), ...);
  }
  template <class... Ts>
  void add_inout(Ts&... tensors) {
    (add_tensor(ArgTag::kInout, tensors), ...);
  }
  template <class... Ts>
  void add_no_dep(Ts&... tensors) {
    (add_tensor(ArgTag::kNoDep, tensors), ...);
  }
  // A Tensor is written in place; a TensorCreateInfo becomes a new tensor, which the submit returns.
  template <class... Ts>
  void add_output(Ts&... outputs) {
    (add_one_output(outputs), ...);
  }

  template <class... Ts>
  void add_scalar(Ts... values) {
    (push_scalar(detail::to_word(values)), ...);
  }
  void add_scalars(const uint64_t* words, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) push_scalar(words[i]);
  }
  void add_scalars_i32(const int32_t* values, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) push_scalar(static_cast<uint32_t>(values[i]));
  }
  void copy_scalars_from(const ChipTaskArgs& args, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) push_scalar(args.scalar(first + i));
  }
  void copy_scalars_from(const CoreTaskArgs& args) { add_scalars(args.scalars_, args.scalar_count_); }

  // Explicit predecessors, in addition to the inferred ones; at most once per pack, 0 takes them back. The array must
  // stay until the submit.
  void set_dependencies(const TaskId* ids, uint32_t count) {
    if (count == 0) {
      flags_ &= ~kRequestHasDependencies;
      dependency_count_ = 0;
      return;
    }
    if ((flags_ & kRequestHasDependencies) != 0) return latch("set_dependencies: called twice");
    flags_ |= kRequestHasDependencies;
    dependencies_ = ids;
    dependency_count_ = count;
  }

  void set_allow_early_resolve(bool on) {
    flags_ = on ? flags_ | kRequestEarlyResolve : flags_ & ~kRequestEarlyResolve;
  }
  template <class T>
  void set_predicate(const PredicateSource&, PredicateOp op, T) {
    flags_ = op != PredicateOp::kNone ? flags_ | kRequestPredicate : flags_ & ~kRequestPredicate;
  }

  uint32_t tensor_count() const { return tensor_count_; }
  uint32_t scalar_count() const { return scalar_count_; }
  uint64_t scalar(uint32_t index) const { return scalars_[index]; }
  uint64_t& scalar(uint32_t index) { return scalars_[index]; }
  bool has_error() const { return misuse_ != nullptr; }
  const char* error() const { return misuse_ != nullptr ? misuse_ : ""; }

  SubmitRequest request(const MixedKernels& kernels) const {
    SubmitRequest r;
    r.struct_size = sizeof(SubmitRequest);
    r.flags = flags_ | (launch_spec.require_sync_start ? kRequestSyncStart : 0u);
    r.kernels[0] = kernels.aic;
    r.kernels[1] = kernels.aiv0;
    r.kernels[2] = kernels.aiv1;
    r.block_num = launch_spec.block_num;
    r.tensor_count = tensor_count_;
    r.scalar_count = scalar_count_;
    r.dependency_count = dependency_count_;
    r.reserved = 0;
    r.tensors = tensors_;
    r.scalars = scalars_;
    r.dependencies = dependencies_;
    r.misuse = misuse_;
    return r;
  }

 private:
  void latch(const char* what) {
    if (misuse_ == nullptr) misuse_ = what;
  }
  void add_tensor(ArgTag tag, const Tensor& tensor) { push(tag, &tensor); }
  void add_one_output(const Tensor& tensor) { push(ArgTag::kOutputExisting, &tensor); }
  void add_one_output(const TensorCreateInfo& info) { push(ArgTag::kOutput, &info); }
  void push(ArgTag tag, const void* object) {
    if (scalar_count_ != 0) return latch("a tensor was added after a scalar; tensors come first");
    if (tensor_count_ == kMaxTaskTensors) return latch("more than 32 tensors in one task");
    tensors_[tensor_count_++] = TensorArg{tag, 0, object};
  }
  void push_scalar(uint64_t word) {
    if (scalar_count_ == kMaxTaskScalars) return latch("more than 16 scalars in one task");
    scalars_[scalar_count_++] = word;
  }

  uint32_t tensor_count_ = 0;
  uint32_t scalar_count_ = 0;
  uint32_t dependency_count_ = 0;
  uint32_t flags_ = 0;
  const char* misuse_ = nullptr;
  const TaskId* dependencies_ = nullptr;
  TensorArg tensors_[kMaxTaskTensors];
  uint64_t scalars_[kMaxTaskScalars];
};

// A pack with room for its own list of predecessors.
template <uint32_t N>
class CoreTaskArgsWithDeps : public CoreTaskArgs {
 public:
  void add_dependency(TaskId id) {
    if (count_ == N) return detail::misuse("add_dependency: the pack is full");
    ids_[count_++] = id;
    set_dependencies(nullptr, 0);
    set_dependencies(ids_, count_);
  }

 private:
  uint32_t count_ = 0;
  TaskId ids_[N];
};

// What a submit returns: the task and its new tensors, in the order of add_output. Valid until the build ends.
class TaskOutputTensors {
 public:
  TaskOutputTensors() {
    result_.task_id = TaskId{}.raw;
    result_.output_count = 0;
  }
  TaskId task_id() const { return TaskId{result_.task_id}; }
  uint32_t count() const { return result_.output_count; }
  const Tensor& get_ref(uint32_t index) const& {
    if (index < result_.output_count) return *result_.outputs[index];
    detail::misuse("get_ref(i): the task has fewer new outputs");
    return detail::invalid_tensor();
  }
  const Tensor& get_ref(uint32_t index) const&& = delete;
  SubmitResult* result() { return &result_; }

 private:
  SubmitResult result_;
};

inline TaskOutputTensors rt_submit_task(const MixedKernels& kernels, const CoreTaskArgs& args) {
  TaskOutputTensors out;
  if (Runtime* rt = detail::live()) {
    const SubmitRequest request = args.request(kernels);
    rt->table->submit(rt, &request, out.result());
  }
  return out;
}
inline TaskOutputTensors rt_submit_aic_task(int32_t func_id, const CoreTaskArgs& args) {
  return rt_submit_task(MixedKernels{func_id, kNoKernel, kNoKernel}, args);
}
inline TaskOutputTensors rt_submit_aiv_task(int32_t func_id, const CoreTaskArgs& args) {
  return rt_submit_task(MixedKernels{kNoKernel, func_id, kNoKernel}, args);
}
// Runs nothing; waits and is waited for like any task.
inline TaskOutputTensors rt_submit_dummy_task(const CoreTaskArgs& args) {
  TaskOutputTensors out;
  if (Runtime* rt = detail::live()) {
    SubmitRequest request = args.request(MixedKernels{});
    request.flags |= kRequestDummy;
    rt->table->submit(rt, &request, out.result());
  }
  return out;
}
// New tensors without a kernel; they exist at once.
template <class... Infos>
TaskOutputTensors alloc_tensors(const Infos&... infos) {
  static_assert((std::is_same_v<Infos, TensorCreateInfo> && ...), "alloc_tensors takes create infos");
  TaskOutputTensors out;
  if (Runtime* rt = detail::live()) {
    CoreTaskArgs args;
    args.add_output(infos...);
    const SubmitRequest request = args.request(MixedKernels{});
    rt->table->alloc_tensors(rt, &request, out.result());
  }
  return out;
}
template <class... Ignored>
TaskOutputTensors rt_submit_graph(Ignored&&...) {
  detail::unsupported("rt_submit_graph");
  return TaskOutputTensors{};
}

// --- Scopes
// ------------------------------------------------------------------------------------------------------------

// In a MANUAL scope nothing is inferred: only set_dependencies orders tasks. AUTO inside MANUAL is refused.
class ScopeGuard {
 public:
  explicit ScopeGuard(ScopeMode mode = ScopeMode::kAuto) : runtime_(detail::current_runtime) {
    if (runtime_ != nullptr) runtime_->table->scope_begin(runtime_, static_cast<uint32_t>(mode));
  }
  ~ScopeGuard() {
    if (runtime_ != nullptr) runtime_->table->scope_end(runtime_);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

 private:
  Runtime* runtime_;
};

// SIMPLER_SCOPE() { … } and SIMPLER_SCOPE(ScopeMode::kManual) { … } bound a block; the guard form bounds the rest of
// one.
#define SIMPLER_SCOPE(...) \
  if (::simpler::orchestration::ScopeGuard SIMPLER_SCOPE_NAME(simpler_scope_, __LINE__){__VA_ARGS__}; true)
#define SIMPLER_SCOPE_GUARD(...)                                                            \
  ::simpler::orchestration::ScopeGuard SIMPLER_SCOPE_NAME(simpler_scope_guard_, __LINE__) { \
    __VA_ARGS__                                                                             \
  }
#define SIMPLER_SCOPE_NAME(name, line) SIMPLER_SCOPE_NAME_2(name, line)
#define SIMPLER_SCOPE_NAME_2(name, line) name##line

// --- Everything else
// ---------------------------------------------------------------------------------------------------

inline bool rt_is_fatal() {
  return detail::current_runtime != nullptr && detail::live() == nullptr;
}
inline uint32_t rt_available_cluster_count() {
  Runtime* rt = detail::live();
  return rt != nullptr ? rt->table->available_cluster_count(rt) : 0;
}
inline uint32_t rt_available_aiv_count() {
  Runtime* rt = detail::live();
  return rt != nullptr ? rt->table->available_aiv_count(rt) : 0;
}
inline uint64_t rt_capabilities() {
  return detail::current_runtime != nullptr ? detail::current_runtime->table->capabilities : 0;
}

// Ends the run before the chip starts it. `code` is the author's own number and appears in the message.
__attribute__((format(printf, 2, 3))) inline void rt_report_fatal(int32_t code, const char* format, ...) {
  Runtime* rt = detail::live();
  if (rt == nullptr) return;
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  rt->table->report_fatal(rt, code, text, detail::length(text));
}

__attribute__((format(printf, 2, 3))) inline void rt_log(LogLevel level, const char* format, ...) {
  Runtime* rt = detail::live();
  if (rt == nullptr) return;
  char text[512];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  rt->table->log(rt, static_cast<int32_t>(level), text, detail::length(text));
}
#ifndef LOG_ERROR
#define LOG_ERROR(...) ::simpler::orchestration::rt_log(::simpler::orchestration::LogLevel::kError, __VA_ARGS__)
#define LOG_WARN(...) ::simpler::orchestration::rt_log(::simpler::orchestration::LogLevel::kWarn, __VA_ARGS__)
#define LOG_TIMING(...) ::simpler::orchestration::rt_log(::simpler::orchestration::LogLevel::kTiming, __VA_ARGS__)
#endif
#ifndef LOG_INFO
#define LOG_INFO(...) ::simpler::orchestration::rt_log(::simpler::orchestration::LogLevel::kInfo, __VA_ARGS__)
#endif
#ifndef LOG_DEBUG
#define LOG_DEBUG(...) ::simpler::orchestration::rt_log(::simpler::orchestration::LogLevel::kDebug, __VA_ARGS__)
#endif

// One element of an argument whose bytes exist before the graph runs. A refused access yields zero and is fatal.
template <class T>
T get_tensor_data(const Tensor& tensor, uint32_t ndims, const uint32_t* index) {
  T value{};
  if (Runtime* rt = detail::live()) {
    if (rt->table->get_tensor_data(rt, &tensor, ndims, index, &value, sizeof(T)) == 0) value = T{};
  }
  return value;
}
template <class T>
T get_tensor_data(const Tensor& tensor, std::initializer_list<uint32_t> index) {
  return get_tensor_data<T>(tensor, static_cast<uint32_t>(index.size()), index.begin());
}
template <class T>
void set_tensor_data(const Tensor& tensor, uint32_t ndims, const uint32_t* index, T value) {
  if (Runtime* rt = detail::live()) rt->table->set_tensor_data(rt, &tensor, ndims, index, &value, sizeof(T));
}
template <class T>
void set_tensor_data(const Tensor& tensor, std::initializer_list<uint32_t> index, T value) {
  set_tensor_data<T>(tensor, static_cast<uint32_t>(index.size()), index.begin(), value);
}

// --- Built-in orchestrations
// -------------------------------------------------------------------------------------------

// An orchestration that is part of the installation, addressed by name and version. `bind` is the
// framework_bind_runtime of the object that holds `entry`; `config` may be null.
struct BuiltinOrchestration {
  const char* name;
  uint32_t version;
  OrchestrationConfig (*config)(const ChipTaskArgs&);
  void (*entry)(const ChipTaskArgs&);
  uint32_t (*bind)(Runtime*);
};

// Where a chip finds built-in orchestrations. Implementations stay valid as long as the chip that uses them.
class OrchestrationSource {
 public:
  virtual ~OrchestrationSource() = default;
  virtual const BuiltinOrchestration* find(const char* name, size_t length, uint32_t version) const = 0;
};

}  // namespace simpler::orchestration
