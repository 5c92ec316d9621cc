// Ready-made kernels as functions: picks the module for this processor, loads it, finds kernels by name and version.
//
// A Catalog is immutable once open and may be used from any thread. Its module stays loaded until the process ends,
// because a chip may still be inside a kernel; opening again reuses it. Open it before the fork or in the child alike.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/environment.h"
#include "kernels/instruction_set.h"
#include "kernels/kernel_list.h"
#include "simpler/kernel.h"
#include "simpler/status.h"

namespace simpler::kernels {

struct CatalogOptions {
  // Forces an instruction set (tests; callgrind needs v3). Unset: the best one that runs here and is installed.
  std::optional<InstructionSet> instruction_set;
  // Folder of simpler_kernels_<isa>.so. Empty: looked for beside the program's or library's own file (the file itself,
  // `lib/simpler` and `kernels` there), in the four folders above it, and where the build put or installs modules.
  std::string directory;
};

// The instruction set that the environment asks for, if any.
Result<CatalogOptions> catalog_options(const Environment& environment);

class Catalog final : public kernel::KernelSource {
 public:
  static Result<std::unique_ptr<Catalog>> open(const CatalogOptions& options = {});

  // Version 0 finds the newest. Null when there is none.
  const kernel::BuiltinKernel* find(const char* name, size_t length, uint32_t version) const override;
  // The same with an error that says what exists.
  Result<const kernel::BuiltinKernel*> require(std::string_view name, uint32_t version = 0) const;

  InstructionSet instruction_set() const { return isa_; }
  const std::string& path() const { return path_; }  // of the module
  std::span<const kernel::BuiltinKernel> entries() const { return entries_; }

 private:
  Catalog(InstructionSet isa, std::string path, std::span<const kernel::BuiltinKernel> entries)
      : isa_(isa), path_(std::move(path)), entries_(entries) {}

  InstructionSet isa_;
  std::string path_;
  std::span<const kernel::BuiltinKernel> entries_;
};

// Full path of the module for `isa`; the error lists every folder that was searched.
Result<std::string> find_module(InstructionSet isa, const std::string& directory);

}  // namespace simpler::kernels
