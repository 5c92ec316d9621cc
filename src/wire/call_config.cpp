#include "simpler/call_config.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

namespace simpler {
namespace {

constexpr uint64_t kInt32Max = 2147483647;

Status bad(std::string text) {
  return invalid_argument("call config: " + std::move(text));
}

Status validate_rings(const RuntimeEnv& env) {
  for (uint32_t i = 0; i < kRuntimeEnvRings; ++i) {
    const std::string place = "[" + std::to_string(i) + "] is ";
    const uint64_t window = env.ring_task_window[i];
    if (window != 0 && (window < 4 || window > kInt32Max || !std::has_single_bit(window))) {
      return bad("ring_task_window" + place + std::to_string(window) +
                 ", it must be a power of two from 4 to 2147483647");
    }
    const uint64_t heap = env.ring_heap[i];
    if (heap != 0 && heap < 1024) return bad("ring_heap" + place + std::to_string(heap) + ", at least 1024 are needed");
    const uint64_t pool = env.ring_dep_pool[i];
    if (pool != 0 && (pool < 4 || pool > kInt32Max)) {
      return bad("ring_dep_pool" + place + std::to_string(pool) + ", it must lie in 4 to 2147483647");
    }
  }
  return Status::ok();
}

}  // namespace

bool operator==(const CallConfig& a, const CallConfig& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool wants_diagnostics(const CallConfig& config) {
  return (config.enable_chip_swimlane | config.enable_dump_args | config.enable_pmu | config.enable_dep_gen |
          config.enable_scope_stats) != 0;
}

std::string_view output_prefix(const CallConfig& config) {
  const auto end = std::find(config.output_prefix.begin(), config.output_prefix.end(), '\0');
  return {config.output_prefix.data(), static_cast<size_t>(end - config.output_prefix.begin())};
}

Status set_output_prefix(CallConfig& config, std::string_view prefix) {
  if (prefix.size() >= kOutputPrefixBytes) {
    return bad("output_prefix has " + std::to_string(prefix.size()) + " bytes, at most 1023 fit");
  }
  if (prefix.find('\0') != std::string_view::npos) return bad("output_prefix contains a zero byte");
  config.output_prefix.fill('\0');
  std::copy(prefix.begin(), prefix.end(), config.output_prefix.begin());
  return Status::ok();
}

Status validate(const CallConfig& config) {
  if (config.aicpu_thread_num < 0 || config.aicpu_thread_num == 1) {
    return bad("aicpu_thread_num is " + std::to_string(config.aicpu_thread_num) +
               ", it must be 0 (auto) or at least 2");
  }
  if (config.enable_chip_swimlane < 0 || config.enable_chip_swimlane > 4) {
    return bad("enable_chip_swimlane is " + std::to_string(config.enable_chip_swimlane) + ", 0 to 4 are possible");
  }
  if (config.enable_dump_args < 0 || config.enable_dump_args > 3) {
    return bad("enable_dump_args is " + std::to_string(config.enable_dump_args) + ", 0 to 3 are possible");
  }
  if (config.enable_pmu < 0)
    return bad("enable_pmu is " + std::to_string(config.enable_pmu) + ", it must not be negative");
  const std::string_view prefix = output_prefix(config);
  if (prefix.size() == kOutputPrefixBytes) return bad("output_prefix has no terminating zero");
  if (std::any_of(config.output_prefix.begin() + static_cast<std::ptrdiff_t>(prefix.size()), config.output_prefix.end(),
                  [](char c) { return c != 0; })) {
    return bad("output_prefix has bytes after its terminating zero");
  }
  if (wants_diagnostics(config) && prefix.empty()) return bad("diagnostics need an output_prefix to write to");
  return validate_rings(config.runtime_env);
}

}  // namespace simpler
