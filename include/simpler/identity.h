// The identity of a buffer: the same 32 bytes in every process that ever sees it.
//
// `owner_instance_id` is random per Worker incarnation, `buffer_id` counts from 1 inside it, `generation` starts at 1.
// The padding takes no part in comparison or hashing, and the identity never changes while a buffer is forwarded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

namespace simpler {

using OwnerInstanceId = std::array<uint8_t, 8>;

struct CanonicalIdentity {
  OwnerInstanceId owner_instance_id{};
  uint64_t buffer_id = 0;
  uint32_t generation = 0;
  std::array<uint8_t, 12> padding{};

  friend bool operator==(const CanonicalIdentity& a, const CanonicalIdentity& b) {
    return a.owner_instance_id == b.owner_instance_id && a.buffer_id == b.buffer_id && a.generation == b.generation;
  }
};
static_assert(sizeof(CanonicalIdentity) == 32 && std::is_trivially_copyable_v<CanonicalIdentity>);
static_assert(offsetof(CanonicalIdentity, buffer_id) == 8 && offsetof(CanonicalIdentity, generation) == 16);

// `0011223344556677/5.1`: owner, buffer, generation.
std::string to_string(const CanonicalIdentity& identity);

inline uint64_t hash_of(const CanonicalIdentity& identity) {
  uint64_t owner = 0;
  std::memcpy(&owner, identity.owner_instance_id.data(), sizeof owner);
  uint64_t hash = (owner ^ 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
  hash ^= hash >> 29;
  hash = (hash ^ identity.buffer_id) * 0x94D049BB133111EBU;
  hash ^= hash >> 32;
  hash = (hash ^ identity.generation) * 0xD6E8FEB86659FD93U;
  return hash ^ (hash >> 32);
}

}  // namespace simpler

template <>
struct std::hash<simpler::CanonicalIdentity> {
  size_t operator()(const simpler::CanonicalIdentity& identity) const noexcept { return simpler::hash_of(identity); }
};
