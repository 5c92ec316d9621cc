// LoadedCallable: a registered chip callable, ready to run: its orchestration's functions and a table of kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chip/shared_object.h"
#include "simpler/chip_callable.h"
#include "simpler/kernel.h"
#include "simpler/orchestration.h"
#include "simpler/status.h"

namespace simpler::chip {

struct KernelRef {
  kernel::KernelEntry entry = nullptr;        // null: no kernel with this func_id
  std::optional<kernel::CoreType> core_type;  // known for built-in kernels only
  std::string name;                           // for messages
};

class LoadedCallable {
 public:
  static Result<std::unique_ptr<LoadedCallable>> load(std::span<const std::byte> bytes,
                                                      const kernel::KernelSource* kernels,
                                                      const orchestration::OrchestrationSource* orchestrations);

  using Entry = void (*)(const orchestration::ChipTaskArgs&);
  using Config = orchestration::OrchestrationConfig (*)(const orchestration::ChipTaskArgs&);
  using Bind = uint32_t (*)(orchestration::Runtime*);

  Entry entry() const { return entry_; }
  Config config() const { return config_; }  // null when there is none
  Bind bind() const { return bind_; }
  const std::string& name() const { return name_; }
  // The signature split into its tensors, in order, and the number of its scalars.
  std::span<const ArgDirection> tensor_directions() const { return tensor_directions_; }
  uint32_t scalars_expected() const { return scalars_expected_; }
  // By func_id; ids above the largest are not in it.
  std::span<const KernelRef> kernels() const { return kernels_; }

  // A thread is inside a kernel for good: the code stays in memory.
  void abandon();

 private:
  LoadedCallable() = default;
  Status load_orchestration(const ChipCallable& callable, const orchestration::OrchestrationSource* source);
  Status load_kernel(const CoreCallable& kernel, uint32_t func_id, const kernel::KernelSource* source);

  std::string name_;
  std::vector<ArgDirection> tensor_directions_;
  uint32_t scalars_expected_ = 0;
  std::vector<KernelRef> kernels_;
  std::vector<SharedObject> objects_;
  Entry entry_ = nullptr;
  Config config_ = nullptr;
  Bind bind_ = nullptr;
};

}  // namespace simpler::chip
