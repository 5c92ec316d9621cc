// The 64-byte line that hands one task to a child and brings its answer back.
//
// | word | low to high bits                                                       |
// |    0 | sequence 32, state 8, flags 8, callable 16                              |
// |    1 | slot 32, slot generation 32                                             |
// |    2 | after-mask 32, argument block 32 (place in the arena in 8-byte units)   |
// |    3 | config 16, tensors 16, scalars 16, lease 16                             |
// |    4 | run (low half) 32, lease generation (low half) 32                       |
// |  5-7 | one inline TensorRef                                                    |
// Whoever owns the line writes words 1 to 7 relaxed and word 0 last with release; the other side loads word 0 with
// acquire and then the rest. An answer rewrites word 0 only. A line is never copied with memcpy while shared.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "simpler/enums.h"
#include "wire/layout.h"
#include "wire/tensor_ref.h"

namespace simpler::wire {

using simpler::MailboxState;
using simpler::WorkerType;

inline constexpr uint32_t kMaxLines = 32;

// Flags of word 0: the low four bits are the entry kind.
enum class EntryKind : uint8_t { kTask = 0 };
inline constexpr uint8_t kEntryKindMask = 0x0F;
inline constexpr uint8_t kFlagInlineTensor = 0x10;  // words 5-7 hold argument 0, which is then not in the block
inline constexpr uint8_t kFlagLastOfGroup = 0x20;
inline constexpr uint8_t kFlagSkipped = 0x80;  // answers only: not run because of a predecessor or a cancel
inline constexpr uint8_t kFlagsKnown = kFlagInlineTensor | kFlagLastOfGroup | kFlagSkipped;

// A line unpacked. `tensors` counts the inline one.
struct Dispatch {
  uint32_t sequence = 0;
  MailboxState state = MailboxState::kIdle;
  uint8_t flags = 0;
  uint16_t callable = 0;
  uint32_t slot = 0;
  uint32_t slot_generation = 0;
  uint32_t after_mask = 0;
  uint32_t args = 0;
  uint16_t config = 0;
  uint16_t tensors = 0;
  uint16_t scalars = 0;
  uint16_t lease = 0;
  uint32_t run = 0;
  uint32_t lease_generation = 0;
  TensorRef inline_tensor;

