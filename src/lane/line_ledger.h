// The parent's private record of a lane's lines: which are unanswered, and what was pushed in them.
//
// Lines are used in turn and answered in turn, so the unanswered ones are a window over a ring. Nothing in here is
// shared with the child; a completion is made from this record, never from what the child left in the line.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "lane/lane.h"
#include "simpler/status.h"

namespace simpler::lane {

class LineLedger {
 public:
  struct Entry {
    uint64_t head = 0;  // word 0 as pushed, or as the last legal step left it
    uint32_t slot = 0;
    uint32_t slot_generation = 0;
  };

  explicit LineLedger(uint32_t depth) : depth_(depth) { SIMPLER_CHECK(depth >= 1 && depth <= kMaxQueueDepth, depth); }

  uint32_t free() const { return depth_ - unanswered(); }
  uint32_t unanswered() const { return pushed_ - answered_; }
  // Counts from 1, so a zeroed line never looks pushed.
  uint32_t next_sequence() const { return pushed_ + 1; }
  uint32_t next_line() const { return next_line_; }
  uint32_t oldest_line() const { return oldest_line_; }
  uint32_t oldest_sequence() const { return answered_ + 1; }
  Entry& oldest() { return entries_[oldest_line_]; }

  void push(const Entry& entry) {
    SIMPLER_CHECK(free() > 0, depth_, pushed_);
    entries_[next_line_] = entry;
    next_line_ = after(next_line_);
    ++pushed_;
  }

  // Frees the oldest line.
  Completion answer(Outcome outcome) {
    const Entry& entry = entries_[oldest_line_];
    const Completion completion{oldest_line_, entry.slot, entry.slot_generation, outcome};
    oldest_line_ = after(oldest_line_);
    ++answered_;
    return completion;
  }

  void keep_failure(uint32_t line, Status why) { failures_[line] = std::move(why); }
  Status take_failure(uint32_t line) { return std::exchange(failures_[line], Status::ok()); }

 private:
  uint32_t after(uint32_t line) const { return line + 1 == depth_ ? 0 : line + 1; }

  const uint32_t depth_;
  uint32_t pushed_ = 0;
  uint32_t answered_ = 0;
  uint32_t next_line_ = 0;
  uint32_t oldest_line_ = 0;
  std::array<Entry, kMaxQueueDepth> entries_{};
  std::array<Status, kMaxQueueDepth> failures_{};
};

}  // namespace simpler::lane
