// What every record that leaves an address space has in common.
#pragma once

#include <bit>
#include <concepts>
#include <type_traits>

namespace simpler::wire {

static_assert(std::endian::native == std::endian::little, "wire records are little-endian in memory");

// A record that may be copied bytewise between processes. Pointers inside it are excluded by review and by the tests'
// field tables; the language cannot say it.
template <class T>
concept WireRecord = std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>;

inline constexpr unsigned kCacheLinePair = 128;  // two lines: what an adjacent-line prefetcher moves at once

}  // namespace simpler::wire
