// Finds, loads and searches kernel modules; see catalog.h.
#include "kernels/catalog.h"

#include <dlfcn.h>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/status_macros.h"
#include "kernels/module.h"

namespace simpler::kernels {

namespace {

namespace fs = std::filesystem;

constexpr int kFoldersAbove = 4;

// Folder of the program or shared library that this code is part of.
fs::path own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&find_module), &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  fs::path file = fs::canonical(info.dli_fname, error);
  if (error) file = fs::canonical("/proc/self/exe", error);  // a program started by a bare name
  return error ? fs::path() : file.parent_path();
}

std::vector<fs::path> candidate_folders(const std::string& directory) {
  if (!directory.empty()) return {fs::path(directory)};
  std::vector<fs::path> folders;
  fs::path folder = own_folder();
  for (int i = 0; i <= kFoldersAbove && !folder.empty(); ++i) {
    if (i == 0) folders.push_back(folder);
    folders.push_back(folder / "lib" / "simpler");
    folders.push_back(folder / "kernels");
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  // Where the build installs modules, and where it leaves them: for programs that live elsewhere.
  for (const char* fixed : {SIMPLER_INSTALLED_MODULES, SIMPLER_BUILT_MODULES}) folders.emplace_back(fixed);
  return folders;
}

// Checks what the module says about itself before anything of it is used.
Result<const ModuleTable*> table_of(void* handle, InstructionSet isa, const std::string& path) {
  void* symbol = dlsym(handle, kModuleSymbol);
  if (symbol == nullptr) return corrupt("kernel module " + path + " does not export " + kModuleSymbol);
  const ModuleTable* table = reinterpret_cast<ModuleFunction>(symbol)();
  if (table == nullptr || table->abi != kModuleAbi) {
    return unsupported("kernel module " + path + " has table version " +
                       std::to_string(table == nullptr ? 0 : table->abi) + ", this library needs " +
                       std::to_string(kModuleAbi));
  }
  if (table->isa != name_of(isa)) {
    return corrupt("kernel module " + path + " is built for " + table->isa + ", its name says " +
                   std::string(name_of(isa)));
  }
  return table;
}

}  // namespace

Result<std::string> find_module(InstructionSet isa, const std::string& directory) {
  const std::string file = "simpler_kernels_" + std::string(name_of(isa)) + ".so";
  std::string searched;
  for (const fs::path& folder : candidate_folders(directory)) {
    std::error_code error;
    if (fs::is_regular_file(folder / file, error)) return (folder / file).string();
    searched += (searched.empty() ? "" : ", ") + folder.string();
  }
  return not_found("kernel module " + file + " is in none of: " + searched);
}

Result<CatalogOptions> catalog_options(const Environment& environment) {
  CatalogOptions options;
  if (const std::optional<std::string> isa = environment.text(Variable::kKernelIsa)) {
    Result<InstructionSet> parsed = parse_instruction_set(*isa);
    if (!parsed.ok()) return std::move(parsed).status().context("environment variable SIMPLER_KERNEL_ISA");
    options.instruction_set = *parsed;
  }
  return options;
}

namespace {

// The best instruction set that runs here and whose module exists: a build may leave some out.
Result<InstructionSet> best_installed(const std::string& directory) {
  SIMPLER_ASSIGN_OR_RETURN(const InstructionSet best, best_instruction_set());
  for (const InstructionSet isa : built_instruction_sets()) {
    if (is_supported(isa) && find_module(isa, directory).ok()) return isa;
  }
  return best;  // looking for it gives the error that lists the folders
}

}  // namespace

Result<std::unique_ptr<Catalog>> Catalog::open(const CatalogOptions& options) {
  InstructionSet isa{};
  if (options.instruction_set) {
    isa = *options.instruction_set;
    if (!is_supported(isa)) {
      return unsupported("this machine cannot run kernels for instruction set " + std::string(name_of(isa)));
    }
  } else {
    SIMPLER_ASSIGN_OR_RETURN(isa, best_installed(options.directory));
  }
  SIMPLER_ASSIGN_OR_RETURN(const std::string path, find_module(isa, options.directory));
  // Never closed: a core may be inside a kernel until the process ends.
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return unavailable("cannot load kernel module " + path + ": " + dlerror());
  SIMPLER_ASSIGN_OR_RETURN(const ModuleTable* table, table_of(handle, isa, path));
  return std::unique_ptr<Catalog>(new Catalog(isa, path, {table->entries, table->count}));
}

const kernel::BuiltinKernel* Catalog::find(const char* name, size_t length, uint32_t version) const {
  const std::string_view wanted(name, length);
  const kernel::BuiltinKernel* found = nullptr;
  for (const kernel::BuiltinKernel& entry : entries_) {
    if (entry.name != wanted || (version != 0 && entry.version != version)) continue;
    if (found == nullptr || entry.version > found->version) found = &entry;
  }
  return found;
}

Result<const kernel::BuiltinKernel*> Catalog::require(std::string_view name, uint32_t version) const {
  if (const kernel::BuiltinKernel* found = find(name.data(), name.size(), version)) return found;
  SIMPLER_RETURN_IF_ERROR(find_kernel(name, version).status());
  return corrupt("kernel module " + path_ + " lacks '" + std::string(name) + "'");
}

}  // namespace simpler::kernels