  friend bool operator==(const Dispatch&, const Dispatch&) = default;
};

// Word 0 unpacked.
struct LineHead {
  uint32_t sequence = 0;
  MailboxState state = MailboxState::kIdle;
  uint8_t flags = 0;
  uint16_t callable = 0;
};

struct LineWords {
  uint64_t word[8];
};

// In shared memory. Zero-initialised is valid: sequence 0, IDLE.
struct alignas(64) DispatchLine {
  uint64_t word[8];
};
static_assert(WireRecord<DispatchLine> && sizeof(DispatchLine) == 64);

constexpr uint64_t pack32(uint32_t low, uint32_t high) {
  return low | (static_cast<uint64_t>(high) << 32);
}

constexpr uint32_t low32(uint64_t word) {
  return static_cast<uint32_t>(word);
}
constexpr uint32_t high32(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

constexpr uint64_t compose_head(uint32_t sequence, MailboxState state, uint8_t flags, uint16_t callable) {
  return sequence | (static_cast<uint64_t>(state) << 32) | (static_cast<uint64_t>(flags) << 40) |
         (static_cast<uint64_t>(callable) << 48);
}

constexpr LineHead parse_head(uint64_t word0) {
  return {static_cast<uint32_t>(word0), static_cast<MailboxState>((word0 >> 32) & 0xFF),
          static_cast<uint8_t>(word0 >> 40), static_cast<uint16_t>(word0 >> 48)};
}

// The three words of a reference, each pair of halves as pack32 makes it.
constexpr std::array<uint64_t, 3> words_of(const TensorRef& ref) {
  static_assert(std::endian::native == std::endian::little && sizeof(TensorRef) == 24);
  return std::bit_cast<std::array<uint64_t, 3>>(ref);
}

constexpr LineWords compose(const Dispatch& d) {
  const std::array<uint64_t, 3> tensor = words_of(d.inline_tensor);
  return {{compose_head(d.sequence, d.state, d.flags, d.callable), pack32(d.slot, d.slot_generation),
           pack32(d.after_mask, d.args),
           d.config | (static_cast<uint64_t>(d.tensors) << 16) | (static_cast<uint64_t>(d.scalars) << 32) |
               (static_cast<uint64_t>(d.lease) << 48),
           pack32(d.run, d.lease_generation), tensor[0], tensor[1], tensor[2]}};
}

constexpr Dispatch parse(const LineWords& w) {
  const LineHead head = parse_head(w.word[0]);
  return {.sequence = head.sequence,
          .state = head.state,
          .flags = head.flags,
          .callable = head.callable,
          .slot = low32(w.word[1]),
          .slot_generation = high32(w.word[1]),
          .after_mask = low32(w.word[2]),
          .args = high32(w.word[2]),
          .config = static_cast<uint16_t>(w.word[3]),
          .tensors = static_cast<uint16_t>(w.word[3] >> 16),
          .scalars = static_cast<uint16_t>(w.word[3] >> 32),
          .lease = static_cast<uint16_t>(w.word[3] >> 48),
          .run = low32(w.word[4]),
          .lease_generation = high32(w.word[4]),
          .inline_tensor = {low32(w.word[5]), high32(w.word[5]), low32(w.word[6]), high32(w.word[6]), w.word[7]}};
}

namespace internal {

// Written out word by word: compilers do not unroll a loop over atomics, and this is the hop's critical path.
template <size_t... I>
void store_tail(DispatchLine& line, const LineWords& words, std::index_sequence<I...>) {
  (std::atomic_ref(line.word[I + 1]).store(words.word[I + 1], std::memory_order_relaxed), ...);
}
template <size_t... I>
void load_tail(const DispatchLine& line, LineWords& words, std::index_sequence<I...>) {
  auto& word = const_cast<DispatchLine&>(line).word;
  ((words.word[I + 1] = std::atomic_ref(word[I + 1]).load(std::memory_order_relaxed)), ...);
}

}  // namespace internal

// Publishes a line with that word 0; pairs with the acquire in `load_head`.
inline void store(DispatchLine& line, const LineWords& words, uint64_t word0) {
  internal::store_tail(line, words, std::make_index_sequence<7>());
  std::atomic_ref(line.word[0]).store(word0, std::memory_order_release);
}
inline void store(DispatchLine& line, const LineWords& words) {
  store(line, words, words.word[0]);
}

// Publishes a new word 0 alone: an answer, a state step, or the return to IDLE. Pairs with `load_head`.
inline void store_head(DispatchLine& line, uint64_t word0) {
  std::atomic_ref(line.word[0]).store(word0, std::memory_order_release);
}

// Moves word 0 from one value to another; false when somebody else moved it first. For FRAME_STAGED to ACTIVATE.
inline bool exchange_head(DispatchLine& line, uint64_t expected, uint64_t desired) {
  return std::atomic_ref(line.word[0])
      .compare_exchange_strong(expected, desired, std::memory_order_acq_rel, std::memory_order_acquire);
}

// Pairs with the release in `store` and `store_head`.
inline uint64_t load_head(const DispatchLine& line) {
  return std::atomic_ref(const_cast<uint64_t&>(line.word[0])).load(std::memory_order_acquire);
}

// The rest of a line whose word 0 was loaded as `word0`.
inline Dispatch load_rest(const DispatchLine& line, uint64_t word0) {
  LineWords words;
  words.word[0] = word0;
  internal::load_tail(line, words, std::make_index_sequence<7>());
  return parse(words);
}

// Word 0 of an answer to the line whose head was `head`: same sequence and callable.
constexpr uint64_t compose_answer(const LineHead& head, MailboxState state, bool skipped = false) {
  return compose_head(head.sequence, state, static_cast<uint8_t>((head.flags & 0x7F) | (skipped ? kFlagSkipped : 0)),
                      head.callable);
}

// True when a child may act on the line: a task in a state that starts work, known flags, nothing reserved set, and the
// argument counts consistent with the inline flag. Indices and offsets are checked where they are resolved.
inline bool is_runnable(const Dispatch& dispatch) {
  const bool starts = dispatch.state == MailboxState::kTaskReady || dispatch.state == MailboxState::kPrepareReady;
  if (!starts || (dispatch.flags & kEntryKindMask) != static_cast<uint8_t>(EntryKind::kTask)) return false;
  const uint8_t flags = dispatch.flags & static_cast<uint8_t>(~kEntryKindMask);
  if ((flags & ~kFlagsKnown) != 0 || (flags & kFlagSkipped) != 0 || dispatch.callable == 0) return false;
  const uint32_t inline_tensors = (flags & kFlagInlineTensor) != 0 ? 1 : 0;
  if (inline_tensors > dispatch.tensors) return false;
  const uint32_t in_block = dispatch.tensors - inline_tensors + dispatch.scalars;
  return in_block == 0 || dispatch.args != 0;
}

}  // namespace simpler::wire
