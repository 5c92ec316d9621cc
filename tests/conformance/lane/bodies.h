// Every kind of lane behind one face, so that one suite can hold all of them to the same contract.
//
// A far end runs `ScriptHandler`: what a task does is written in its callable index, and what happened is written on a
// `Board` that both sides see. A body says in `concurrent` whether its far end runs by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/wake_word.h"
#include "lane/control_channel.h"
#include "lane/handler.h"
#include "lane/lane.h"

namespace simpler::lane {

// What a callable index makes a task do.
inline constexpr uint16_t kSucceed = 1;
inline constexpr uint16_t kFail = 2;        // short text
inline constexpr uint16_t kFailLong = 3;    // 5 kB of text outside ASCII
inline constexpr uint16_t kWaitAtGate = 4;  // waits until the gate is opened, then succeeds
inline constexpr uint16_t kDie = 5;         // the far end ends in the middle of the task

// What a control command makes the far end do; kPing answers its first argument.
inline constexpr auto kEcho = static_cast<wire::ControlCommand>(100);    // payload and argument come back
inline constexpr auto kRefuse = static_cast<wire::ControlCommand>(101);  // a failure with run code 9
inline constexpr auto kWaitAtGateCommand = static_cast<wire::ControlCommand>(102);
inline constexpr auto kDieCommand = static_cast<wire::ControlCommand>(103);
inline constexpr auto kAnswerTooMuch = static_cast<wire::ControlCommand>(104);

std::string long_text();

// In memory that both ends see.
struct Board {
  static constexpr uint32_t kLog = 1 << 16;
  std::atomic<uint32_t> gate_open{0};
  std::atomic<uint32_t> at_gate{0};   // tasks and commands that reached the gate
  WakeWord gate;                      // for the far end, which waits for gate_open
  WakeWord changed;                   // for the test, which waits for at_gate
  std::atomic<uint32_t> ran{0};       // tasks that ran
  std::atomic<uint64_t> digest{0};    // of every field of every task, order-sensitive
  std::atomic<uint32_t> slots[kLog];  // slot of the i-th task that ran

  void open_gate() {
    gate_open.store(1, std::memory_order_release);
    wake(gate);
  }
};

// Folds one dispatch into a digest; the serial computation that far ends are compared with.
uint64_t fold(uint64_t digest, const wire::Dispatch& dispatch);

class ScriptHandler final : public Handler {
 public:
  ScriptHandler(Board& board, WakePolicy& policy, std::function<void()> die)
      : board_(board), policy_(policy), die_(std::move(die)) {}
  Status run(const Task& task) override;
  Result<ControlAnswer> control(const ControlCall& call) override;

 private:
  void wait_at_gate();

  Board& board_;
  WakePolicy& policy_;
  std::function<void()> die_;
};

class Body {
 public:
  virtual ~Body() = default;
  virtual Lane& lane() = 0;
  virtual Board& board() = 0;
  virtual bool concurrent() const = 0;
  // Null where the body has no control channel.
  virtual ControlChannel* control() { return nullptr; }
  // Null where the body has no mailbox.
  virtual wire::Mailbox* mailbox() { return nullptr; }
  // Ends the far end at once and says how it ended, as a watch would.
  virtual Status kill() = 0;

  // Polls until `count` completions have come; fails the test's expectation by returning fewer after ten seconds.
  virtual std::vector<Completion> collect(uint32_t count) = 0;
  // Waits until the far end stands at the gate for the nth time.
  bool wait_until_at_gate(uint32_t times = 1);
  WakePolicy& policy() { return policy_; }

 protected:
  WakePolicy policy_;
};

struct BodyKind {
  std::string name;
  uint32_t depth;
  std::unique_ptr<Body> (*make)(const LaneInfo& info);
};

std::unique_ptr<Body> make_inproc(const LaneInfo& info);
std::unique_ptr<Body> make_mailbox_on_thread(const LaneInfo& info);
std::unique_ptr<Body> make_mailbox_in_child(const LaneInfo& info);

// A plain task for `slot` of run 1.
wire::Dispatch task(uint32_t slot, uint16_t callable = kSucceed, uint32_t after_mask = 0, uint32_t run = 1);

}  // namespace simpler::lane
