#include "lane/mailbox_child.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/status_macros.h"

namespace simpler::lane {
namespace {

constexpr uint64_t kStarted = uint64_t{1} << 32;

// Figures that the parent reads at leisure; they order nothing.
void publish(uint64_t& word, uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_relaxed);
}

uint32_t load_acquire(const uint32_t& word) {
  return std::atomic_ref(const_cast<uint32_t&>(word)).load(std::memory_order_acquire);
}

// Pairs with the release store that publishes a control request.
uint64_t load_control(const wire::Mailbox& mailbox) {
  return std::atomic_ref(const_cast<uint64_t&>(mailbox.request.head)).load(std::memory_order_acquire);
}

bool is_entry(uint64_t head, uint32_t sequence) {
  constexpr uint64_t kReady = static_cast<uint64_t>(MailboxState::kTaskReady) << 32;
  return (head & 0xFF'FFFF'FFFF) == (kReady | sequence);
}

wire::Failure to_failure(const Status& status) {
  return {.code = status.code(),
          .run_code = status.run_code(),
          .type_name = std::string(status.type_name()),
          .message = std::string(status.message()),
          .traceback = std::string(status.traceback())};
}

}  // namespace

MailboxChild::MailboxChild(wire::Mailbox& mailbox, WakeWord& doorbell, WakePolicy& policy, FaultPlan* faults)
    : mailbox_(mailbox),
      doorbell_(doorbell),
      policy_(policy),
      faults_(faults),
      depth_(std::clamp(mailbox.header.depth, 1U, wire::kMaxLines)) {}

Status MailboxChild::serve(Handler& handler) {
  SIMPLER_RETURN_IF_ERROR(wire::validate(mailbox_.header));
  while (load_acquire(mailbox_.parent.shutdown) == 0) {
    const uint64_t head = wire::load_head(line());
    const bool plain = is_entry(head, sequence_) && load_control(mailbox_) == control_head_;
    Status status = plain ? run_line(handler, head) : attend(handler);
    if (!status.is_ok()) return status;
  }
  return Status::ok();
}

bool MailboxChild::something_to_do() const {
  return wire::load_head(line()) != left_[line_] || load_control(mailbox_) != control_head_ ||
         load_acquire(mailbox_.parent.shutdown) != 0;
}

// Everything that is not simply the next line: a control call, a word that cannot be, or nothing to do.
Status MailboxChild::attend(Handler& handler) {
  const uint64_t control = load_control(mailbox_);
  if (control != control_head_) return serve_control(handler, control);
  const uint64_t head = wire::load_head(line());
  if (is_entry(head, sequence_)) return Status::ok();
  if (head != left_[line_]) {
    const wire::LineHead seen = wire::parse_head(head);
    return refuse("line " + std::to_string(line_) + " holds state " + std::string(name_of(seen.state)) + " (" +
                  std::to_string(static_cast<uint32_t>(seen.state)) + ") with sequence " +
                  std::to_string(seen.sequence) + " where TASK_READY with sequence " + std::to_string(sequence_) +
                  " must come");
  }
  for (uint32_t looks = policy_.spin_budget(); looks > 0; --looks) {
    if (something_to_do()) {
      note_early_end(mailbox_.child_wake, policy_);
      return Status::ok();
    }
    policy_.pause_between_looks();
  }
  if (stretch_began_ != 0) end_stretch();
  handler.idle();
  // No deadline: a parent that dies ends this process through its watch thread.
  wait(mailbox_.child_wake, policy_, Deadline::never(), [this] { return something_to_do(); });
  return Status::ok();
}

Status MailboxChild::run_line(Handler& handler, uint64_t head) {
  const wire::Dispatch dispatch = wire::load_rest(line(), head);
  __builtin_prefetch(&mailbox_.lines[next_line()]);
  if (!wire::is_runnable(dispatch) || !history_.covers(dispatch.after_mask)) [[unlikely]] {
    return refuse("line " + std::to_string(line_) + " holds an entry that cannot run: flags " +
                  std::to_string(dispatch.flags) + ", callable " + std::to_string(dispatch.callable) + ", " +
                  std::to_string(dispatch.tensors) + " tensors, " + std::to_string(dispatch.scalars) +
                  " scalars, after-mask " + std::to_string(dispatch.after_mask));
  }
  if (faults_ != nullptr) SIMPLER_RETURN_IF_ERROR(faults_->reach("lane.child.taken"));
  if (stretch_began_ == 0) begin_stretch();
  if (history_.blocks(dispatch.after_mask) || is_cancelled(dispatch.run)) return finish(head, Status::ok(), true);
  publish(mailbox_.statistics.started_sequence, sequence_ | kStarted);
  return finish(head, handler.run(Task{dispatch, line_}), false);
}

