// The words through which a scheduler and one core talk, and the block that the core gets.
//
// The scheduler fills the payload and stores a task number in `command`; the core answers in `condition`: the number
// when it starts, the number with the top bit when it is done. Numbers grow by one per block on this core and skip the
// reserved range at the top, so an answer is never mistaken for an older one. Anyone may read the two words to learn
// what a core does; a core that shares its scheduler's thread uses the same words without waiting for them.
#pragma once

#include <atomic>
#include <cstdint>

#include "simpler/kernel.h"

namespace simpler::device {

inline constexpr uint32_t kCoreExit = 0x7FFFFFF0;
inline constexpr uint32_t kCoreIdle = 0x7FFFFFFD;
inline constexpr uint32_t kCoreDone = 0x80000000;

// The next number after `last`: 1 … below the reserved range, then from 1 again.
constexpr uint32_t next_command(uint32_t last) {
  return last + 1 >= kCoreExit ? 1 : last + 1;
}

enum class CoreState : uint8_t { kIdle, kDispatched, kRunning, kDone };

// What the two words say together.
constexpr CoreState core_state(uint32_t command, uint32_t condition) {
  if (command == kCoreIdle) return CoreState::kIdle;
  if (condition == command) return CoreState::kRunning;
  if (condition == (command | kCoreDone)) return CoreState::kDone;
  return CoreState::kDispatched;
}

struct Payload {
  kernel::LocalContext local;
  kernel::GlobalContext global;
  kernel::KernelEntry entry;
  int64_t args[kernel::kArgumentSlots];
};

class alignas(64) CoreLine {
 public:
  // Scheduler's side. The release store publishes the payload.
  uint32_t dispatch() {
    sequence_ = next_command(sequence_);
    command_.store(sequence_, std::memory_order_release);
    return sequence_;
  }
  bool done(uint32_t command) const { return condition_.load(std::memory_order_acquire) == (command | kCoreDone); }
  void idle() { command_.store(kCoreIdle, std::memory_order_relaxed); }

  // Core's side.
  uint32_t accept() {
    const uint32_t command = command_.load(std::memory_order_acquire);
    condition_.store(command, std::memory_order_relaxed);
    return command;
  }
  void finish(uint32_t command) { condition_.store(command | kCoreDone, std::memory_order_release); }

  CoreState state() const {
    return core_state(command_.load(std::memory_order_relaxed), condition_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<uint32_t> command_{kCoreIdle};
  std::atomic<uint32_t> condition_{0};
  uint32_t sequence_ = 0;
};

}  // namespace simpler::device
