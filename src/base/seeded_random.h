// SeededRandom: numbers that depend on nothing but the seed, the same on every machine. For simulation and tests;
// never for identities or secrets.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "base/check.h"

namespace simpler {

// SplitMix64: spreads any seed, also 0 and neighbouring ones, over 64 bits.
constexpr uint64_t split_mix(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// xoshiro256** seeded by SplitMix64. A UniformRandomBitGenerator, but prefer below(): the distributions of the standard
// library differ between implementations.
class SeededRandom {
 public:
  using result_type = uint64_t;

  explicit constexpr SeededRandom(uint64_t seed) {
    for (uint64_t& word : state_) word = split_mix(seed);
  }

  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return std::numeric_limits<uint64_t>::max(); }
  constexpr uint64_t operator()() { return next(); }

  constexpr uint64_t next() {
    const uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, limit); limit > 0.
  constexpr uint64_t below(uint64_t limit) {
    SIMPLER_CHECK(limit > 0);
    const uint64_t reject_under = (0 - limit) % limit;  // 2^64 mod limit
    uint64_t value = next();
    while (value < reject_under) value = next();
    return value % limit;
  }
  // Uniform in [low, high].
  constexpr int64_t between(int64_t low, int64_t high) {
    SIMPLER_CHECK(low <= high, low, high);
    const uint64_t width = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
    const uint64_t offset = width == max() ? next() : below(width + 1);
    return static_cast<int64_t>(static_cast<uint64_t>(low) + offset);
  }
  constexpr bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }
  constexpr double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  static constexpr uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }
  std::array<uint64_t, 4> state_{};
};

}  // namespace simpler
