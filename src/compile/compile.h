// User C++ sources to shared objects, with the system's compiler and a cache on disk.
//
// One call is: form the key over everything that decides the bytes, answer from the cache or run the compiler (no
// shell, own process group, time limit) and store the result by rename. A Compiler is immutable: any thread may use it,
// and so may many processes at once.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/environment.h"
#include "base/sha256.h"
#include "compile/cache.h"
#include "compile/toolchain.h"
#include "simpler/status.h"

namespace simpler::compile {

enum class SourceKind : uint8_t { kKernel, kOrchestration };

struct CompileRequest {
  std::string name{};                       // for messages and file names; empty: taken from the path
  SourceKind kind = SourceKind::kKernel;    // decides which exported symbol must be there
  std::string source_path{};                // either a file ...
  std::string source_text{};                // ... or text, when the path is empty
  std::vector<std::string> include_dirs{};  // besides the public headers
  std::vector<std::string> flags{};         // after ours, so they win
  std::string architecture{};               // -march value; empty: the compiler's own default
  std::string entry_symbol{};  // exported symbol that must exist; empty: kernel_entry or aicpu_orchestration_entry
};

struct SharedObject {
  std::string name;
  std::vector<uint8_t> bytes;  // an ELF shared object
  Sha256Digest digest{};       // of bytes
  bool from_cache = false;
};

struct CompilerOptions {
  std::string compiler;            // name, path or command; empty: CXX, then c++, g++, clang++
  std::string public_include_dir;  // holds simpler/kernel.h; required, the caller knows build tree and installation
  std::string cache_dir;           // empty: see choose_cache_folder
  bool use_cache = true;
  Nanos time_limit = 300 * kSecond;  // of one compiler run
};

class Compiler {
 public:
  static Result<Compiler> create(const CompilerOptions& options, const Environment& environment);

  // kCompileFailed with the compiler's own text (file, line, the source line itself) when the source is wrong. Source
  // given as text is kept below the cache folder, so that the file named in the message can be opened.
  Result<SharedObject> compile_shared(const CompileRequest& request) const;

  const Toolchain& toolchain() const { return toolchain_; }
  const std::string& cache_dir() const { return cache_dir_; }

 private:
  Compiler(CompilerOptions options, Toolchain toolchain, std::string cache_dir)
      : options_(std::move(options)),
        toolchain_(std::move(toolchain)),
        cache_dir_(std::move(cache_dir)),
        cache_(options_.use_cache ? cache_dir_ : std::string()) {}

  struct Job;  // one request, made definite
  Result<Job> prepare(const CompileRequest& request) const;
  Result<SharedObject> build(const Job& job) const;

  CompilerOptions options_;
  Toolchain toolchain_;
  std::string cache_dir_;
  Cache cache_;
};

}  // namespace simpler::compile
