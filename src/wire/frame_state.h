// The thirteen states of a frame and who may move it from which to which, as one table.
//
// A task line goes IDLE, TASK_READY, then either straight to its end or through FRAME_STAGED and TASK_LAUNCHED; a line
// that is prepared ahead goes IDLE, PREPARE_READY, FRAME_STAGED, and waits there for the parent's ACTIVATE. A line that
// has ended may carry the next task at once, without a stop at IDLE. Start-up, control and shutdown words use the
// remaining states. Whoever reads a state that the other side wrote asks the table before it believes it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simpler/enums.h"

namespace simpler::wire {

inline constexpr size_t kFrameStates = 13;

enum class Mover : uint8_t { kNobody, kParent, kChild };

struct FrameMove {
  MailboxState from;
  MailboxState to;
  Mover mover;
};

inline constexpr std::array kFrameMoves = std::to_array<FrameMove>({
    {MailboxState::kIdle, MailboxState::kTaskReady, Mover::kParent},
    {MailboxState::kIdle, MailboxState::kPrepareReady, Mover::kParent},
    {MailboxState::kIdle, MailboxState::kControlRequest, Mover::kParent},
    {MailboxState::kIdle, MailboxState::kShutdown, Mover::kParent},
    {MailboxState::kIdle, MailboxState::kInitReady, Mover::kChild},
    {MailboxState::kIdle, MailboxState::kInitFailed, Mover::kChild},
    {MailboxState::kInitReady, MailboxState::kIdle, Mover::kParent},
    {MailboxState::kTaskReady, MailboxState::kFrameStaged, Mover::kChild},
    {MailboxState::kTaskReady, MailboxState::kTaskLaunched, Mover::kChild},
    {MailboxState::kTaskReady, MailboxState::kTaskDone, Mover::kChild},
    {MailboxState::kTaskReady, MailboxState::kTaskFailed, Mover::kChild},
    {MailboxState::kPrepareReady, MailboxState::kFrameStaged, Mover::kChild},
    {MailboxState::kPrepareReady, MailboxState::kTaskFailed, Mover::kChild},
    {MailboxState::kFrameStaged, MailboxState::kActivate, Mover::kParent},
    {MailboxState::kFrameStaged, MailboxState::kTaskLaunched, Mover::kChild},
    {MailboxState::kFrameStaged, MailboxState::kTaskFailed, Mover::kChild},
    {MailboxState::kActivate, MailboxState::kTaskLaunched, Mover::kChild},
    {MailboxState::kActivate, MailboxState::kTaskFailed, Mover::kChild},
    {MailboxState::kTaskLaunched, MailboxState::kTaskDone, Mover::kChild},
    {MailboxState::kTaskLaunched, MailboxState::kTaskFailed, Mover::kChild},
    {MailboxState::kTaskDone, MailboxState::kIdle, Mover::kParent},
    {MailboxState::kTaskDone, MailboxState::kTaskReady, Mover::kParent},
    {MailboxState::kTaskDone, MailboxState::kPrepareReady, Mover::kParent},
    {MailboxState::kTaskFailed, MailboxState::kIdle, Mover::kParent},
    {MailboxState::kTaskFailed, MailboxState::kTaskReady, Mover::kParent},
    {MailboxState::kTaskFailed, MailboxState::kPrepareReady, Mover::kParent},
    {MailboxState::kControlRequest, MailboxState::kControlDone, Mover::kChild},
    {MailboxState::kControlDone, MailboxState::kIdle, Mover::kParent},
    {MailboxState::kControlDone, MailboxState::kControlRequest, Mover::kParent},
});

// Who may make that one move.
constexpr Mover mover(MailboxState from, MailboxState to) {
  for (const FrameMove& move : kFrameMoves) {
    if (move.from == from && move.to == to) return move.mover;
  }
  return Mover::kNobody;
}

// True when the child alone can have brought a frame from one state to the other, in one move or in several of which
// the parent saw only the last. Any byte may be asked about.
constexpr bool child_may_bring(MailboxState from, MailboxState to) {
  if (!is_known(from) || !is_known(to)) return false;
  if (mover(from, to) == Mover::kChild) return true;
  for (const FrameMove& move : kFrameMoves) {
    if (move.from == from && move.mover == Mover::kChild && child_may_bring(move.to, to)) return true;
  }
  return false;
}

constexpr bool ends_task(MailboxState state) {
  return state == MailboxState::kTaskDone || state == MailboxState::kTaskFailed;
}

static_assert(child_may_bring(MailboxState::kTaskReady, MailboxState::kTaskDone));
static_assert(child_may_bring(MailboxState::kActivate, MailboxState::kTaskDone));  // launched in between
static_assert(!child_may_bring(MailboxState::kPrepareReady, MailboxState::kActivate));
static_assert(!child_may_bring(MailboxState::kTaskDone, MailboxState::kTaskReady));

}  // namespace simpler::wire
