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

#define SIMPLER_ORCHESTRATION extern "C" __attribute__((visibility("default")))

namespace simpler::orchestration {

using kernel::AddressSpace;
using kernel::DataType;

constexpr uint32_t kAbi = 1;
constexpr uint32_t kMaxRank = kernel::kMaxRank;
constexpr uint32_t kMaxTaskTensors = kernel::kMaxTensors;
constexpr uint32_t kMaxTaskScalars = kernel::kMaxScalars;
constexpr uint32_t kMaxEntryTensors = 256;
constexpr uint32_t kMaxEntryScalars = 128;
constexpr uint32_t kMaxScopeDepth = 64;
constexpr uint32_t kMaxSubtasks = 32767;  // blocks times active kernels of one task
constexpr int32_t kNoKernel = -1;

// What the bound runtime offers; bits of FunctionTable::capabilities.
constexpr uint64_t kCapMultiBlock = 1u << 0;
constexpr uint64_t kCapTensorData = 1u << 1;
constexpr uint64_t kCapDummyTask = 1u << 2;
constexpr uint64_t kCapMixedKernels = 1u << 3;
constexpr uint64_t kCapSyncStart = 1u << 4;
constexpr uint64_t kCapPredicate = 1u << 5;
constexpr uint64_t kCapGraphRecording = 1u << 6;

struct Runtime;
struct FunctionTable;
class Tensor;

struct TaskId {
  uint64_t raw = ~uint64_t{0};
  bool valid() const { return raw != ~uint64_t{0}; }
};
inline bool operator==(TaskId a, TaskId b) {
  return a.raw == b.raw;
}
inline bool operator!=(TaskId a, TaskId b) {
  return a.raw != b.raw;
}

enum class ArgTag : uint32_t { kInput = 0, kOutput = 1, kInout = 2, kOutputExisting = 3, kNoDep = 4 };
enum class ScopeMode : uint32_t { kAuto = 0, kManual = 1 };
enum class LogLevel : int32_t { kDebug = 10, kInfo = 20, kTiming = 25, kWarn = 30, kError = 40 };
enum class PredicateOp : uint32_t { kNone = 0, kEq, kNe, kGt, kLt, kGe, kLe };

// --- The binding between a shared object and the runtime -----------------------------------------------------------

struct TensorArg {
  ArgTag tag;
  uint32_t reserved;
  const void* object;  // Tensor, or TensorCreateInfo for ArgTag::kOutput
};

constexpr uint32_t kRequestSyncStart = 1u << 0;
constexpr uint32_t kRequestEarlyResolve = 1u << 1;
constexpr uint32_t kRequestPredicate = 1u << 2;
constexpr uint32_t kRequestHasDependencies = 1u << 3;
constexpr uint32_t kRequestDummy = 1u << 4;

struct SubmitRequest {
  uint32_t struct_size;
  uint32_t flags;
  int32_t kernels[3];  // AIC, AIV0, AIV1; kNoKernel where unused
  uint32_t block_num;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t dependency_count;
  uint32_t reserved;
  const TensorArg* tensors;
  const uint64_t* scalars;
  const TaskId* dependencies;
  const char* misuse;  // text of a mistake made while the pack was filled, or null
};

struct SubmitResult {
  uint64_t task_id;
  uint32_t output_count;
  uint32_t reserved;
  const Tensor* outputs[kMaxTaskTensors];
};

struct FunctionTable {
  uint32_t struct_size;
  uint32_t abi;
  uint64_t capabilities;
  void (*submit)(Runtime*, const SubmitRequest*, SubmitResult*);
  void (*alloc_tensors)(Runtime*, const SubmitRequest*, SubmitResult*);
  void (*scope_begin)(Runtime*, uint32_t mode);
  void (*scope_end)(Runtime*);
  uint32_t (*is_fatal)(Runtime*);
  void (*report_fatal)(Runtime*, int32_t code, const char* text, size_t length);
  void (*report_misuse)(Runtime*, const char* text, size_t length);
  void (*report_unsupported)(Runtime*, const char* feature, size_t length);
  void (*log)(Runtime*, int32_t level, const char* text, size_t length);
  uint32_t (*get_tensor_data)(Runtime*, const Tensor*, uint32_t ndims, const uint32_t* index, void* out, uint32_t size);
  uint32_t (*set_tensor_data)(Runtime*, const Tensor*, uint32_t ndims, const uint32_t* index, const void* value,
                              uint32_t size);
  uint32_t (*available_cluster_count)(Runtime*);
  uint32_t (*available_aiv_count)(Runtime*);
};

// The runtime's object begins with this; what follows is its own.
struct Runtime {
  const FunctionTable* table;
};

namespace detail {
// The build that runs on this thread. Hidden, so that each shared object has its own.
__attribute__((visibility("hidden"))) inline thread_local Runtime* current_runtime = nullptr;

inline Runtime* live() {
  Runtime* rt = current_runtime;
  return rt != nullptr && rt->table->is_fatal(rt) == 0 ? rt : nullptr;
}
inline size_t length(const char* text) {
  return __builtin_strlen(text);
}
inline void misuse(const char* text) {
  if (Runtime* rt = live()) rt->table->report_misuse(rt, text, length(text));
}
inline void unsupported(const char* feature) {
  if (Runtime* rt = live()) rt->table->report_unsupported(rt, feature, length(feature));
}
template <class T>
uint64_t to_word(T value) {
  static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>, "a scalar is a number or an enum");
  uint64_t word = 0;
  __builtin_memcpy(&word, &value, sizeof(T));
  return word;
}
}  // namespace detail

