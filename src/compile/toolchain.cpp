// Looks for a C++ compiler; see toolchain.h.
#include "compile/toolchain.h"

#include <filesystem>
#include <optional>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status_macros.h"
#include "compile/program.h"

namespace simpler::compile {

namespace fs = std::filesystem;

namespace {

constexpr Nanos kVersionLimit = 20 * kSecond;
constexpr const char* kHowToChoose = "name one with the compiler option or the environment variable CXX";

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<std::string> find_program(const std::string& name, const std::string& search_path) {
  if (name.find('/') != std::string::npos) {
    std::error_code error;
    const fs::path path = fs::absolute(name, error);
    return !error && is_program(path) ? std::optional(path.string()) : std::nullopt;
  }
  std::istringstream folders(search_path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && is_program(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  return std::nullopt;
}

// `text` as one program name, which may hold spaces, or else as a name followed by arguments.
std::vector<std::string> resolve(const std::string& text, const std::string& search_path) {
  if (const auto whole = find_program(text, search_path)) return {*whole};
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() < 2) return {};
  const auto program = find_program(words[0], search_path);
  if (!program) return {};
  words[0] = *program;
  return words;
}

Result<Toolchain> identify(std::vector<std::string> command) {
  Toolchain found;
  found.command = std::move(command);
  std::vector<std::string> argv = found.command;
  argv.emplace_back("--version");
  SIMPLER_ASSIGN_OR_RETURN(const ProgramResult result, run_program(argv, Deadline::after(kVersionLimit)));
  if (result.signal != 0 || result.exit_status != 0) {
    return unavailable("compiler " + found.command[0] + " fails when asked for --version: " + result.output);
  }
  found.version = result.output.substr(0, result.output.find('\n'));
  found.is_clang = result.output.find("clang") != std::string::npos;
  struct stat info {};
  if (::stat(found.command[0].c_str(), &info) != 0) return system_error(errno, "looking at " + found.command[0]);
  for (const std::string& word : found.command) found.identity += word + '\n';
  found.identity += result.output + std::to_string(info.st_size) + ' ' + std::to_string(info.st_mtim.tv_sec) + '.' +
                    std::to_string(info.st_mtim.tv_nsec);
  return found;
}

}  // namespace

Result<Toolchain> find_toolchain(const std::string& wanted, const std::string& from_environment,
                                 const std::string& search_path) {
  const std::string& chosen = wanted.empty() ? from_environment : wanted;
  if (!chosen.empty()) {
    std::vector<std::string> command = resolve(chosen, search_path);
    if (!command.empty()) return identify(std::move(command));
    return unavailable("no C++ compiler: '" + chosen + "' (from " +
                       (wanted.empty() ? "the environment variable CXX" : "the compiler option") +
                       ") is not a program; searched " + search_path + "; " + kHowToChoose);
  }
  Status last = Status::ok();
  for (const char* name : {"c++", "g++", "clang++"}) {
    const auto program = find_program(name, search_path);
    if (!program) continue;
    Result<Toolchain> found = identify({*program});
    if (found.ok()) return found;
    last = std::move(found).status();
  }
  if (!last.is_ok()) return last;
  return unavailable("no C++ compiler: none of c++, g++, clang++ is in " + search_path + "; install one or " +
                     kHowToChoose);
}

}  // namespace simpler::compile