Status MailboxChild::finish(uint64_t head, const Status& ended, bool skipped) {
  if (faults_ != nullptr) SIMPLER_RETURN_IF_ERROR(faults_->reach("lane.child.answering"));
  const bool succeeded = ended.is_ok() && !skipped;
  if (!ended.is_ok()) report(ended);
  const uint64_t answer = wire::compose_answer(
      wire::parse_head(head), succeeded ? MailboxState::kTaskDone : MailboxState::kTaskFailed, skipped);
  // Counted before the answer's release: whoever has seen the answer sees the count.
  publish(mailbox_.statistics.tasks, ++tasks_);
  if (skipped) publish(mailbox_.statistics.skipped, ++skipped_);
  if (!ended.is_ok()) publish(mailbox_.statistics.failed, ++failed_);
  wire::store_head(line(), answer);
  if (faults_ != nullptr) SIMPLER_RETURN_IF_ERROR(faults_->reach("lane.child.answered"));
  if (wake(doorbell_)) policy_.note_woke_poster();
  left_[line_] = answer;
  line_ = next_line();
  ++sequence_;
  history_.record(succeeded);
  return Status::ok();
}

// Long text goes to the side area when the parent has taken what stood there.
void MailboxChild::report(const Status& ended) {
  const bool side_free = side_sequence_ == 0 || load_acquire(mailbox_.parent.side_taken) == side_sequence_;
  wire::Report& record = mailbox_.reports[line_];
  wire::write_report(record, side_free ? &mailbox_.side : nullptr, sequence_, to_failure(ended));
  if ((record.flags & wire::kReportInSide) != 0) side_sequence_ = sequence_;
}

bool MailboxChild::is_cancelled(uint32_t run) {
  const uint32_t count = load_acquire(mailbox_.parent.cancel_count);  // pairs with MailboxParent::cancel
  if (count == 0) [[likely]]
    return false;
  if (count == cancels_seen_ && run == judged_run_) return judged_cancelled_;
  cancels_seen_ = count;
  judged_run_ = run;
  judged_cancelled_ = false;
  for (uint32_t i = 0; i < std::min(count, wire::kCancelWords); ++i) {
    const uint32_t word = std::atomic_ref(mailbox_.parent.cancelled[i]).load(std::memory_order_relaxed);
    judged_cancelled_ = judged_cancelled_ || word == run;
  }
  return judged_cancelled_;
}

Status MailboxChild::serve_control(Handler& handler, uint64_t head) {
  const wire::LineHead seen = wire::parse_head(head);
  if (seen.state != MailboxState::kControlRequest || seen.sequence != wire::parse_head(control_head_).sequence + 1) {
    return refuse("the control channel holds state " + std::string(name_of(seen.state)) + " with sequence " +
                  std::to_string(seen.sequence));
  }
  if (stretch_began_ == 0) begin_stretch();
  SIMPLER_RETURN_IF_ERROR(fault_point(faults_, "lane.child.control"));
  control_head_ = head;
  const wire::ControlRequest& request = mailbox_.request;
  wire::ControlReply& reply = mailbox_.reply;
  Result<ControlAnswer> answer = corrupt("a control request of " + std::to_string(request.payload_len) + " bytes");
  if (request.payload_len <= wire::kControlPayloadBytes) {
    const std::vector<uint8_t> payload(request.payload.begin(), request.payload.begin() + request.payload_len);
    answer = handler.control({.command = static_cast<wire::ControlCommand>(request.command),
                              .args = request.args,
                              .payload = std::as_bytes(std::span(payload))});
  }
  if (answer.ok() && answer->payload.size() > wire::kControlPayloadBytes) {
    answer = resource_exhausted("a control answer of " + std::to_string(answer->payload.size()) + " bytes; at most " +
                                std::to_string(wire::kControlPayloadBytes) + " fit");
  }
  const Status status = answer.ok() ? Status::ok() : answer.status();
  reply.code = static_cast<uint32_t>(status.code());
  reply.run_code = status.run_code();
  reply.result = answer.ok() ? answer->result : 0;
  reply.payload_len = answer.ok() ? static_cast<uint32_t>(answer->payload.size()) : 0;
  if (reply.payload_len > 0) std::memcpy(reply.payload.data(), answer->payload.data(), reply.payload_len);
  const std::string_view text = wire::utf8_prefix(status.message(), wire::kControlPayloadBytes - reply.payload_len);
  reply.text_len = static_cast<uint32_t>(text.size());
  if (!text.empty()) std::memcpy(reply.payload.data() + reply.payload_len, text.data(), text.size());
  const uint64_t done = wire::compose_head(seen.sequence, MailboxState::kControlDone, 0, 0);
  std::atomic_ref(reply.head).store(done, std::memory_order_release);  // pairs with ControlChannel
  wake(mailbox_.control_wake);
  return Status::ok();
}

// Leaves the reason where the parent looks when it learns of this child's end.
Status MailboxChild::refuse(const std::string& why) {
  const Status status = corrupt(why);
  wire::write_report(mailbox_.reports[line_], nullptr, sequence_, to_failure(status));
  return status;
}

void MailboxChild::begin_stretch() {
  stretch_began_ = monotonic_now();
  publish(mailbox_.statistics.started_ns, static_cast<uint64_t>(stretch_began_));
}

void MailboxChild::end_stretch() {
  busy_ += monotonic_now() - std::exchange(stretch_began_, 0);
  publish(mailbox_.statistics.busy_ns, static_cast<uint64_t>(busy_));
  publish(mailbox_.statistics.started_ns, 0);
  publish(mailbox_.statistics.started_sequence, 0);
}

}  // namespace simpler::lane
