// The shared mapping between a parent and one child: where everything lies.
//
// Parent writes: lines (until they are ready), cancel words, shutdown word, control request. Child writes: answers in
// word 0 of its lines, reports, control reply, start-up record, statistics, its trace of progress. Every group has its
// own pair of cache lines. The whole mapping is secured before the fork and zero is the valid initial state of every
// field but the header. Control is a channel of its own: a slow command never holds back a task line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/wake_word.h"
#include "wire/dispatch_line.h"
#include "wire/layout.h"
#include "wire/report.h"

namespace simpler::wire {

inline constexpr uint32_t kMailboxMagic = 0x53424D31;  // "SBM1"
inline constexpr uint32_t kMailboxVersion = 1;
inline constexpr uint32_t kControlPayloadBytes = 4096;
inline constexpr uint32_t kStartupTextBytes = 4096;
inline constexpr uint32_t kCancelWords = 16;  // as many runs as may be non-terminal by default

// Commands of the control channel; the numbers below 32 are the documented ones.
enum class ControlCommand : uint32_t {
  kMalloc = 0,
  kFree = 1,
  kCopyTo = 2,
  kCopyFrom = 3,
  kPrepare = 4,
  kRegister = 5,
  kUnregister = 6,
  kAllocDomain = 7,
  kReleaseDomain = 8,
  kCommInit = 9,
  kPythonRegister = 10,
  kPythonUnregister = 11,
  kPythonImportRegister = 12,
  kImportRelease = 13,
  kRegionAllocate = 16,
  kRegionRelease = 17,
  kCommittedDeviceMemory = 18,
  kDeviceMemoryInfo = 32,
  kPing = 33,
};

struct MailboxHeader {
  uint32_t magic;
  uint32_t version;
  uint32_t depth;  // lines in use, 1..kMaxLines
  uint32_t incarnation;
  std::array<uint8_t, kCacheLinePair - 16> padding;
};

// Parent to child, read by the child between tasks.
struct alignas(kCacheLinePair) ParentWords {
  uint32_t shutdown;                             // 0 to 1, never back
  uint32_t cancel_count;                         // grows by one per cancel; cancel i is in word i % kCancelWords
  std::array<uint32_t, kCancelWords> cancelled;  // low halves of run ids whose unstarted lines answer SKIPPED
  uint32_t side_taken;  // sequence of the newest side report that the parent has read; until then it is not overwritten
  std::array<uint8_t, kCacheLinePair - 12 - 4 * kCancelWords> padding;
};

struct StartupRecord {
  uint32_t state;  // MailboxState: IDLE, then INIT_READY or INIT_FAILED; released last
  uint32_t pid;
  uint32_t granted_depth;
  uint32_t native_runs;
  uint32_t code;  // StatusCode of a failure
  uint32_t text_len;
  std::array<char, kStartupTextBytes> text;
  std::array<uint8_t, kCacheLinePair - 24> padding;
};

struct ControlRequest {
  uint64_t head;  // sequence 32, MailboxState 8; written last with release
  uint32_t command;
  uint32_t payload_len;
  std::array<uint64_t, 4> args;
  std::array<uint8_t, kControlPayloadBytes> payload;
  std::array<uint8_t, kCacheLinePair - 48> padding;
};

struct ControlReply {
  uint64_t head;     // the request's sequence, CONTROL_DONE; written last with release
  uint32_t code;     // StatusCode
  int32_t run_code;  // documented chip code, 0 = none
  uint64_t result;
  uint32_t payload_len;
  uint32_t text_len;  // error text, packed after the payload
  std::array<uint8_t, kControlPayloadBytes> payload;
  std::array<uint8_t, kCacheLinePair - 32> padding;
};

// Child to parent, read at leisure.
struct alignas(kCacheLinePair) ChildStatistics {
  uint64_t busy_ns;  // inside user code and kernels
  uint64_t tasks;
  uint64_t failed;
  uint64_t skipped;
  uint64_t started_sequence;  // of the line whose code started last, plus 1 << 32; 0 when the child is idle
  uint64_t started_ns;        // monotonic clock when the child last stopped being idle; 0 when it is idle
  std::array<uint64_t, 10> reserved;
};
static_assert(sizeof(ChildStatistics) == kCacheLinePair);

struct Mailbox {
  MailboxHeader header;
  WakeWord child_wake;  // the child sleeps here; the parent wakes it after a line, a cancel, a command, a shutdown
  ParentWords parent;
  ChildStatistics statistics;
  std::array<DispatchLine, kMaxLines> lines;
  std::array<Report, kMaxLines> reports;
  SideReport side;
  alignas(kCacheLinePair) ControlRequest request;
  alignas(kCacheLinePair) ControlReply reply;
  WakeWord control_wake;  // the caller of a control command sleeps here; the child wakes it after the reply
  alignas(kCacheLinePair) StartupRecord startup;
};
static_assert(sizeof(MailboxHeader) == kCacheLinePair && sizeof(ParentWords) == kCacheLinePair);
static_assert(alignof(Mailbox) == kCacheLinePair && offsetof(Mailbox, child_wake) == 128);
static_assert(offsetof(Mailbox, lines) == 512 && offsetof(Mailbox, reports) == 512 + 64 * kMaxLines);

inline constexpr uint64_t kMailboxBytes = (sizeof(Mailbox) + 4095) / 4096 * 4096;

// Called once by the parent on zeroed memory.
void initialise(Mailbox& mailbox, uint32_t depth, uint32_t incarnation);
// Called by both sides after mapping.
Status validate(const MailboxHeader& header);

}  // namespace simpler::wire
