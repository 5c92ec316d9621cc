// The system's C++ compiler: where it is and what it calls itself.
#pragma once

#include <string>
#include <vector>

#include "simpler/status.h"

namespace simpler::compile {

struct Toolchain {
  std::string path;      // absolute
  std::string identity;  // first line of --version, with size and time of the program file: part of every cache key
};

// `wanted` (name or path) first, else `from_environment`, else c++, g++, clang++ in PATH. The error names everything
// that was tried and the setting that chooses a compiler.
Result<Toolchain> find_toolchain(const std::string& wanted, const std::string& from_environment,
                                 const std::string& search_path);

}  // namespace simpler::compile
