// User C++ sources to shared objects, with the system's compiler and a cache on disk.
//
// One call is: find the compiler, form the key over everything that decides the bytes, answer from the cache or run the
// compiler (no shell, own process group, time limit) and store the result by rename. Thread-safe, also between
// processes; nothing is kept in memory but what a Compiler object owns.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "compile/toolchain.h"
#include "simpler/status.h"

namespace simpler::compile {

enum class SourceKind : uint8_t { kKernel, kOrchestration };

struct CompileRequest {
  std::string name;  // for messages and file names; empty: taken from the path
  SourceKind kind = SourceKind::kKernel;
  std::string source_path;                // either a file ...
  std::string source_text;                // ... or text, when the path is empty
  std::vector<std::string> include_dirs;  // besides the public headers of this installation
  std::vector<std::string> flags;         // after ours, so they win
  std::string architecture;               // -march value; empty: the compiler's own default
};

struct SharedObject {
  std::string name;
  std::vector<uint8_t> bytes;        // an ELF shared object
  std::array<uint8_t, 32> digest{};  // SHA-256 of bytes
  bool from_cache = false;
};

struct CompilerOptions {
  std::string compiler;            // program name or path; empty: environment, then c++, g++, clang++
  std::string public_include_dir;  // folder that holds simpler/kernel.h; required
  std::string cache_dir;  // empty: $XDG_CACHE_HOME/simpler, ~/.cache/simpler, else a folder under the temporary one
  bool use_cache = true;
  Nanos time_limit = Nanos{300} * 1'000'000'000;
};

class Compiler {
 public:
  static Result<Compiler> create(const CompilerOptions& options);

  // kCompileFailed with the compiler's own text (file, line and the source line) when the source is wrong.
  Result<SharedObject> compile_shared(const CompileRequest& request) const;

  const Toolchain& toolchain() const { return toolchain_; }
  const std::string& cache_dir() const { return cache_dir_; }

 private:
  Compiler(CompilerOptions options, Toolchain toolchain, std::string cache_dir)
      : options_(std::move(options)), toolchain_(std::move(toolchain)), cache_dir_(std::move(cache_dir)) {}

  CompilerOptions options_;
  Toolchain toolchain_;
  std::string cache_dir_;
};

}  // namespace simpler::compile
