// Finds chip generations and platforms by name. A platform is a generation together with what stands in for it here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "spec/chip_spec.h"

namespace simpler::spec {

enum class Backend : uint8_t { kSimulated };

struct Platform {
  std::string_view name;
  const ChipSpec* chip;
  Backend backend;
  uint32_t default_clusters;  // clusters of a chip that is not told how many
};

std::span<const ChipSpec* const> chips();
std::span<const Platform> platforms();
const ChipSpec* find_chip(std::string_view name);      // null: no such generation
const Platform* find_platform(std::string_view name);  // null: no such platform
// "x, y, z", for messages about a name that does not exist.
std::string platform_names();

}  // namespace simpler::spec
