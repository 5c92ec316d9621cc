// PPY(n) and FUT(n): a round trip when there are more runnable processes than processors, or when both sides sleep.
//
// n peers, each with a request and a reply word 128 bytes apart; the near side visits them in turn, one exchange at a
// time. PPY waits with 50 pauses and then yields in a loop; FUT waits on a futex at once and the poster wakes. Nobody
// is pinned unless the peers are told to be. `slept_hop` is one FUT exchange after both sides have slept for a while.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <time.h>

#include "harness/harness.h"
#include "yardsticks/peer.h"

namespace simpler::bench {

class CrowdYardstick {
 public:
  // cpu < 0 leaves the peers unpinned.
  explicit CrowdYardstick(uint32_t peers, int cpu = -1) {
    for (uint32_t i = 0; i < peers; ++i) {
      peers_.emplace_back(cpu, [this, i](uint32_t kind, uint32_t count) { answer(i, kind, count); });
    }
  }

  // ns for one exchange, `count` exchanges with each peer.
  double ppy(uint32_t count) { return timed(kYield, count); }
  double fut(uint32_t count) { return timed(kFutex, count); }

  // ns for one FUT exchange with the first peer, begun after `idle_ns` in which both sides slept.
  double slept_hop(int64_t idle_ns) {
    begin_batch(kFutex, 1, 1);
    sleep_for(idle_ns);
    const double begin = now_ns();
    exchange(0, kFutex, 1);
    const double end = now_ns();
    peers_[0].join();
    return end - begin;
  }

  static void sleep_for(int64_t ns) {
    timespec span{ns / 1'000'000'000, ns % 1'000'000'000};
    while (::nanosleep(&span, &span) != 0) {
    }
  }

 private:
  static constexpr uint32_t kMaxPeers = 16;
  static constexpr uint32_t kYield = 0;
  static constexpr uint32_t kFutex = 1;
  struct Pair {
    alignas(128) std::atomic<uint32_t> request;
    alignas(128) std::atomic<uint32_t> reply;
  };
  struct Pairs {
    Pair of[kMaxPeers];
  };

  static void wait_for(std::atomic<uint32_t>& word, uint32_t wanted, uint32_t kind) {
    for (uint32_t spins = 0;; ++spins) {
      const uint32_t seen = word.load(std::memory_order_acquire);
      if (seen == wanted) return;
      if (kind == kFutex) {
        futex_wait(word, seen);
      } else if (spins < 50) {
        pause_briefly();
      } else {
        ::sched_yield();
      }
    }
  }
  static void post(std::atomic<uint32_t>& word, uint32_t value, uint32_t kind) {
    word.store(value, std::memory_order_release);
    if (kind == kFutex) futex_wake(word);
  }
  void exchange(uint32_t peer, uint32_t kind, uint32_t number) {
    post(pairs_->of[peer].request, number, kind);
    wait_for(pairs_->of[peer].reply, number, kind);
  }
  void answer(uint32_t peer, uint32_t kind, uint32_t count) {
    for (uint32_t number = 1; number <= count; ++number) {
      wait_for(pairs_->of[peer].request, number, kind);
      post(pairs_->of[peer].reply, number, kind);
    }
  }
  void begin_batch(uint32_t kind, uint32_t count, size_t peers) {
    for (size_t i = 0; i < peers; ++i) {
      pairs_->of[i].request.store(0, std::memory_order_relaxed);
      pairs_->of[i].reply.store(0, std::memory_order_relaxed);
      peers_[i].start(kind, count);
    }
  }
  double timed(uint32_t kind, uint32_t count) {
    begin_batch(kind, count + 1, peers_.size());
    for (uint32_t peer = 0; peer < peers_.size(); ++peer) exchange(peer, kind, 1);
    const double begin = now_ns();
    for (uint32_t number = 2; number <= count + 1; ++number) {
      for (uint32_t peer = 0; peer < peers_.size(); ++peer) exchange(peer, kind, number);
    }
    const double end = now_ns();
    for (const Peer& peer : peers_) peer.join();
    return (end - begin) / (static_cast<double>(count) * static_cast<double>(peers_.size()));
  }

  Shared<Pairs> pairs_;
  std::deque<Peer> peers_;
};

// Processes that compute and never wait, as many as are asked for; the others sleep. Strangers to what is measured:
// make this before anything else in the program, so that they inherit nothing from it.
class ComputingProcesses {
 public:
  explicit ComputingProcesses(uint32_t most) {
    for (uint32_t i = 0; i < most; ++i) {
      peers_.emplace_back(-1, [this](uint32_t, uint32_t) {
        for (uint64_t value = 1; stop_->value.load(std::memory_order_relaxed) == 0;) {
          for (int step = 0; step < 10'000; ++step) value = value * 6364136223846793005U + 1442695040888963407U;
          keep(value);
        }
      });
    }
  }

  // Lets `count` of them compute, until `stop`: on the first `cpus` processors by turns, or with 0 where the kernel
  // puts them.
  void start(uint32_t count, uint32_t cpus = 0) {
    stop_->value.store(0, std::memory_order_relaxed);
    for (; running_ < count; ++running_) {
      const pid_t pid = peers_[running_].pid();
      cpus == 0 ? unpin(pid) : pin_to_cpu(static_cast<int>(running_ % cpus), pid);
      peers_[running_].start(0, 0);
    }
  }
  void stop() {
    stop_->value.store(1, std::memory_order_relaxed);
    for (; running_ > 0; --running_) peers_[running_ - 1].join();
  }

 private:
  struct Word {
    std::atomic<uint32_t> value;
  };
  Shared<Word> stop_;
  std::deque<Peer> peers_;
  uint32_t running_ = 0;
};

}  // namespace simpler::bench
