// The parent's end of a shared-memory mailbox: one 64-byte store per task, answers read from the same lines.
//
// Owned and driven by whoever holds the engine; the mailbox memory belongs to the worker and outlives the lane.
// The parent believes nothing that a child may have written: slots come from its own ledger, every answer must be the
// one legal word for the line that it stands in. Anything else condemns the lane: it takes no more work, and its owner
// ends the child.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "lane/lane.h"
#include "lane/line_ledger.h"
#include "wire/mailbox.h"

namespace simpler::lane {

struct LaneStatistics {
  Nanos busy_ns = 0;  // with the stretch that is going on
  uint64_t tasks = 0;
  uint64_t failed = 0;
  uint64_t skipped = 0;
};

class MailboxParent final : public Lane {
 public:
  // The mailbox is initialised for info.queue_depth lines and no line has been used.
  MailboxParent(const LaneInfo& info, wire::Mailbox& mailbox);

  const LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override { return alive() ? ledger_.free() : 0; }
  void push_line(const wire::LineWords& line) override;
  uint32_t poll(std::span<Completion> out) override;
  Status take_failure(const Completion& completion) override { return ledger_.take_failure(completion.line); }
  void cancel(uint32_t run_low32) override;
  void lose(Status why) override;
  Status health() const override { return health_; }

  uint32_t unanswered() const { return ledger_.unanswered(); }
  // Asks the child to leave after the line that it is at; what it leaves unanswered ends with `lose`.
  void request_shutdown();
  // What the child says about itself; safe at any time, also after its death.
  LaneStatistics statistics() const;

 private:
  enum class Sight : uint8_t { kUnanswered, kAnswered, kIllegal };

  Sight look(uint64_t head, Outcome& outcome);
  void condemn(uint64_t head);
  void answer_with_loss(Completion& completion);
  std::string child_note() const;

  LaneInfo info_;
  wire::Mailbox& mailbox_;
  LineLedger ledger_;
  Status health_;
  bool condemned_ = false;          // the oldest line cannot be believed
  bool lost_ = false;               // the child is dead
  uint32_t sequence_at_death_ = 0;  // the oldest line that a dead child left
};

}  // namespace simpler::lane
