// Commands to a child beside its task lines: one at a time, each with a deadline.
//
// Called by user threads, never under the engine's lock; the channel has its own words, area and wake word, so a child
// that is stuck in a command only delays other commands. A call whose deadline passes leaves the command with the
// child: the next call waits for that answer first, throws it away, and goes on.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "base/wake_word.h"
#include "lane/handler.h"
#include "wire/mailbox.h"

namespace simpler::lane {

class ControlChannel {
 public:
  // `worker` names the child in messages.
  ControlChannel(wire::Mailbox& mailbox, WakePolicy& policy, std::string worker);

  // The child's answer, or why there is none: its own failure, kTimeout, kPeerLost after `lose`.
  Result<ControlAnswer> call(const ControlCall& call, Deadline deadline) SIMPLER_EXCLUDES(mutex_);
  // The child is dead: ends the call that waits, and refuses later ones with `why`.
  void lose(const Status& why) SIMPLER_EXCLUDES(mutex_);
  // True while a command whose caller gave up is still with the child.
  bool wedged() const SIMPLER_EXCLUDES(mutex_);

 private:
  Result<ControlAnswer> exchange(const ControlCall& call, Deadline deadline) SIMPLER_EXCLUDES(mutex_);
  bool await_answer(uint32_t sequence, Deadline deadline);
  bool answered(uint32_t sequence) const;
  Result<ControlAnswer> read_answer(const ControlCall& call) const;
  Status lost_reason() const SIMPLER_EXCLUDES(mutex_);

  wire::Mailbox& mailbox_;
  WakePolicy& policy_;
  const std::string worker_;
  uint32_t sequence_ = 0;          // of the newest request; used by the thread that has the turn
  uint32_t last_command_ = 0;      // what that request asked; likewise
  std::atomic<bool> lost_{false};  // `lose` sets it after why_lost_; pairs with the look in await_answer
  mutable Mutex mutex_;
  CondVar turn_ended_;
  bool turn_taken_ SIMPLER_GUARDED_BY(mutex_) = false;
  Status why_lost_ SIMPLER_GUARDED_BY(mutex_);
};

}  // namespace simpler::lane