// Called by the runtime around each build; null unbinds. Returns 0, or the ABI number that this object was built for
// when the table does not offer it. One weak copy per shared object.
extern "C" __attribute__((visibility("default"), used)) inline uint32_t framework_bind_runtime(Runtime* rt) {
  if (rt != nullptr && (rt->table->abi != kAbi || rt->table->struct_size < sizeof(FunctionTable))) return kAbi;
  detail::current_runtime = rt;
  return 0;
}

// --- Tensors ---------------------------------------------------------------------------------------------------------

// The runtime's working tensor: a kernel's descriptor with view operations. A view that does not fit latches a fatal
// status and yields an invalid tensor. Every operation keeps the buffer, its owner and its version.
class Tensor : public kernel::TensorDescriptor {
 public:
  constexpr Tensor() : kernel::TensorDescriptor{} {
    owner_task_id = kernel::kNoOwner;
    reserved[0] = 1;
  }

  bool valid() const { return reserved[0] == 0; }
  const Tensor& ref() const { return *this; }
  uint64_t element_count() const { return kernel::element_count(*this); }
  uint64_t nbytes() const { return element_count() * kernel::element_size(dtype); }

  // The block of `shapes` that starts at `offsets`; one entry per dimension each.
  Tensor view(const uint32_t* view_shapes, const uint32_t* offsets, bool manual = false) const {
    if (!valid()) return *this;
    Tensor out = *this;
    for (uint32_t d = 0; d < ndims; ++d) {
      if (offsets[d] > shapes[d] || view_shapes[d] > shapes[d] - offsets[d]) return bad("view: outside the tensor");
      out.start_offset += uint64_t{offsets[d]} * strides[d];
      out.shapes[d] = view_shapes[d];
    }
    return out.finish(manual);
  }
  Tensor view(std::initializer_list<uint32_t> view_shapes, std::initializer_list<uint32_t> offsets,
              bool manual = false) const {
    if (!valid()) return *this;
    if (view_shapes.size() != ndims || offsets.size() != ndims) return bad("view: wants one entry per dimension");
    return view(view_shapes.begin(), offsets.begin(), manual);
  }

  // Elements start, start + step, … below `end` of one dimension.
  Tensor slice(uint32_t dim, uint32_t start, uint32_t end, uint32_t step = 1, bool manual = false) const {
    if (!valid()) return *this;
    if (dim >= ndims) return bad("slice: no such dimension");
    if (start > end || end > shapes[dim]) return bad("slice: range outside the dimension");
    if (step == 0) return bad("slice: step must be at least 1");
    Tensor out = *this;
    out.start_offset += uint64_t{start} * strides[dim];
    out.shapes[dim] = static_cast<uint32_t>((uint64_t{end} - start + step - 1) / step);
    const uint64_t stride = uint64_t{strides[dim]} * step;
    if (stride > 0xffffffffu) return bad("slice: stride does not fit 32 bits");
    out.strides[dim] = static_cast<uint32_t>(stride);
    return out.finish(manual);
  }

  Tensor transpose(uint32_t x, uint32_t y, bool manual = false) const {
    if (!valid()) return *this;
    if (x >= ndims || y >= ndims) return bad("transpose: no such dimension");
    Tensor out = *this;
    out.shapes[x] = shapes[y];
    out.shapes[y] = shapes[x];
    out.strides[x] = strides[y];
    out.strides[y] = strides[x];
    return out.finish(manual);
  }

  // Dimension d of the result is dimension order[d] of this tensor.
  Tensor permute(const uint32_t* order, bool manual = false) const {
    if (!valid()) return *this;
    Tensor out = *this;
    uint32_t seen = 0;
    for (uint32_t d = 0; d < ndims; ++d) {
      if (order[d] >= ndims || (seen & (1u << order[d])) != 0) return bad("permute: order is not a permutation");
      seen |= 1u << order[d];
      out.shapes[d] = shapes[order[d]];
      out.strides[d] = strides[order[d]];
    }
    return out.finish(manual);
  }
  Tensor permute(std::initializer_list<uint32_t> order, bool manual = false) const {
    if (!valid()) return *this;
    if (order.size() != ndims) return bad("permute: wants one entry per dimension");
    return permute(order.begin(), manual);
  }

