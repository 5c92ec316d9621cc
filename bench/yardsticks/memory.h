// HASH, BUMP and PF: what a table hit, a warm arena write and a fresh page cost on this machine.
//
// HASH(n): hits in a flat map of n entries, in random order. BUMP(b): b bytes written to a warm arena of 1 MiB.
// PF: first touch of a page of private memory.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <vector>

#include "harness/harness.h"

namespace simpler::bench {

class HashYardstick {
 public:
  explicit HashYardstick(uint32_t entries) {
    map_.reserve(entries);
    for (uint32_t i = 0; i < entries; ++i) map_.emplace(key(i), i);
  }
  // ns for one hit.
  double hit(uint32_t count = 10'000) {
    uint64_t sum = 0;
    const auto entries = static_cast<uint32_t>(map_.size());
    const double begin = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
      state_ = state_ * 1664525U + 1013904223U;
      sum += map_.find(key((state_ >> 8) % entries))->second;
    }
    const double end = now_ns();
    keep(sum);
    return (end - begin) / count;
  }

 private:
  static uint64_t key(uint32_t i) { return i * 0x9E3779B97F4A7C15U; }
  boost::unordered_flat_map<uint64_t, uint32_t> map_;
  uint32_t state_ = 1;
};

class BumpYardstick {
 public:
  BumpYardstick() : arena_(1 << 20, std::byte{1}) {}
  // ns for one record of `bytes` bytes, at most 4096.
  double write(uint32_t bytes, uint32_t count = 10'000) {
    const std::vector<std::byte> record(bytes, std::byte{7});
    size_t at = 0;
    const double begin = now_ns();
    for (uint32_t i = 0; i < count; ++i) {
      if (at + bytes > arena_.size()) at = 0;
      std::memcpy(arena_.data() + at, record.data(), bytes);
      keep(arena_[at]);
      at += bytes;
    }
    const double end = now_ns();
    return (end - begin) / count;
  }

 private:
  std::vector<std::byte> arena_;
};

// ns for the first touch of one page, `pages` pages at once.
inline double page_fault(uint32_t pages = 256) {
  const size_t bytes = size_t{pages} * 4096;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  auto* page = static_cast<volatile char*>(memory);
  const double begin = now_ns();
  for (uint32_t i = 0; i < pages; ++i) page[size_t{i} * 4096] = 1;
  const double end = now_ns();
  ::munmap(memory, bytes);
  return (end - begin) / pages;
}

}  // namespace simpler::bench
