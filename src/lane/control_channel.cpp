#include "lane/control_channel.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace simpler::lane {
namespace {

std::string command_name(uint32_t command) {
  return "control command " + std::to_string(command);
}

}  // namespace

ControlChannel::ControlChannel(wire::Mailbox& mailbox, WakePolicy& policy, std::string worker)
    : mailbox_(mailbox), policy_(policy), worker_(std::move(worker)) {}

Result<ControlAnswer> ControlChannel::call(const ControlCall& call, Deadline deadline) {
  if (call.payload.size() > wire::kControlPayloadBytes) {
    return invalid_argument("a control payload of " + std::to_string(call.payload.size()) + " bytes; at most " +
                            std::to_string(wire::kControlPayloadBytes) + " fit, larger ones travel as a shared buffer");
  }
  {
    MutexLock held(mutex_);
    while (turn_taken_) {
      if (!turn_ended_.wait_until(mutex_, deadline) && turn_taken_) {
        return timed_out(worker_ + ": another control command did not end in time");
      }
    }
    turn_taken_ = true;
  }
  Result<ControlAnswer> answer = exchange(call, deadline);
  MutexLock held(mutex_);
  turn_taken_ = false;
  turn_ended_.notify_one();
  return answer;
}

Result<ControlAnswer> ControlChannel::exchange(const ControlCall& call, Deadline deadline) {
  if (lost_.load(std::memory_order_acquire)) return lost_reason();
  if (!await_answer(sequence_, deadline)) {
    if (lost_.load(std::memory_order_acquire)) return lost_reason();
    return timed_out(worker_ + ": still busy with " + command_name(last_command_) + ", whose caller gave up");
  }
  wire::ControlRequest& request = mailbox_.request;
  request.command = static_cast<uint32_t>(call.command);
  request.args = call.args;
  request.payload_len = static_cast<uint32_t>(call.payload.size());
  if (!call.payload.empty()) std::memcpy(request.payload.data(), call.payload.data(), call.payload.size());
  last_command_ = request.command;
  const uint64_t head = wire::compose_head(++sequence_, MailboxState::kControlRequest, 0, 0);
  std::atomic_ref(request.head).store(head, std::memory_order_release);  // pairs with the child's acquire
  wake(mailbox_.child_wake);
  if (await_answer(sequence_, deadline)) return read_answer(call);
  if (lost_.load(std::memory_order_acquire)) return lost_reason();
  return timed_out(worker_ + ": " + command_name(last_command_) + " was not answered in time");
}

// True once the child answered that request; false at the deadline or when the child is lost before it answered.
bool ControlChannel::await_answer(uint32_t sequence, Deadline deadline) {
  if (sequence == 0) return true;
  static_cast<void>(wait(mailbox_.control_wake, policy_, deadline,
                         [&] { return answered(sequence) || lost_.load(std::memory_order_acquire); }));
  return answered(sequence);
}

bool ControlChannel::answered(uint32_t sequence) const {
  const uint64_t head = std::atomic_ref(const_cast<uint64_t&>(mailbox_.reply.head)).load(std::memory_order_acquire);
  return head == wire::compose_head(sequence, MailboxState::kControlDone, 0, 0);
}

Result<ControlAnswer> ControlChannel::read_answer(const ControlCall& call) const {
  const wire::ControlReply& reply = mailbox_.reply;
  const uint32_t payload = std::min(reply.payload_len, wire::kControlPayloadBytes);
  const uint32_t text = std::min(reply.text_len, wire::kControlPayloadBytes - payload);
  const auto bytes = std::as_bytes(std::span(reply.payload));
  if (reply.code == static_cast<uint32_t>(StatusCode::kOk)) {
    return ControlAnswer{.result = reply.result, .payload = {bytes.begin(), bytes.begin() + payload}};
  }
  const auto code = reply.code < kStatusCodeCount ? static_cast<StatusCode>(reply.code) : StatusCode::kCorrupt;
  std::string message(reinterpret_cast<const char*>(bytes.data() + payload), text);
  return Status(code, std::move(message))
      .with_run_code(reply.run_code)
      .context(worker_ + ": " + command_name(static_cast<uint32_t>(call.command)) + " failed");
}

void ControlChannel::lose(const Status& why) {
  {
    MutexLock held(mutex_);
    if (lost_.load(std::memory_order_relaxed)) return;
    why_lost_ = why.is_ok() ? peer_lost("the child is gone") : why;
    lost_.store(true, std::memory_order_release);
  }
  wake(mailbox_.control_wake);
}

bool ControlChannel::wedged() const {
  MutexLock held(mutex_);
  return !turn_taken_ && sequence_ != 0 && !answered(sequence_) && !lost_.load(std::memory_order_relaxed);
}

Status ControlChannel::lost_reason() const {
  MutexLock held(mutex_);
  Status why = why_lost_;
  return std::move(why).context(worker_);
}

}  // namespace simpler::lane
