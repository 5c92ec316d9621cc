// The child's end of a shared-memory mailbox: takes lines in order, runs them, answers each in its own line.
//
// Used by the child's main thread only. Between two lines it looks at the shutdown word, the cancelled runs and the
// control channel; with nothing to do it waits on the child's wake word. It trusts no line: a word 0 that is not the
// next legal one, an entry that is not runnable, or an after-mask that reaches before the first entry ends `serve`,
// with a note for the parent in the line's report. The parent learns of it by the child's death.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/wake_word.h"
#include "lane/entry_history.h"
#include "lane/handler.h"
#include "wire/mailbox.h"

namespace simpler::lane {

class MailboxChild {
 public:
  // `doorbell` is rung after every answer. `faults` may be null; a point that fails ends `serve` right there:
  // "lane.child.taken" before the task runs, "lane.child.answering" with the answer not yet written,
  // "lane.child.answered" before the doorbell, "lane.child.control" with a control call taken.
  MailboxChild(wire::Mailbox& mailbox, WakeWord& doorbell, WakePolicy& policy, FaultPlan* faults = nullptr);

  // Ok once the parent asked for shutdown; kCorrupt when something in the mailbox cannot be right.
  Status serve(Handler& handler);

 private:
  bool something_to_do() const;
  Status attend(Handler& handler);
  Status run_line(Handler& handler, uint64_t head);
  Status finish(uint64_t head, const Status& ended, bool skipped);
  Status serve_control(Handler& handler, uint64_t head);
  void report(const Status& ended);
  Status refuse(const std::string& why);
  bool is_cancelled(uint32_t run);
  void begin_stretch();
  void end_stretch();

  wire::DispatchLine& line() const { return mailbox_.lines[line_]; }
  uint32_t next_line() const { return line_ + 1 == depth_ ? 0 : line_ + 1; }

  wire::Mailbox& mailbox_;
  WakeWord& doorbell_;
  WakePolicy& policy_;
  FaultPlan* faults_;
  const uint32_t depth_;
  uint32_t line_ = 0;
  uint32_t sequence_ = 1;                         // of the next entry
  std::array<uint64_t, wire::kMaxLines> left_{};  // word 0 that this end left in each line
  uint64_t control_head_ = 0;                     // of the last request that was answered
  EntryHistory history_;
  uint32_t cancels_seen_ = 0;
  uint32_t judged_run_ = 0;  // the run that judged_cancelled_ is about, valid while cancels_seen_ is current
  bool judged_cancelled_ = false;
  uint32_t side_sequence_ = 0;  // of the failure in the side area
  // A stretch runs from the first work after an idle moment to the next idle moment, where idle means that nothing came
  // for as long as a wait spins (about a microsecond); inside a stretch no clock is read.
  Nanos stretch_began_ = 0;  // 0: idle
  Nanos busy_ = 0;           // all stretches that have ended
  uint64_t tasks_ = 0;
  uint64_t failed_ = 0;
  uint64_t skipped_ = 0;
};

}  // namespace simpler::lane
