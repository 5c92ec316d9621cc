// C++ sources of kernels and orchestrations to callables, with the system's compiler and a cache on disk.
//
// Only these calls need a compiler; everything else, ready-made kernels included, works without one. A source exports
// `kernel_entry` (kernels, see kernel.h) or its entry function (orchestrations, see orchestration.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "simpler/chip_callable.h"

namespace simpler {

struct Source {
  std::string path = {};  // either a file …
  std::string text = {};  // … or text
  std::string name = {};  // for messages; taken from the path when empty
  std::vector<std::string> include_dirs = {};
  std::vector<std::string> flags = {};  // after the project's own
};

// All throw Error: kCompileFailed with the compiler's text, kSystem for a source that cannot be opened, kNotFound where
// the public headers are missing, kUnavailable where no compiler runs.
CoreCallable compile_kernel(const Source& source, std::span<const ArgDirection> signature);
// `entry` is the exported graph function; `config` may be empty.
ChipCallable compile_orchestration(const Source& source, std::span<const ArgDirection> signature,
                                   const std::string& entry, std::span<const ChipChild> children,
                                   const std::string& config = {});
// A ready-made kernel by name; version 0 takes the newest. kNotFound names what exists. Needs no compiler.
CoreCallable builtin_kernel(const std::string& name, std::uint32_t version = 0);

}  // namespace simpler
