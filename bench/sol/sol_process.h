// The yardstick's way to a child process: a ring of 256-byte records there, a ring of 32-bit ids back, both spun on.
//
// Part of the yardstick: no sleeping, no failures, no bounds but the window. The child computes nothing unless `cells`
// is asked for, then as workloads.h says (the last tensor is written, the others are read; kInOut does both).
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sol/sol.h"

namespace simpler::sol {

class Child {
 public:
  static constexpr uint32_t kRing = 256;

  // `use_cells`: checking mode, cells are then in `cells()` (two buffers of kCellsPerBuffer).
  Child(bool use_cells, int cpu) : shared_(map_shared()) {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) std::abort();
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(cpu), &set);
    sched_setaffinity(0, sizeof(set), &set);
    serve(use_cells);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(shared_, sizeof(Shared));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void push(uint32_t id, const TensorArg* tensors, uint32_t count) {
    Record& record = shared_->records[pushed_ % kRing];
    record.id = id;
    record.count = count;
    std::memcpy(record.tensors, tensors, count * sizeof(TensorArg));
    record.sequence.store(++pushed_, std::memory_order_release);
  }
  bool pop(uint32_t* id) {
    if (popped_ == seen_) seen_ = shared_->ended.load(std::memory_order_acquire);
    if (popped_ == seen_) return false;
    *id = shared_->ids[popped_++ % kRing];
    return true;
  }
  uint32_t unanswered() const { return pushed_ - popped_; }
  uint64_t* cells() { return shared_->cells; }
  static constexpr uint32_t kCellsPerBuffer = 20'000;

 private:
  struct alignas(256) Record {
    std::atomic<uint32_t> sequence;
    uint32_t id;
    uint32_t count;
    uint32_t pad;
    TensorArg tensors[10];
  };
  struct Shared {
    Record records[kRing];
    alignas(128) std::atomic<uint32_t> ended;
    alignas(128) uint32_t ids[kRing];
    alignas(128) uint64_t cells[2 * kCellsPerBuffer];
  };

  static Shared* map_shared() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<Shared*>(memory);
  }
  [[noreturn]] void serve(bool use_cells) {
    for (uint32_t next = 1;; ++next) {
      Record& record = shared_->records[(next - 1) % kRing];
      while (record.sequence.load(std::memory_order_acquire) != next) __builtin_ia32_pause();
      if (use_cells) run(record);
      shared_->ids[(next - 1) % kRing] = record.id;
      shared_->ended.store(next, std::memory_order_release);
    }
  }
  void run(const Record& record) {
    uint64_t value = 1;
    bool any = false;
    for (uint32_t i = 0; i < record.count; ++i) {
      if (record.tensors[i].mode == Mode::kOut) continue;
      any = true;
      value = 31 * value + cell(record.tensors[i]);
    }
    if (!any) value = record.id;
    for (uint32_t i = 0; i < record.count; ++i) {
      if (record.tensors[i].mode != Mode::kIn) cell(record.tensors[i]) = value;
    }
  }
  uint64_t& cell(const TensorArg& tensor) {
    return shared_->cells[(tensor.key >> 32) * kCellsPerBuffer + static_cast<uint32_t>(tensor.key)];
  }

  Shared* shared_;
  pid_t pid_ = 0;
  uint32_t pushed_ = 0;
  uint32_t popped_ = 0;
  uint32_t seen_ = 0;
};

// Submits a whole workload, four tasks between two pumps, and returns when the last task has ended.
template <class Tasks>
void run_through(Graph& graph, Child& child, const Tasks& tasks, uint32_t window) {
  graph.reset();
  uint32_t ended = 0;
  const auto pump = [&] {
    uint32_t id = 0;
    while (child.pop(&id)) {
      graph.complete(id);
      ++ended;
    }
    while (child.unanswered() < window && graph.pop_ready(&id)) {
      child.push(id, graph.arguments(id), graph.task(id).tensors);
    }
  };
  uint32_t submitted = 0;
  for (const auto& tensors : tasks) {
    graph.submit(1, tensors);
    if (++submitted % 4 == 0) pump();
  }
  while (ended != submitted) pump();
}

}  // namespace simpler::sol
