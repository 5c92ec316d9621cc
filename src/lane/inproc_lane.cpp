#include "lane/inproc_lane.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"

namespace simpler::lane {

InprocLane::InprocLane(const LaneInfo& info, Handler& handler)
    : info_(info), handler_(handler), ledger_(info.queue_depth) {}

void InprocLane::push_line(const wire::LineWords& line) {
  SIMPLER_CHECK(alive(), info_.worker_id);
  wire::Dispatch& entry = queued_[ledger_.next_line()];
  entry = wire::parse(line);
  entry.sequence = ledger_.next_sequence();
  entry.state = MailboxState::kTaskReady;
  ledger_.push({0, entry.slot, entry.slot_generation});
}

uint32_t InprocLane::poll(std::span<Completion> out) {
  uint32_t count = 0;
  while (count < out.size() && ledger_.unanswered() > 0) out[count++] = ledger_.answer(run_oldest());
  return count;
}

Outcome InprocLane::run_oldest() {
  const uint32_t line = ledger_.oldest_line();
  const wire::Dispatch& entry = queued_[line];
  if (!health_.is_ok()) {
    Status why = health_;
    ledger_.keep_failure(line, std::move(why).context("lost before the task ran"));
    return Outcome::kEndpointFailure;
  }
  SIMPLER_CHECK(wire::is_runnable(entry), entry.callable, entry.flags);
  SIMPLER_CHECK(history_.covers(entry.after_mask), entry.after_mask);
  const auto known = cancelled_.begin() + std::min(cancels_, wire::kCancelWords);
  const bool is_cancelled = std::find(cancelled_.begin(), known, entry.run) != known;
  if (is_cancelled || history_.blocks(entry.after_mask)) {
    history_.record(false);
    ledger_.keep_failure(line, skipped_task());
    return Outcome::kSkipped;
  }
  Status ended = handler_.run(Task{entry, line});
  history_.record(ended.is_ok());
  if (ended.is_ok()) return Outcome::kSuccess;
  ledger_.keep_failure(line, std::move(ended));
  return Outcome::kTaskFailure;
}

void InprocLane::cancel(uint32_t run_low32) {
  cancelled_[cancels_ % wire::kCancelWords] = run_low32;
  ++cancels_;
}

void InprocLane::lose(Status why) {
  if (!alive()) return;
  end_life();
  if (why.is_ok()) why = peer_lost("the child is gone");
  health_ = std::move(why).context("worker " + std::to_string(info_.worker_id));
}

}  // namespace simpler::lane
