// The system's C++ compiler: where it is and what it calls itself.
#pragma once

#include <string>
#include <vector>

#include "simpler/status.h"

namespace simpler::compile {

struct Toolchain {
  std::vector<std::string> command;  // absolute path of the program, then the arguments that came with its name
  std::string version;               // first line that it prints for --version
  std::string identity;              // all of that with size and time of the program file: part of every cache key
  bool is_clang = false;
};

// `wanted` (name, path or command with arguments) first, else `from_environment`, else c++, g++, clang++ in the folders
// of `search_path`. A choice that was made is never replaced by another. The error names everything that was tried and
// the setting that chooses.
Result<Toolchain> find_toolchain(const std::string& wanted, const std::string& from_environment,
                                 const std::string& search_path);

}  // namespace simpler::compile
