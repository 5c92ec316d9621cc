// Sources to shared objects; see compile.h.
#include "compile/compile.h"

#include <algorithm>
#include <filesystem>
#include <unistd.h>

#include "base/status_macros.h"
#include "compile/depfile.h"
#include "compile/files.h"
#include "compile/load.h"
#include "compile/program.h"

namespace simpler::compile {

namespace fs = std::filesystem;

namespace {

std::string absolute_path(const std::string& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

// Letters, digits, '-', '_' and '.' of a name; it becomes part of a file name.
std::string file_stem(const std::string& name) {
  std::string stem;
  for (const char c : name.substr(0, 64)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    stem += plain || (c == '.' && !stem.empty()) ? c : '_';
  }
  return stem.empty() ? "source" : stem;
}

void add_field(Sha256& hash, std::string_view text) {
  hash.update(std::to_string(text.size()) + ":");
  hash.update(text);
}

}  // namespace

struct Compiler::Job {
  std::string name;
  SourceKind kind = SourceKind::kKernel;
  std::string source;              // absolute path of the file that the compiler reads
  std::vector<std::string> flags;  // everything but input and output
  std::string entry;
  Sha256Digest key{};
};

Result<Compiler> Compiler::create(const CompilerOptions& options, const Environment& environment) {
  std::error_code error;
  if (!fs::is_regular_file(fs::path(options.public_include_dir) / "simpler" / "kernel.h", error)) {
    return not_found("public headers: simpler/kernel.h is not below '" + options.public_include_dir + "'");
  }
  SIMPLER_ASSIGN_OR_RETURN(Toolchain toolchain,
                           find_toolchain(options.compiler, environment.text(Variable::kCxx).value_or(""),
                                          environment.text(Variable::kPath).value_or("/usr/local/bin:/usr/bin:/bin")));
  SIMPLER_ASSIGN_OR_RETURN(std::string cache_dir, choose_cache_folder(options.cache_dir, environment));
  CompilerOptions fixed = options;
  fixed.public_include_dir = absolute_path(options.public_include_dir);
  return Compiler(std::move(fixed), std::move(toolchain), std::move(cache_dir));
}

Result<Compiler::Job> Compiler::prepare(const CompileRequest& request) const {
  Job job;
  const bool from_file = !request.source_path.empty();
  job.kind = request.kind;
  job.name = !request.name.empty() ? request.name
             : from_file           ? fs::path(request.source_path).stem().string()
             : request.kind == SourceKind::kOrchestration && !request.entry_symbol.empty() ? request.entry_symbol
                                                                                           : std::string("source");
  std::vector<uint8_t> source;
  if (from_file) {
    job.source = absolute_path(request.source_path);
    SIMPLER_ASSIGN_OR_RETURN(source, read_file(job.source));
  } else if (request.source_text.empty()) {
    return invalid_argument("'" + job.name + "' has neither a source path nor source text");
  } else {
    source.assign(request.source_text.begin(), request.source_text.end());
    const std::string folder = cache_dir_ + "/sources";
    SIMPLER_RETURN_IF_ERROR(make_private_folder(folder));
    job.source = folder + "/" + to_hex(sha256(request.source_text)).substr(0, 16) + "-" + file_stem(job.name) + ".cpp";
    SIMPLER_RETURN_IF_ERROR(write_file_atomic(job.source, std::as_bytes(std::span(source))));
  }
  job.entry = !request.entry_symbol.empty()                ? request.entry_symbol
              : request.kind == SourceKind::kOrchestration ? "aicpu_orchestration_entry"
                                                           : "kernel_entry";
  job.flags = {"-std=c++20",
               "-O2",
               "-shared",
               "-fPIC",
               "-fvisibility=hidden",
               "-fvisibility-inlines-hidden",
               "-ffp-contract=off",
               "-fdiagnostics-color=never",
               toolchain_.is_clang ? "-ferror-limit=5" : "-fmax-errors=5",
               "-Wl,--no-undefined",
               "-Wl,--build-id=none"};
  if (!toolchain_.is_clang) job.flags.emplace_back("-fno-gnu-unique");
  if (!request.architecture.empty()) job.flags.push_back("-march=" + request.architecture);
  for (const std::string& dir : request.include_dirs) job.flags.push_back("-I" + absolute_path(dir));
  job.flags.push_back("-I" + options_.public_include_dir);
  if (request.kind == SourceKind::kKernel && (from_file || !request.name.empty())) {
    job.flags.push_back("-Wl,-soname," + file_stem(job.name));  // how messages call it
  }
  job.flags.insert(job.flags.end(), request.flags.begin(), request.flags.end());
  Sha256 hash;
  add_field(hash, "simpler-compile-1");
  add_field(hash, toolchain_.identity);
  add_field(hash, job.source);
  add_field(hash, job.entry);
  add_field(hash, std::string_view(reinterpret_cast<const char*>(source.data()), source.size()));
  for (const std::string& flag : job.flags) add_field(hash, flag);
  job.key = hash.finish();
  return job;
}

namespace {

Status compiler_failure(const std::string& name, const std::string& source, const ProgramResult& result) {
  std::string text = "'" + name + "' does not compile (" + source + "):\n" + result.output;
  if (result.signal != 0) text += "\nthe compiler was ended by signal " + std::to_string(result.signal);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return compile_failed(std::move(text)).with_exit_status(result.exit_status).with_signal(result.signal);
}

// Every included file with its digest. The source itself is part of the key already, but listed as well.
Result<std::vector<Dependency>> read_dependencies(const std::string& depfile) {
  SIMPLER_ASSIGN_OR_RETURN(const std::vector<uint8_t> text, read_file(depfile));
  std::vector<Dependency> dependencies;
  for (const std::string& file : parse_depfile({reinterpret_cast<const char*>(text.data()), text.size()})) {
    Dependency dependency{absolute_path(file), {}};
    SIMPLER_ASSIGN_OR_RETURN(dependency.digest, digest_of_file(dependency.path));
    dependencies.push_back(std::move(dependency));
  }
  return dependencies;
}

}  // namespace

Result<SharedObject> Compiler::build(const Job& job) const {
  SIMPLER_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::create(cache_dir_));
  const std::string output = folder.path() + "/object.so", depfile = folder.path() + "/object.d";
  std::vector<std::string> argv = toolchain_.command;
  argv.insert(argv.end(), job.flags.begin(), job.flags.end());
  argv.insert(argv.end(), {"-MMD", "-MF", depfile, "-MT", "object", "-o", output, job.source});
  Result<ProgramResult> ran = run_program(argv, Deadline::after(options_.time_limit));
  if (!ran.ok()) return std::move(ran).status().context("compiling '" + job.name + "'");
  if (ran->signal != 0 || ran->exit_status != 0) return compiler_failure(job.name, job.source, *ran);
  SharedObject object;
  object.name = job.name;
  SIMPLER_ASSIGN_OR_RETURN(object.bytes, read_file(output));
  object.digest = sha256(std::as_bytes(std::span(object.bytes)));
  if (!exports_function(object.bytes, job.entry)) {
    const bool kernel = job.kind == SourceKind::kKernel;
    return compile_failed(
        "'" + job.name + "' (" + job.source + ") compiles, but does not export '" + job.entry +
        "' as a function; define one of that name with " +
        (kernel ? "SIMPLER_KERNEL (simpler/kernel.h)" : "SIMPLER_ORCHESTRATION (simpler/orchestration.h)") +
        " in front");
  }
  Result<std::vector<Dependency>> dependencies = read_dependencies(depfile);
  // A full disk or an unlisted header costs the next caller a compile, not this one the result.
  if (dependencies.ok()) static_cast<void>(cache_.store(job.key, *dependencies, object.bytes).is_ok());
  return object;
}

Result<SharedObject> Compiler::compile_shared(const CompileRequest& request) const {
  SIMPLER_ASSIGN_OR_RETURN(const Job job, prepare(request));
  if (std::optional<std::vector<uint8_t>> cached = cache_.find(job.key)) {
    SharedObject object{job.name, std::move(*cached), {}, true};
    object.digest = sha256(std::as_bytes(std::span(object.bytes)));
    return object;
  }
  return build(job);
}

}  // namespace simpler::compile
