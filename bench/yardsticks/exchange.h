// PP1 and PPF: what one dependent exchange between two processors costs on this machine.
//
// PP1: both sides poll one 64-bit word, the near side stores odd values, the far side even ones.
// PPF: the near side writes the eight words of one line, word 0 last with a release store; the far side polls word 0,
// reads the other seven and answers in word 0. Near side on CPU 0, far side on CPU 1 (both on 0 where there is one).
//
// What a line costs depends on where its physical page lies: 177 to 268 ns within one process here, the same for a line
// from batch to batch (2026-11-30). So each batch takes the next of 32 lines in as many pages.
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
      : peer_(::sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 1 : 0, [this](uint32_t kind, uint32_t count) {
          line_ = kind / kKinds;
          kind % kKinds == kWord ? answer_words(count) : answer_lines(count);
        }) {}

  // ns for one exchange.
  double pp1(uint32_t count = 1000) {
    return timed(kWord, count, [](Line& line, uint64_t i) {
      line.words[0].store(2 * i + 1, std::memory_order_release);
      while (line.words[0].load(std::memory_order_acquire) != 2 * i + 2) {
      }
    });
  }
  double ppf(uint32_t count = 1000) {
    return timed(kLine, count, [](Line& line, uint64_t i) {
      for (size_t word = 1; word < 8; ++word) line.words[word].store(i + word, std::memory_order_relaxed);
      line.words[0].store(2 * i + 1, std::memory_order_release);
      while (line.words[0].load(std::memory_order_acquire) != 2 * i + 2) {
      }
    });
  }
  // Every payload word that the far side has read, added up; for the check.
  uint64_t digest() const { return line().digest; }

 private:
  static constexpr uint32_t kWord = 0;
  static constexpr uint32_t kLine = 1;
  static constexpr uint32_t kKinds = 2;
  static constexpr uint32_t kLines = 32;
  struct alignas(4096) Line {
    std::atomic<uint64_t> words[8];
    alignas(128) uint64_t digest;
  };
  struct Lines {
    Line of[kLines];
  };
  Line& line() const { return lines_->of[line_]; }

  template <class Exchange>
  double timed(uint32_t kind, uint32_t count, Exchange&& exchange) {
    Pinned near(0);
    line_ = (line_ + 1) % kLines;
    Line& line = this->line();
    line.words[0].store(0, std::memory_order_relaxed);
    peer_.start(line_ * kKinds + kind, count + 1);
    exchange(line, 0);
    const double begin = now_ns();
    for (uint64_t i = 1; i <= count; ++i) exchange(line, i);
    const double end = now_ns();
    peer_.join();
    return (end - begin) / count;
  }
  void answer_words(uint32_t count) {
    Line& line = this->line();
    for (uint64_t i = 0; i < count; ++i) {
      while (line.words[0].load(std::memory_order_acquire) != 2 * i + 1) {
      }
      line.words[0].store(2 * i + 2, std::memory_order_release);
    }
  }
  void answer_lines(uint32_t count) {
    Line& line = this->line();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; ++i) {
      while (line.words[0].load(std::memory_order_acquire) != 2 * i + 1) {
      }
      for (size_t word = 1; word < 8; ++word) sum += line.words[word].load(std::memory_order_relaxed);
      line.words[0].store(2 * i + 2, std::memory_order_release);
    }
    line.digest = sum;
  }

  Shared<Lines> lines_;
  uint32_t line_ = 0;  // of the batch; each side has its own copy
  Peer peer_;
};

}  // namespace simpler::bench
