// The binding between an orchestration's shared object and the runtime: records, the function table, the bound runtime.
//
// Graph authors include simpler/orchestration.h. What lies here crosses the border between two separately compiled
// pieces: every struct that may grow begins with its size, and a change of meaning changes kAbi.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "simpler/kernel.h"

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

}  // namespace simpler::orchestration
