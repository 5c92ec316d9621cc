// PP1 and PPF: what one dependent exchange between two processors costs on this machine.
//
// PP1: both sides poll one 64-bit word, the near side stores odd values, the far side even ones.
// PPF: the near side writes the eight words of one line, word 0 last with a release store; the far side polls word 0,
// reads the other seven and answers in word 0. Near side on CPU 0, far side on CPU 1 (both on 0 where there is one).
#pragma once

#include <atomic>
#include <cstdint>
#include <numeric>
#include <unistd.h>

#include "harness/harness.h"
#include "yardsticks/peer.h"

namespace simpler::bench {

class ExchangeYardstick {
 public:
  ExchangeYardstick()
      : peer_(::sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0,
              [this](uint32_t kind, uint32_t count) { kind == kWord ? answer_words(count) : answer_lines(count); }) {}

  // ns for one exchange.
  double pp1(uint32_t count = 1000) {
    return timed(kWord, count, [this](uint64_t i) {
      line_->words[0].store(2 * i + 1, std::memory_order_release);
      while (line_->words[0].load(std::memory_order_acquire) != 2 * i + 2) {
      }
    });
  }
  double ppf(uint32_t count = 1000) {
    return timed(kLine, count, [this](uint64_t i) {
      for (size_t word = 1; word < 8; ++word) line_->words[word].store(i + word, std::memory_order_relaxed);
      line_->words[0].store(2 * i + 1, std::memory_order_release);
      while (line_->words[0].load(std::memory_order_acquire) != 2 * i + 2) {
      }
    });
  }
  // Every payload word that the far side has read, added up; for the check.
  uint64_t digest() const { return line_->digest; }

 private:
  static constexpr uint32_t kWord = 0;
  static constexpr uint32_t kLine = 1;
  struct Line {
    alignas(128) std::atomic<uint64_t> words[8];
    alignas(128) uint64_t digest;
  };

  template <class Exchange>
  double timed(uint32_t kind, uint32_t count, Exchange&& exchange) {
    Pinned near(0);
    line_->words[0].store(0, std::memory_order_relaxed);
    peer_.start(kind, count + 1);
    exchange(0);
    const double begin = now_ns();
    for (uint64_t i = 1; i <= count; ++i) exchange(i);
    const double end = now_ns();
    peer_.join();
    return (end - begin) / count;
  }
  void answer_words(uint32_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      while (line_->words[0].load(std::memory_order_acquire) != 2 * i + 1) {
      }
      line_->words[0].store(2 * i + 2, std::memory_order_release);
    }
  }
  void answer_lines(uint32_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      while (line_->words[0].load(std::memory_order_acquire) != 2 * i + 1) {
      }
      for (size_t word = 1; word < 8; ++word) sum += line_->words[word].load(std::memory_order_relaxed);
      line_->words[0].store(2 * i + 2, std::memory_order_release);
    }
    line_->digest = sum;
  }

  Shared<Line> line_;
  Peer peer_;
};

}  // namespace simpler::bench