  // Other shape, same elements; this tensor must be contiguous.
  Tensor reshape(const uint32_t* new_shapes, uint32_t new_ndims, bool manual = false) const {
    if (!valid()) return *this;
    if (is_contiguous == 0) return bad("reshape: the tensor is not contiguous");
    if (new_ndims == 0 || new_ndims > kMaxRank) return bad("reshape: rank must be 1 to 5");
    uint64_t count = 1;
    Tensor out = *this;
    out.ndims = new_ndims;
    for (uint32_t d = 0; d < new_ndims; ++d) {
      count *= new_shapes[d];
      out.shapes[d] = new_shapes[d];
    }
    if (count != element_count()) return bad("reshape: element count differs");
    out.set_row_major_strides();
    return out.finish(manual);
  }
  Tensor reshape(std::initializer_list<uint32_t> new_shapes, bool manual = false) const {
    return reshape(new_shapes.begin(), static_cast<uint32_t>(new_shapes.size()), manual);
  }

  void set_row_major_strides() {
    uint64_t stride = 1;
    for (uint32_t d = ndims; d-- > 0;) {
      strides[d] = static_cast<uint32_t>(stride);
      stride *= shapes[d] == 0 ? 1 : shapes[d];
    }
    for (uint32_t d = ndims; d < kMaxRank; ++d) shapes[d] = strides[d] = 0;
  }

  // Recomputes the two values that follow from shapes and strides.
  void refresh_caches() {
    uint64_t extent = 1;
    uint64_t row_major = 1;
    bool contiguous = true;
    bool empty = false;
    for (uint32_t d = ndims; d-- > 0;) {
      if (shapes[d] == 0) empty = true;
      extent += shapes[d] == 0 ? 0 : (uint64_t{shapes[d]} - 1) * strides[d];
      if (strides[d] != row_major && shapes[d] > 1) contiguous = false;
      row_major *= shapes[d] == 0 ? 1 : shapes[d];
    }
    extent_elem = empty ? 0 : extent;
    is_contiguous = contiguous || empty ? 1 : 0;
  }

 private:
  Tensor finish(bool manual) {
    if (manual) manual_dep = 1;
    refresh_caches();
    return *this;
  }
  static Tensor bad(const char* what) {
    detail::misuse(what);
    return Tensor{};
  }
};
static_assert(sizeof(Tensor) == 128, "a tensor is its descriptor");

// A tensor over memory that the author knows to be valid on the chip for the whole run.
inline Tensor make_tensor_external(void* pointer, const uint32_t* shapes, uint32_t ndims,
                                   DataType dtype = DataType::kFloat32, bool manual_dep = false, int32_t version = 0,
                                   AddressSpace space = AddressSpace::kDevice) {
  Tensor t;
  if (ndims == 0 || ndims > kMaxRank || kernel::element_size(dtype) == 0) {
    detail::misuse("make_tensor_external: rank must be 1 to 5 and the element type known");
    return t;
  }
  t.reserved[0] = 0;
  t.addr = reinterpret_cast<uintptr_t>(pointer);
  t.version = version;
  t.ndims = ndims;
  t.dtype = dtype;
  t.manual_dep = manual_dep ? 1 : 0;
  t.address_space = space;
  for (uint32_t d = 0; d < ndims; ++d) t.shapes[d] = shapes[d];
  t.set_row_major_strides();
  t.refresh_caches();
  t.size = t.nbytes();
  return t;
}

// What a task's new output looks like; the runtime allocates it.
struct TensorCreateInfo {
  uint32_t ndims = 0;
  uint32_t shapes[kMaxRank] = {};
  uint32_t dtype = 0;  // a DataType
  uint32_t manual_dep = 0;

  TensorCreateInfo(const uint32_t* shape, uint32_t rank, DataType type = DataType::kFloat32, bool manual = false)
      : ndims(rank), dtype(static_cast<uint32_t>(type)), manual_dep(manual ? 1 : 0) {
    for (uint32_t d = 0; d < rank && d < kMaxRank; ++d) shapes[d] = shape[d];
  }
  TensorCreateInfo(std::initializer_list<uint32_t> shape, DataType type = DataType::kFloat32, bool manual = false)
      : TensorCreateInfo(shape.begin(), static_cast<uint32_t>(shape.size()), type, manual) {}
};

namespace detail {
__attribute__((visibility("hidden"))) inline constexpr Tensor kInvalidTensor;
inline const Tensor& invalid_tensor() {
  return kInvalidTensor;
}
}  // namespace detail

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
