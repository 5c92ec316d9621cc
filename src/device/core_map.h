// Which cores of one shape are free: a bit map that any thread may take from and give back to.
//
// Taking a core (acquire) pairs with giving it back (release), so its payload is quiet when the next block gets it.
#pragma once

#include <atomic>
#include <cstdint>

namespace simpler::device {

inline constexpr uint32_t kMaxCoresPerShape = 128;

class CoreMap {
 public:
  static constexpr uint32_t kNone = ~0u;

  // Cores 0 … count - 1 are free.
  void reset(uint32_t count) {
    for (uint32_t w = 0; w < kWords; ++w) {
      const uint32_t left = count > w * 64 ? count - w * 64 : 0;
      words_[w].store(left >= 64 ? ~uint64_t{0} : (uint64_t{1} << left) - 1, std::memory_order_relaxed);
    }
  }

  uint32_t take() {
    for (uint32_t w = 0; w < kWords; ++w) {
      uint64_t free = words_[w].load(std::memory_order_relaxed);
      while (free != 0) {
        const uint64_t bit = free & (~free + 1);
        if (words_[w].compare_exchange_weak(free, free & ~bit, std::memory_order_acquire, std::memory_order_relaxed)) {
          return w * 64 + static_cast<uint32_t>(__builtin_ctzll(bit));
        }
      }
    }
    return kNone;
  }

  void give_back(uint32_t core) { words_[core / 64].fetch_or(uint64_t{1} << (core % 64), std::memory_order_release); }

  bool any() const {
    for (const auto& word : words_) {
      if (word.load(std::memory_order_relaxed) != 0) return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t kWords = kMaxCoresPerShape / 64;
  std::atomic<uint64_t> words_[kWords] = {};
};

}  // namespace simpler::device
