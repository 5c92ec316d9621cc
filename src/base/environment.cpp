#include "base/environment.h"

#include <charconv>
#include <cstdlib>

namespace simpler {
namespace {

constexpr std::array kVariables = {
    VariableInfo{Variable::kRingTaskWindow, "PTO2_RING_TASK_WINDOW",
                 "tasks of one chip run; one value, or the first of four"},
    VariableInfo{Variable::kRingHeap, "PTO2_RING_HEAP",
                 "bytes of task outputs of one chip run; one value, or the first of four"},
    VariableInfo{Variable::kSchedulerTimeoutMs, "SIMPLER_SCHEDULER_TIMEOUT_MS",
                 "watchdog of a chip, when `watchdog_s` is not given"},
    VariableInfo{Variable::kLogLevel, "SIMPLER_LOG_LEVEL",
                 "lowest level that is logged: a name or a number; `warn` by default"},
    VariableInfo{Variable::kKernelIsa, "SIMPLER_KERNEL_ISA", "instruction set of the ready-made kernels"},
    VariableInfo{Variable::kCacheDir, "SIMPLER_CACHE_DIR", "folder for compiled kernels"},
    VariableInfo{Variable::kTrace, "SIMPLER_TRACE",
                 "folder that receives a trace of each level-3 worker without `trace_path`"},
    VariableInfo{Variable::kStrict, "SIMPLER_STRICT",
                 "any value but 0: a setting of Worker that nobody knows is an error"},
    VariableInfo{Variable::kCxx, "CXX", "C++ compiler of kernels and orchestrations"},
    VariableInfo{Variable::kHome, "HOME", "where the cache folder lies by default"},
    VariableInfo{Variable::kXdgCacheHome, "XDG_CACHE_HOME", "where the cache folder lies instead"},
    VariableInfo{Variable::kXdgRuntimeDir, "XDG_RUNTIME_DIR", "cache folder when the home is not writable"},
    VariableInfo{Variable::kTmpDir, "TMPDIR", "cache folder when nothing else is writable"},
    VariableInfo{Variable::kPath, "PATH", "folders where a compiler is looked for"},
};

std::string_view name_of(Variable variable) {
  return kVariables[static_cast<size_t>(variable)].name;
}

Result<uint64_t> parse(Variable variable, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return invalid_argument("environment variable " + std::string(name_of(variable)) + " has '" + std::string(text) +
                            "', a decimal number of at most 64 bits is needed");
  }
  return value;
}

constexpr bool listed_in_order() {
  for (size_t i = 0; i < kVariables.size(); ++i) {
    if (static_cast<size_t>(kVariables[i].variable) != i) return false;
  }
  return true;
}
static_assert(listed_in_order());

}  // namespace

std::span<const VariableInfo> all_variables() {
  return kVariables;
}

Environment Environment::capture() {
  static_assert(kVariables.size() == kCount);
  Environment found;
  for (const VariableInfo& info : kVariables) {
    if (const char* value = std::getenv(info.name.data())) found.set(info.variable, value);
  }
  return found;
}

Environment& Environment::set(Variable variable, std::string value) {
  values_[static_cast<size_t>(variable)] = std::move(value);
  return *this;
}

std::optional<std::string> Environment::text(Variable variable) const {
  const std::string& value = values_[static_cast<size_t>(variable)];
  if (value.empty()) return std::nullopt;
  return value;
}

Result<std::optional<uint64_t>> Environment::number(Variable variable) const {
  const auto found = text(variable);
  if (!found) return std::optional<uint64_t>();
  auto value = parse(variable, *found);
  if (!value.ok()) return std::move(value).status();
  return std::optional<uint64_t>(*value);
}

Result<std::optional<std::array<uint64_t, 4>>> Environment::four_numbers(Variable variable) const {
  using Values = std::array<uint64_t, 4>;
  const auto found = text(variable);
  if (!found) return std::optional<Values>();
  Values values{};
  size_t count = 0;
  std::string_view rest = *found;
  while (true) {
    const size_t comma = rest.find(',');
    auto value = parse(variable, rest.substr(0, comma));
    if (!value.ok()) return std::move(value).status();
    if (count < values.size()) values[count] = *value;
    ++count;
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (count == 1) values.fill(values[0]);
  if (count != 1 && count != values.size()) {
    return invalid_argument("environment variable " + std::string(name_of(variable)) + " has " + std::to_string(count) +
                            " values, 1 or 4 are needed");
  }
  return std::optional<Values>(values);
}

}  // namespace simpler
