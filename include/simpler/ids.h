// Numbers that name things, each a type of its own so that mixing them does not compile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace simpler {

template <class Tag>
struct Id {
  uint32_t value = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

template <class Tag>
struct Id64 {
  uint64_t value = 0;
  friend constexpr auto operator<=>(Id64, Id64) = default;
};

using SlotId = Id<struct SlotTag>;
using WorkerId = Id<struct WorkerTag>;
using LaneId = Id<struct LaneTag>;
using RunId = Id64<struct RunTag>;

}  // namespace simpler

template <class Tag>
struct std::hash<simpler::Id<Tag>> {
  size_t operator()(simpler::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.value); }
};

template <class Tag>
struct std::hash<simpler::Id64<Tag>> {
  size_t operator()(simpler::Id64<Tag> id) const noexcept { return std::hash<uint64_t>{}(id.value); }
};
