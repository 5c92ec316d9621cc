#include <filesystem>

#include <fmt/format.h>

#include "base/environment.h"
#include "compile/compile.h"
#include "kernels/kernel_list.h"
#include "simpler/compile.h"
#include "worker/raise.h"

namespace simpler {
namespace {

// Where the public headers are: where they were installed, else where they were built from.
std::string public_headers() {
  for (const char* folder : {SIMPLER_INSTALLED_HEADERS, SIMPLER_SOURCE_HEADERS}) {
    if (std::filesystem::exists(std::filesystem::path(folder) / "simpler" / "kernel.h")) {
      return folder;
    }
  }
  worker::raise(not_found(fmt::format("the public headers are neither in {} nor in {}", SIMPLER_INSTALLED_HEADERS,
                                      SIMPLER_SOURCE_HEADERS)));
}

compile::SharedObject build(const Source& source, compile::SourceKind kind, const std::string& entry) {
  const compile::Compiler compiler =
      worker::unwrap(compile::Compiler::create({.public_include_dir = public_headers()}, Environment::capture()));
  return worker::unwrap(compiler.compile_shared({.name = source.name,
                                                 .kind = kind,
                                                 .source_path = source.path,
                                                 .source_text = source.text,
                                                 .include_dirs = source.include_dirs,
                                                 .flags = source.flags,
                                                 .entry_symbol = entry}));
}

}  // namespace

CoreCallable compile_kernel(const Source& source, std::span<const ArgDirection> signature) {
  const compile::SharedObject made = build(source, compile::SourceKind::kKernel, {});
  return CoreCallable::build(signature, std::as_bytes(std::span(made.bytes)));
}

ChipCallable compile_orchestration(const Source& source, std::span<const ArgDirection> signature,
                                   const std::string& entry, std::span<const ChipChild> children,
                                   const std::string& config) {
  const compile::SharedObject made = build(source, compile::SourceKind::kOrchestration, entry);
  return ChipCallable::build(signature, entry, std::as_bytes(std::span(made.bytes)), children, config);
}

CoreCallable builtin_kernel(const std::string& name, std::uint32_t version) {
  const kernels::KernelSpec* spec = worker::unwrap(kernels::find_kernel(name, version));
  std::vector<ArgDirection> signature;
  for (const kernels::TensorSpec& tensor : spec->tensors) {
    signature.push_back(tensor.direction == kernels::Direction::kIn ? ArgDirection::kIn : ArgDirection::kOut);
  }
  signature.insert(signature.end(), spec->scalars.size(), ArgDirection::kScalar);
  return CoreCallable::builtin(signature, {name, spec->version});
}

}  // namespace simpler
