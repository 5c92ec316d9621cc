#include "conformance/lane/bodies.h"

#include <cstring>
#include <new>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/check.h"
#include "base/fault_point.h"
#include "lane/inproc_lane.h"
#include "lane/mailbox_child.h"
#include "lane/mailbox_parent.h"

namespace simpler::lane {
namespace {

constexpr Nanos kWatchdog = 10 * kSecond;

// One object in memory shared with children, zeroed.
template <class T>
class SharedObject {
 public:
  SharedObject() {
    void* memory = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SIMPLER_CHECK(memory != MAP_FAILED, errno);
    object_ = ::new (memory) T{};
  }
  ~SharedObject() { ::munmap(object_, sizeof(T)); }
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_;
};

class InprocBody final : public Body {
 public:
  explicit InprocBody(const LaneInfo& info) : handler_(*board_, policy_, [] {}), lane_(info, handler_) {}
  Lane& lane() override { return lane_; }
  Board& board() override { return *board_; }
  bool concurrent() const override { return false; }
  Status kill() override { return peer_lost("killed by signal 9").with_pid(1).with_signal(9); }
  std::vector<Completion> collect(uint32_t count) override {
    std::vector<Completion> all(count);
    all.resize(lane_.poll(all));
    return all;
  }

 private:
  SharedObject<Board> board_;
  ScriptHandler handler_;
  InprocLane lane_;
};

class MailboxBody : public Body {
 public:
  explicit MailboxBody(const LaneInfo& info) {
    wire::initialise(shared_->mailbox, info.queue_depth, info.incarnation);
    lane_.emplace(info, shared_->mailbox);
    control_.emplace(shared_->mailbox, policy_, "worker " + std::to_string(info.worker_id));
  }
  Lane& lane() override { return *lane_; }
  Board& board() override { return shared_->board; }
  bool concurrent() const override { return true; }
  ControlChannel* control() override { return &*control_; }
  wire::Mailbox* mailbox() override { return &shared_->mailbox; }
  std::vector<Completion> collect(uint32_t count) override {
    std::vector<Completion> all(count);
    uint32_t got = 0;
    static_cast<void>(wait(shared_->doorbell, policy_, Deadline::after(kWatchdog), [&] {
      got += lane_->poll(std::span(all).subspan(got));
      return got == count;
    }));
    all.resize(got);
    return all;
  }

 protected:
  struct SharedPart {
    wire::Mailbox mailbox;
    WakeWord doorbell;
    Board board;
  };
  SharedObject<SharedPart> shared_;
  std::optional<MailboxParent> lane_;
  std::optional<ControlChannel> control_;
};

class ThreadBody final : public MailboxBody {
 public:
  explicit ThreadBody(const LaneInfo& info)
      : MailboxBody(info), thread_([this] {
          ScriptHandler handler(shared_->board, policy_, [this] { leave_without_answer(); });
          MailboxChild child(shared_->mailbox, shared_->doorbell, policy_, &faults_);
          static_cast<void>(child.serve(handler));
        }) {}
  ~ThreadBody() override { stop(); }
  Status kill() override {
    leave_without_answer();
    stop();
    return peer_lost("killed by signal 9").with_pid(1).with_signal(9);
  }

 private:
  void leave_without_answer() { faults_.fail_at("lane.child.answering", 1, cancelled("killed")); }
  void stop() {
    if (!thread_.joinable()) return;
    lane_->request_shutdown();
    shared_->board.open_gate();
    thread_.join();
  }

  FaultPlan faults_;
  std::thread thread_;
};

class ForkedBody final : public MailboxBody {
 public:
  explicit ForkedBody(const LaneInfo& info) : MailboxBody(info), pid_(::fork()) {
    SIMPLER_CHECK(pid_ >= 0, errno);
    if (pid_ != 0) return;
    WakePolicy policy;
    ScriptHandler handler(shared_->board, policy, [] { ::_exit(7); });
    MailboxChild child(shared_->mailbox, shared_->doorbell, policy);
    ::_exit(child.serve(handler).is_ok() ? 0 : 3);
  }
  ~ForkedBody() override {
    if (pid_ > 0) static_cast<void>(kill());
  }
  Status kill() override {
    ::kill(pid_, SIGKILL);
    int state = 0;
    ::waitpid(pid_, &state, 0);
    Status how = WIFSIGNALED(state) ? peer_lost("killed by signal " + std::to_string(WTERMSIG(state)))
                                    : peer_lost("exited with status " + std::to_string(WEXITSTATUS(state)));
    how = std::move(how).with_pid(std::exchange(pid_, -1));
    return WIFSIGNALED(state) ? std::move(how).with_signal(WTERMSIG(state))
                              : std::move(how).with_exit_status(WEXITSTATUS(state));
  }

