// What a kernel module (simpler_kernels_<isa>.so) exports: one function that returns its table.
//
// Every kernel is compiled once per instruction set into a module of its own, loaded with RTLD_LOCAL, so that inline
// functions of two instruction sets never mix. Nothing but this function is visible from outside.
#pragma once

#include <cstdint>

#include "simpler/kernel.h"

namespace simpler::kernels {

inline constexpr uint32_t kModuleAbi = 1;
inline constexpr const char* kModuleSymbol = "simpler_kernels";

struct ModuleTable {
  uint32_t abi;     // kModuleAbi
  uint32_t count;   // entries
  const char* isa;  // "v2", "v3", "v4", "generic"
  const kernel::BuiltinKernel* entries;
};

using ModuleFunction = const ModuleTable* (*)();

}  // namespace simpler::kernels
