// Sizes as one writes them: 4_KiB, 2_MiB, and a text for people.
#pragma once

#include <cstdint>
#include <string>

namespace simpler {

inline namespace literals {
constexpr uint64_t operator""_KiB(unsigned long long count) {
  return count << 10;
}
constexpr uint64_t operator""_MiB(unsigned long long count) {
  return count << 20;
}
constexpr uint64_t operator""_GiB(unsigned long long count) {
  return count << 30;
}
}  // namespace literals

constexpr uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// "1536 B", "2 MiB", "1.5 GiB": the largest unit in which the value is at least 1, cut to one decimal.
inline std::string format_bytes(uint64_t bytes) {
  struct Unit {
    int shift;
    const char* name;
  };
  for (const Unit unit : {Unit{30, " GiB"}, Unit{20, " MiB"}, Unit{10, " KiB"}}) {
    const uint64_t one = uint64_t{1} << unit.shift;
    if (bytes < one || (unit.shift == 10 && bytes % one != 0)) continue;
    std::string text = std::to_string(bytes >> unit.shift);
    const uint64_t tenth = (bytes & (one - 1)) * 10 >> unit.shift;
    if (tenth != 0) text += "." + std::to_string(tenth);
    return text + unit.name;
  }
  return std::to_string(bytes) + " B";
}

}  // namespace simpler