 private:
  pid_t pid_;
};

}  // namespace

std::string long_text() {
  std::string text;
  while (text.size() < 5000) text += "naïve Größe — 深い誤り ";
  return text;
}

uint64_t fold(uint64_t digest, const wire::Dispatch& dispatch) {
  const wire::LineWords words = wire::compose(dispatch);
  digest = digest * 31 + dispatch.flags;
  digest = digest * 31 + dispatch.callable;
  for (unsigned i = 1; i < 8; ++i) digest = digest * 31 + words.word[i];
  return digest;
}

Status ScriptHandler::run(const Task& task) {
  const uint32_t index = board_.ran.load(std::memory_order_relaxed);
  board_.slots[index % Board::kLog].store(task.dispatch.slot, std::memory_order_relaxed);
  board_.digest.store(fold(board_.digest.load(std::memory_order_relaxed), task.dispatch), std::memory_order_relaxed);
  board_.ran.store(index + 1, std::memory_order_relaxed);
  switch (task.dispatch.callable) {
    case kFail:
      return task_failed("slot " + std::to_string(task.dispatch.slot) + " went wrong")
          .with_type_name("ValueError")
          .with_traceback("line 1\nline 2\n")
          .with_run_code(9);
    case kFailLong:
      return task_failed(long_text()).with_type_name("builtins.RuntimeError").with_traceback(long_text());
    case kWaitAtGate:
      wait_at_gate();
      return Status::ok();
    case kDie:
      die_();
      return Status::ok();
    default:
      return Status::ok();
  }
}

Result<ControlAnswer> ScriptHandler::control(const ControlCall& call) {
  if (call.command == kEcho) return ControlAnswer{call.args[0], {call.payload.begin(), call.payload.end()}};
  if (call.command == kRefuse) return unavailable("no such chip").with_run_code(9);
  if (call.command == kAnswerTooMuch) return ControlAnswer{0, std::vector<std::byte>(wire::kControlPayloadBytes + 1)};
  if (call.command == kWaitAtGateCommand) {
    wait_at_gate();
    return ControlAnswer{};
  }
  if (call.command == kDieCommand) die_();
  return Handler::control(call);
}

void ScriptHandler::wait_at_gate() {
  board_.at_gate.fetch_add(1, std::memory_order_release);
  wake(board_.changed);
  static_cast<void>(wait(board_.gate, policy_, Deadline::after(kWatchdog),
                         [this] { return board_.gate_open.load(std::memory_order_acquire) != 0; }));
}

bool Body::wait_until_at_gate(uint32_t times) {
  return wait(board().changed, policy_, Deadline::after(kWatchdog),
              [&] { return board().at_gate.load(std::memory_order_acquire) >= times; });
}

std::unique_ptr<Body> make_inproc(const LaneInfo& info) {
  return std::make_unique<InprocBody>(info);
}
std::unique_ptr<Body> make_mailbox_on_thread(const LaneInfo& info) {
  return std::make_unique<ThreadBody>(info);
}
std::unique_ptr<Body> make_mailbox_in_child(const LaneInfo& info) {
  return std::make_unique<ForkedBody>(info);
}

wire::Dispatch task(uint32_t slot, uint16_t callable, uint32_t after_mask, uint32_t run) {
  wire::Dispatch dispatch;
  dispatch.callable = callable;
  dispatch.slot = slot;
  dispatch.slot_generation = slot + 1000;
  dispatch.after_mask = after_mask;
  dispatch.run = run;
  return dispatch;
}

}  // namespace simpler::lane
