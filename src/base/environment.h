// The only place that reads environment variables. Everything that one can set is listed here, with its meaning.
//
// A value is read once, when an Environment is captured, so a component sees one consistent set. An empty variable
// counts as not set. Precedence everywhere: argument, environment, default.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "simpler/status.h"

namespace simpler {

enum class Variable : uint8_t {
  kRingTaskWindow,
  kRingHeap,
  kSchedulerTimeoutMs,
  kLogLevel,
  kKernelIsa,
  kCacheDir,
  kTrace,
  kStrict,
  kCxx,
  kHome,
  kXdgCacheHome,
  kXdgRuntimeDir,
  kTmpDir,
  kPath,
};

struct VariableInfo {
  Variable variable;
  std::string_view name;
  std::string_view meaning;  // one line for the reference page
};

// Every variable, in the order of the enumeration.
std::span<const VariableInfo> all_variables();

class Environment {
 public:
  // What this process was given. The caller makes sure that nobody changes the environment meanwhile.
  static Environment capture();
  // A made-up one, for tests.
  Environment() = default;
  Environment& set(Variable variable, std::string value);

  std::optional<std::string> text(Variable variable) const;
  // Decimal; kInvalidArgument naming variable and value when it is not a number that fits.
  Result<std::optional<uint64_t>> number(Variable variable) const;
  // One value for all four, or four values with commas between; empty when not set.
  Result<std::optional<std::array<uint64_t, 4>>> four_numbers(Variable variable) const;

 private:
  static constexpr size_t kCount = static_cast<size_t>(Variable::kPath) + 1;
  std::array<std::string, kCount> values_;
};

}  // namespace simpler
