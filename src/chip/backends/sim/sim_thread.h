// SimThread: one OS thread that runs blocks of a simulated chip. It is parked, drives the scheduler, or is inside a
// kernel; a word with its phase and the number of the block decides every race with the watch.
//
// A thread that the watch declared lost owns nothing any more: it may still be inside a kernel, and once it comes back
// it ends without touching the chip. So a lost SimThread is never destroyed.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/wake_word.h"
#include "device/core_line.h"
#include "device/scheduler.h"
#include "simpler/kernel.h"

namespace simpler::chip::sim {

class SimCores;

// A logical core. One block at a time; replaced when a block never leaves it.
struct SimCore {
  device::CoreLine line;
  device::Payload payload;
  uint32_t id = 0;
};

enum class Phase : uint64_t {
  kParked = 0,
  kDriving = 1,
  kInKernel = 2,  // holds one of the chip's seats
  kDetached = 3,  // in a kernel, its seat given away
  kLost = 4,
};

constexpr uint64_t phase_word(Phase phase, uint64_t block) {
  return static_cast<uint64_t>(phase) | block << 3;
}
constexpr Phase phase_of(uint64_t word) {
  return static_cast<Phase>(word & 7);
}
constexpr uint64_t block_of(uint64_t word) {
  return word >> 3;
}

class SimThread {
 public:
  SimThread(SimCores& chip, uint32_t number);
  ~SimThread();
  SimThread(const SimThread&) = delete;
  SimThread& operator=(const SimThread&) = delete;

  void start();        // creates the OS thread
  void order_drive();  // from whoever took it off the parked list
  void order_quit_and_join();
  void detach_for_good();  // after it was declared lost

  // The scheduler's platform.
  uint32_t first_shape() const { return number_ & 1; }
  void offer();
  device::Execution execute(const device::Ticket& ticket);
  bool reattach();

  // Called by kernels through their context.
  bool pause();

  // For the watch.
  std::atomic<uint64_t>& word() { return word_; }
  uint64_t word() const { return word_.load(std::memory_order_acquire); }
  Nanos cpu_time() const;
  uint64_t pauses() const { return pauses_.load(std::memory_order_relaxed); }
  device::Ticket ticket() const;  // of the current block
  uint32_t number() const { return number_; }

  // What the watch saw of the current block; belongs to the watch.
  struct Seen {
    uint64_t block = ~uint64_t{0};
    Nanos since = 0;
    Nanos cpu = 0;
    uint64_t pauses = 0;
  } seen;

 private:
  enum class Order : uint32_t { kNone, kDrive, kQuit };

  void main();
  void drive();
  bool call(kernel::KernelEntry entry, int64_t* args);
  void fill(SimCore& core, const device::Ticket& ticket);
  void nap();

  SimCores& chip_;
  const uint32_t number_;
  std::thread thread_;
  std::atomic<clockid_t> cpu_clock_{-1};  // written once by the thread; -1 until then
  WakeWord park_;
  std::atomic<Order> order_{Order::kNone};  // released by the orderer, acquired by the parked thread

  // Phase and block number. The thread and the watch both change it by compare-exchange while a block runs: exactly one
  // of "the block ended", "it was detached" and "it was lost" wins. Release on entry publishes ticket_.
  alignas(64) std::atomic<uint64_t> word_{phase_word(Phase::kParked, 0)};
  std::atomic<uint64_t> ticket_{0};         // task, block and core of the current block, for messages
  std::atomic<uint64_t> pauses_{0};         // calls of pause() so far; only compared
  device::Scheduler* scheduler_ = nullptr;  // of the run it drives; a lost thread keeps it with the run
  std::string thrown_what_, thrown_type_;   // of the last kernel that threw
  uint64_t block_number_ = 0;
  uint32_t pauses_in_block_ = 0;
  bool seated_ = false;
  uint64_t kernel_ticks_ = 0;
  uint64_t blocks_ = 0;
};

}  // namespace simpler::chip::sim
