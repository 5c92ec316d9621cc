// SIMPLER_CHECK: an invariant of our own code. When it does not hold the process prints what it knows and aborts,
// in release builds too; a parent then sees a lost child instead of a wrong answer. Bad input is a Status, never a
// check.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace simpler::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& values);

template <class T>
void append_value(std::string& out, const T& value) {
  if (!out.empty()) out += ", ";
  if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_enum_v<T>) {
    out += std::to_string(static_cast<std::underlying_type_t<T>>(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    out += std::to_string(value);
  } else {
    out += std::string_view(value);
  }
}

template <class... Ts>
[[noreturn]] [[gnu::noinline, gnu::cold]] void check_failed_with(const char* file, int line, const char* condition,
                                                                 const Ts&... values) {
  std::string text;
  (append_value(text, values), ...);
  check_failed(file, line, condition, text);
}

}  // namespace simpler::internal

#define SIMPLER_CHECK(condition, ...)                                                                    \
  do {                                                                                                   \
    if (!(condition)) [[unlikely]] {                                                                     \
      ::simpler::internal::check_failed_with(__FILE__, __LINE__, #condition __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                                    \
  } while (false)

#define SIMPLER_UNREACHABLE(...) \
  ::simpler::internal::check_failed_with(__FILE__, __LINE__, "unreachable" __VA_OPT__(, ) __VA_ARGS__)
