// Per-call settings of a task: a plain record of 1144 bytes, copied everywhere and stored once per distinct value.
//
// A zero means "not set". `validate` runs at every submit, before anything is reserved.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "simpler/status.h"

namespace simpler {

inline constexpr uint32_t kRuntimeEnvRings = 4;
inline constexpr uint32_t kOutputPrefixBytes = 1024;

struct RuntimeEnv {
  std::array<uint64_t, kRuntimeEnvRings> ring_task_window{};
  std::array<uint64_t, kRuntimeEnvRings> ring_heap{};
  std::array<uint64_t, kRuntimeEnvRings> ring_dep_pool{};
};

struct CallConfig {
  int32_t aicpu_thread_num = 0;      // 0 = chosen by the chip, otherwise at least 2
  int32_t enable_chip_swimlane = 0;  // 0..4
  int32_t enable_dump_args = 0;      // 0..3
  int32_t enable_pmu = 0;            // 0 = off, otherwise the event set
  int32_t enable_dep_gen = 0;
  int32_t enable_scope_stats = 0;
  RuntimeEnv runtime_env;
  std::array<char, kOutputPrefixBytes> output_prefix{};  // NUL-terminated
};
static_assert(sizeof(CallConfig) == 1144 && std::is_trivially_copyable_v<CallConfig> &&
              std::is_standard_layout_v<CallConfig>);
static_assert(offsetof(CallConfig, runtime_env) == 24 && offsetof(CallConfig, output_prefix) == 120);

bool operator==(const CallConfig& a, const CallConfig& b);
bool wants_diagnostics(const CallConfig& config);
std::string_view output_prefix(const CallConfig& config);
// Fails when the text does not fit with its terminator or contains one.
Status set_output_prefix(CallConfig& config, std::string_view prefix);

Status validate(const CallConfig& config);

}  // namespace simpler
