// What the author of an incore kernel sees: the tensor descriptor, the argument slots and the helpers on them.
//
// A kernel is one exported function, `SIMPLER_KERNEL void kernel_entry(int64_t* args)`. Its slots hold, in this order:
// one address of a TensorDescriptor per tensor argument (the order in which the graph author added them), then the
// scalars as raw 64-bit words. Slots 48 and 49 hold the addresses of the LocalContext and the GlobalContext of the
// running block. Descriptors are shared by every block of a task: a kernel reads them and never writes them. This
// header needs nothing but <cstdint> and <cstddef>, works with C++17 and without exceptions or run-time types.
#pragma once

#include <cstddef>
#include <cstdint>

#define SIMPLER_KERNEL extern "C" __attribute__((visibility("default")))

namespace simpler::kernel {

constexpr uint32_t kMaxRank = 5;
constexpr uint32_t kMaxTensors = 32;
constexpr uint32_t kMaxScalars = 16;
constexpr uint32_t kLocalContextSlot = 48;
constexpr uint32_t kGlobalContextSlot = 49;
constexpr uint32_t kArgumentSlots = 50;

// Element types; the numbers are part of every descriptor.
enum class DataType : uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,
  kInt32 = 2,
  kInt16 = 3,
  kInt8 = 4,
  kUint8 = 5,
  kBfloat16 = 6,
  kInt64 = 7,
  kUint64 = 8,
  kUint16 = 9,
  kUint32 = 10,
  kBool = 11,
  kFp8E4m3fn = 12,
  kFp8E8m0 = 13,
  kFp4E2m1 = 14,
};
constexpr uint8_t kDataTypeCount = 15;

// Bytes per element; 0 for a number outside the list.
constexpr uint32_t element_size(DataType type) {
  switch (type) {
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUint32:
      return 4;
    case DataType::kFloat16:
    case DataType::kBfloat16:
    case DataType::kInt16:
    case DataType::kUint16:
      return 2;
    case DataType::kInt64:
    case DataType::kUint64:
      return 8;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kBool:
    case DataType::kFp8E4m3fn:
    case DataType::kFp8E8m0:
    case DataType::kFp4E2m1:
      return 1;
  }
  return 0;
}

// Which processor of a cluster runs a kernel: the matrix core (AIC) or a vector core (AIV).
enum class CoreType : uint8_t { kAic = 0, kAiv = 1 };

enum class AddressSpace : uint8_t { kHost = 0, kDevice = 1 };

// One tensor argument. Strides count elements and are at least 1; the element at index i[] lies at
// addr + (start_offset + sum of i[d] * strides[d]) * element size.
struct alignas(64) TensorDescriptor {
  uint64_t addr;           // first byte of the buffer, not of the view
  uint64_t size;           // bytes of the buffer
  uint64_t owner_task_id;  // the task that made the buffer; kNoOwner for one that came from outside
  uint64_t start_offset;   // first element of the view, counted in elements of the buffer
  int32_t version;
  uint32_t ndims;
  DataType dtype;
  uint8_t manual_dep;     // 1: no dependency is inferred from overlap
  uint8_t is_contiguous;  // 1: strides are row-major without gaps
  AddressSpace address_space;
  uint32_t shapes[kMaxRank];
  uint64_t extent_elem;  // 1 + sum of (shape - 1) * stride; 0 when a dimension is 0
  uint32_t strides[kMaxRank];
  uint32_t reserved[9];
};
constexpr uint64_t kNoOwner = ~uint64_t{0};

static_assert(sizeof(TensorDescriptor) == 128, "two cache lines");
static_assert(offsetof(TensorDescriptor, version) == 32 && offsetof(TensorDescriptor, shapes) == 44, "first line");
static_assert(offsetof(TensorDescriptor, extent_elem) == 64 && offsetof(TensorDescriptor, strides) == 72,
              "second line");

// What a block knows about itself. `struct_size` lets a kernel built against an older header run unchanged.
struct LocalContext {
  uint32_t struct_size;
  uint32_t block_idx;  // 0 … block_num - 1
  uint32_t block_num;
  uint32_t tensor_count;
  uint32_t scalar_count;
  uint32_t core_id;  // logical core of the chip
  bool (*pause)(const LocalContext* self);
  void* runtime;  // belongs to the runtime
};

struct GlobalContext {
  uint32_t struct_size;
  uint32_t sub_block_id;  // which of the two vector cores of a cluster, in a task that uses both
};

using KernelEntry = void (*)(int64_t* args);

inline const LocalContext& local_context(const int64_t* args) {
  return *reinterpret_cast<const LocalContext*>(static_cast<uintptr_t>(args[kLocalContextSlot]));
}
inline const GlobalContext& global_context(const int64_t* args) {
  return *reinterpret_cast<const GlobalContext*>(static_cast<uintptr_t>(args[kGlobalContextSlot]));
}
inline uint32_t get_block_idx(const int64_t* args) {
  return local_context(args).block_idx;
}
inline uint32_t get_block_num(const int64_t* args) {
  return local_context(args).block_num;
}
inline uint32_t get_sub_block_id(const int64_t* args) {
  return global_context(args).sub_block_id;
}
inline uint32_t get_tensor_count(const int64_t* args) {
  return local_context(args).tensor_count;
}
inline uint32_t get_scalar_count(const int64_t* args) {
  return local_context(args).scalar_count;
}

// Descriptor of tensor argument `index` (tensors have the first slots).
inline const TensorDescriptor& tensor(const int64_t* args, uint32_t index) {
  return *reinterpret_cast<const TensorDescriptor*>(static_cast<uintptr_t>(args[index]));
}

// First element of the view.
template <class T>
T* data(const TensorDescriptor& t) {
  return reinterpret_cast<T*>(static_cast<uintptr_t>(t.addr + t.start_offset * element_size(t.dtype)));
}
template <class T>
T* data(const int64_t* args, uint32_t index) {
  return data<T>(tensor(args, index));
}

// Elements of the view.
inline uint64_t element_count(const TensorDescriptor& t) {
  uint64_t count = 1;
  for (uint32_t d = 0; d < t.ndims; ++d) count *= t.shapes[d];
  return count;
}

// Scalar argument `index`, counted after the tensors: the low bytes of its word, so a float comes back bit for bit.
template <class T>
T scalar(const int64_t* args, uint32_t index) {
  static_assert(sizeof(T) <= 8, "a scalar is one 64-bit word");
  const int64_t word = args[local_context(args).tensor_count + index];
  T value;
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
}

// Call it in every loop that waits for another block: the chip may then run the blocks that this one waits for, also
// where it has fewer threads than cores. False means that the run is being ended: return from the kernel.
inline bool pause(const int64_t* args) {
  const LocalContext& context = local_context(args);
  return context.pause(&context);
}

// Drains the output pipe of the core before a kernel returns. A simulated core has none.
inline void pipe_sync() {}

// Name that the kernel sources of this runtime use for their working tensor.
using TaskTensor = TensorDescriptor;

// A kernel that is part of the installation, addressed by name and version.
struct BuiltinKernel {
  const char* name;
  uint32_t version;
  CoreType core_type;
  KernelEntry entry;
};

// Where a chip finds built-in kernels. Implementations stay valid as long as the chip that uses them.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // Null when there is no such kernel. `name` needs no terminating zero.
  virtual const BuiltinKernel* find(const char* name, size_t length, uint32_t version) const = 0;
};

}  // namespace simpler::kernel
