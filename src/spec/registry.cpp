#include "spec/registry.h"

#include "spec/a2a3.h"
#include "spec/a5.h"
#include "spec/tiny.h"

namespace simpler::spec {
namespace {

constexpr const ChipSpec* kChips[] = {&kA2a3, &kA5, &kTiny};

constexpr Platform kPlatforms[] = {
    {"a2a3sim", &kA2a3, Backend::kSimulated, 8},
    {"a5sim", &kA5, Backend::kSimulated, 8},
    {"tiny", &kTiny, Backend::kSimulated, 2},
};

}  // namespace

std::span<const ChipSpec* const> chips() {
  return kChips;
}
std::span<const Platform> platforms() {
  return kPlatforms;
}

const ChipSpec* find_chip(std::string_view name) {
  for (const ChipSpec* chip : kChips) {
    if (chip->name == name) return chip;
  }
  return nullptr;
}

const Platform* find_platform(std::string_view name) {
  for (const Platform& platform : kPlatforms) {
    if (platform.name == name) return &platform;
  }
  return nullptr;
}

std::string platform_names() {
  std::string out;
  for (const Platform& platform : kPlatforms) {
    if (!out.empty()) out += ", ";
    out += platform.name;
  }
  return out;
}

}  // namespace simpler::spec
