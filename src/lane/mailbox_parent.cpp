#include "lane/mailbox_parent.h"

#include <atomic>
#include <utility>

#include "base/check.h"
#include "wire/frame_state.h"

namespace simpler::lane {
namespace {

constexpr uint64_t kStateMask = uint64_t{0xFF} << 32;

// A line's word 0 after the same task ended well.
constexpr uint64_t done_word(uint64_t head) {
  return (head & ~kStateMask) | (static_cast<uint64_t>(MailboxState::kTaskDone) << 32);
}

uint64_t load(const uint64_t& word) {
  return std::atomic_ref(const_cast<uint64_t&>(word)).load(std::memory_order_relaxed);
}

std::string describe_head(uint64_t head) {
  const wire::LineHead parts = wire::parse_head(head);
  return std::string(name_of(parts.state)) + " (" + std::to_string(static_cast<uint32_t>(parts.state)) +
         "), sequence " + std::to_string(parts.sequence) + ", flags " + std::to_string(parts.flags) + ", callable " +
         std::to_string(parts.callable);
}

}  // namespace

MailboxParent::MailboxParent(const LaneInfo& info, wire::Mailbox& mailbox)
    : info_(info), mailbox_(mailbox), ledger_(info.queue_depth) {
  SIMPLER_CHECK(mailbox.header.depth == info.queue_depth, mailbox.header.depth, info.queue_depth);
}

void MailboxParent::push_line(const wire::LineWords& line) {
  SIMPLER_CHECK(alive(), info_.worker_id);
  const uint64_t head = line.word[0] | wire::compose_head(ledger_.next_sequence(), MailboxState::kTaskReady, 0, 0);
  wire::DispatchLine& place = mailbox_.lines[ledger_.next_line()];
  ledger_.push({head, wire::low32(line.word[1]), wire::high32(line.word[1])});
  wire::store(place, line, head);
  wake(mailbox_.child_wake);
}

uint32_t MailboxParent::poll(std::span<Completion> out) {
  uint32_t count = 0;
  while (count < out.size() && ledger_.unanswered() > 0) {
    const LineLedger::Entry& entry = ledger_.oldest();
    const uint64_t head = wire::load_head(mailbox_.lines[ledger_.oldest_line()]);
    if (head == done_word(entry.head) && !condemned_) [[likely]] {
      out[count++] = ledger_.answer(Outcome::kSuccess);
      continue;
    }
    if (head == entry.head && !lost_) break;
    Outcome outcome = Outcome::kSuccess;
    const Sight sight = condemned_ ? Sight::kIllegal : look(head, outcome);
    if (sight == Sight::kAnswered) {
      out[count++] = ledger_.answer(outcome);
    } else if (lost_) {
      answer_with_loss(out[count++]);
    } else {
      if (sight == Sight::kIllegal && !condemned_) condemn(head);
      break;
    }
  }
  return count;
}

// Judges a word 0 that is neither what was pushed nor a plain success.
MailboxParent::Sight MailboxParent::look(uint64_t head, Outcome& outcome) {
  LineLedger::Entry& entry = ledger_.oldest();
  if (head == entry.head) return Sight::kUnanswered;
  const wire::LineHead pushed = wire::parse_head(entry.head);
  const wire::LineHead seen = wire::parse_head(head);
  if (!wire::child_may_bring(pushed.state, seen.state)) return Sight::kIllegal;
  const bool skipped = (seen.flags & wire::kFlagSkipped) != 0;
  if (head != wire::compose_answer(pushed, seen.state, skipped)) return Sight::kIllegal;
  if (seen.state == MailboxState::kTaskDone) {
    outcome = Outcome::kSuccess;
    return skipped ? Sight::kIllegal : Sight::kAnswered;
  }
  if (seen.state != MailboxState::kTaskFailed) {
    if (skipped) return Sight::kIllegal;
    entry.head = head;  // a step on the way: staged, launched
    return Sight::kUnanswered;
  }
  outcome = skipped ? Outcome::kSkipped : Outcome::kTaskFailure;
  const uint32_t line = ledger_.oldest_line();
  if (skipped) {
    ledger_.keep_failure(line, skipped_task());
  } else {
    const wire::Report& report = mailbox_.reports[line];
    ledger_.keep_failure(line, wire::to_status(wire::read_report(report, &mailbox_.side, pushed.sequence)));
    if ((report.flags & wire::kReportInSide) != 0) {  // the child may use the side area again; pairs with its acquire
      std::atomic_ref(mailbox_.parent.side_taken).store(pushed.sequence, std::memory_order_release);
    }
  }
  return Sight::kAnswered;
}

void MailboxParent::condemn(uint64_t head) {
  condemned_ = true;
  end_life();
  health_ = corrupt("worker " + std::to_string(info_.worker_id) + " left an answer that its line cannot have: found " +
                    describe_head(head) + "; pushed " + describe_head(ledger_.oldest().head));
}

void MailboxParent::cancel(uint32_t run_low32) {
  wire::ParentWords& words = mailbox_.parent;
  const uint32_t count = words.cancel_count;
  std::atomic_ref(words.cancelled[count % wire::kCancelWords]).store(run_low32, std::memory_order_relaxed);
  std::atomic_ref(words.cancel_count).store(count + 1, std::memory_order_release);  // pairs with the child's acquire
  wake(mailbox_.child_wake);
}

void MailboxParent::lose(Status why) {
  if (lost_) return;
  lost_ = true;
  end_life();
  if (why.is_ok()) why = peer_lost("the child is gone");
  std::string prefix = "worker " + std::to_string(info_.worker_id);
  const std::string note = child_note();
  if (!note.empty()) prefix += " (it said: " + note + ")";
  if (condemned_) prefix += " (" + std::string(health_.message()) + ")";
  health_ = std::move(why).context(prefix);
}

// Ends the oldest line, which a dead child left unanswered.
void MailboxParent::answer_with_loss(Completion& completion) {
  const uint32_t line = ledger_.oldest_line();
  const uint32_t sequence = ledger_.oldest_sequence();
  if (sequence_at_death_ == 0) sequence_at_death_ = sequence;
  const uint64_t started = load(mailbox_.statistics.started_sequence);
  const bool ran = sequence == sequence_at_death_ && started == (sequence | (uint64_t{1} << 32));
  Status why = health_;
  ledger_.keep_failure(line, std::move(why).context(ran ? "lost while the task ran" : "lost before the task ran"));
  completion = ledger_.answer(Outcome::kEndpointFailure);
}

// What a child that refused a line wrote in that line's report before it left.
std::string MailboxParent::child_note() const {
  if (ledger_.unanswered() == 0) return {};
  const wire::Report& report = mailbox_.reports[ledger_.oldest_line()];
  if (report.sequence != ledger_.oldest_sequence()) return {};
  return wire::read_report(report, nullptr, ledger_.oldest_sequence()).message;
}

void MailboxParent::request_shutdown() {
  std::atomic_ref(mailbox_.parent.shutdown).store(1U, std::memory_order_release);  // pairs with the child's acquire
  wake(mailbox_.child_wake);
}

LaneStatistics MailboxParent::statistics() const {
  const wire::ChildStatistics& words = mailbox_.statistics;
  LaneStatistics result{.busy_ns = static_cast<Nanos>(load(words.busy_ns)),
                        .tasks = load(words.tasks),
                        .failed = load(words.failed),
                        .skipped = load(words.skipped)};
  const auto since = static_cast<Nanos>(load(words.started_ns));
  const Nanos now = monotonic_now();
  if (!lost_ && since != 0 && since < now) result.busy_ns += now - since;
  return result;
}

}  // namespace simpler::lane
