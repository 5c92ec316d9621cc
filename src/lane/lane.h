// The only door to a child: push dispatch lines, poll completions, learn that the far end is gone.
//
// A lane is driven by one thread at a time, the holder of the engine; nothing here blocks and nothing waits for the
// child. What serves the far end (a chip, a native function, a Python callable, a nested worker) is invisible from
// here. Lines are answered in push order. A lane that is not alive takes no more work; its unanswered lines complete as
// endpoint failures after `lose`, which the owner calls once the child is known to be dead, never earlier, so that
// nothing a dying child may still write to is reused.
#pragma once

#include <cstdint>
#include <span>

#include "simpler/enums.h"
#include "simpler/status.h"
#include "wire/dispatch_line.h"

namespace simpler::lane {

inline constexpr uint32_t kMaxQueueDepth = wire::kMaxLines;  // an after-mask has one bit for each earlier line

// How a line ended.
using Outcome = EndpointOutcome;

const char* to_string(Outcome outcome);

// What take_failure says of a kSkipped completion.
Status skipped_task();

struct LaneInfo {
  WorkerType type{};
  uint32_t worker_id = 0;
  uint32_t queue_depth = kMaxQueueDepth;  // lines that may be unanswered at once, 1..32
  bool in_order = true;                   // the far end runs lines in push order, so after-masks may be used
  uint32_t incarnation = 0;               // grows when a lost child is replaced
};

// One answered line. Slot and generation are the parent's own copy of what it pushed, never read back from the child.
struct Completion {
  uint32_t line = 0;
  uint32_t slot = 0;
  uint32_t slot_generation = 0;
  Outcome outcome = Outcome::kSuccess;
};

class Lane {
 public:
  virtual ~Lane() = default;

  virtual const LaneInfo& info() const = 0;
  // True while the lane takes work. Ends inside `poll` or `lose` only, so that a driver may push until its next poll.
  bool alive() const { return alive_; }
  // Lines that can be pushed now; 0 on a lane that is not alive.
  virtual uint32_t free_lines() const = 0;

  // Hands one task to the child, composed with sequence 0 and state IDLE, which the lane fills in; needs
  // free_lines() > 0.
  // Bit i of the after-mask names the line pushed i + 1 pushes before this one on the same lane.
  // Never blocks; the only system call is the wake of a sleeping child.
  virtual void push_line(const wire::LineWords& line) = 0;
  void push(const wire::Dispatch& dispatch) { push_line(wire::compose(dispatch)); }
  // Writes answered lines to `out` in push order and frees them. Never blocks.
  virtual uint32_t poll(std::span<Completion> out) = 0;
  // Why a completion was not a success, with the full text; ask once, before the same line completes again.
  virtual Status take_failure(const Completion& completion) = 0;

  // Lines of that run which have not started answer kSkipped.
  virtual void cancel(uint32_t run_low32) = 0;
  // The child is dead: answers it left count, every other unanswered line completes as kEndpointFailure with `why`.
  virtual void lose(Status why) = 0;
  // Ok while alive; else why not: the reason given to `lose`, or what was found wrong with the child's answers. A lane
  // may be condemned (not alive) before it is lost; its owner then ends the child and calls `lose`.
  virtual Status health() const = 0;

 protected:
  void end_life() { alive_ = false; }

 private:
  bool alive_ = true;
};

}  // namespace simpler::lane
