// What ready-made kernels exist and how each is called: known without loading a module.
//
// The table is data for every reader: the argument check of a graph author, Python's `simpler.kernels`, the reference
// page. A kernel keeps name, version and meaning for ever; a changed meaning is a new version.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "simpler/kernel.h"
#include "simpler/status.h"

namespace simpler::kernels {

enum class Direction : uint8_t { kIn, kOut };
std::string_view name_of(Direction direction);

struct TensorSpec {
  std::string_view name;
  Direction direction;
  kernel::DataType dtype;
  uint8_t min_rank, max_rank;
};

enum class ScalarType : uint8_t { kFloat32, kUint64 };
struct ScalarSpec {
  std::string_view name;
  ScalarType type;
  double default_value;
};

struct KernelSpec {
  std::string_view name;
  uint32_t version;
  kernel::CoreType core_type;
  std::span<const TensorSpec> tensors;  // in call order
  std::span<const ScalarSpec> scalars;  // after the tensors, all of them required
  std::string_view summary;
};

// Values of the scalars `activation` and `b_layout`.
inline constexpr uint64_t kActivationNone = 0, kActivationRelu = 1, kActivationGelu = 2, kActivationTanh = 3;
inline constexpr uint64_t kLayoutKn = 0, kLayoutNk = 1;

std::span<const KernelSpec> kernel_list();  // sorted by name, then version

// Version 0 asks for the newest. The error names near or all known kernels.
Result<const KernelSpec*> find_kernel(std::string_view name, uint32_t version = 0);

// What a caller is about to pass.
struct GivenTensor {
  bool reads, writes;  // as the tag of the argument says
  uint8_t dtype;
  uint32_t rank;
};
// Counts, directions, element types and ranks; sizes are the kernel's own check, made before it touches memory.
Status check_arguments(const KernelSpec& spec, std::span<const GivenTensor> tensors, uint32_t scalar_count);

}  // namespace simpler::kernels
