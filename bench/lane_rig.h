// Mailbox lanes to forked children whose tasks do nothing, for benchmarks of the lane alone.
//
// The parent drives the lanes from the benchmark's thread. Tasks with callable kDigest fold their slot into a digest
// that depends on order; the check compares it with a serial computation.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/wake_word.h"
#include "harness/harness.h"
#include "lane/mailbox_child.h"
#include "lane/mailbox_parent.h"
#include "yardsticks/peer.h"

namespace simpler::bench {

class LaneRig {
 public:
  static constexpr uint16_t kNothing = 1;
  static constexpr uint16_t kDigest = 2;

  // Whether a slow yield makes our processes give up spinning and yielding for a while, as they do in production. An
  // entry without strangers switches that off: what else runs on the machine is then noise to both arms alike, and the
  // yardsticks do not give way either.
  enum class Manners { kProduction, kNone };

  // children_cpu < 0 leaves the children where the parent is allowed to run; otherwise they are pinned there.
  LaneRig(uint32_t children, int children_cpu, Manners manners = Manners::kProduction)
      : policy_(wake_options(WakeOptions{.runnable_threads = children + 1}, manners)), manners_(manners) {
    for (uint32_t i = 0; i < children; ++i) {
      wire::initialise(shared_->mailboxes[i], wire::kMaxLines, 0);
      lanes_.push_back(std::make_unique<lane::MailboxParent>(lane::LaneInfo{.worker_id = i}, shared_->mailboxes[i]));
      pids_.push_back(fork_child(i, children, children_cpu));
    }
    for (uint32_t i = 0; i < children; ++i) hop(i);
  }
  ~LaneRig() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  LaneRig(const LaneRig&) = delete;
  LaneRig& operator=(const LaneRig&) = delete;

  uint32_t children() const { return static_cast<uint32_t>(lanes_.size()); }
  const std::vector<pid_t>& pids() const { return pids_; }
  uint64_t digest(uint32_t child) const { return shared_->digests[child].value; }
  static uint64_t fold(uint64_t digest, uint32_t slot) { return digest * 31 + slot; }

  // One task to that child, until its completion is seen.
  void hop(uint32_t child, uint32_t slot = 0, uint16_t callable = kNothing) {
    lane::MailboxParent& lane = *lanes_[child];
    lane.push(task(slot, callable, 0));
    std::array<lane::Completion, 1> one;
    static_cast<void>(wait(shared_->doorbell, policy_, Deadline::never(), [&] { return lane.poll(one) == 1; }));
  }

  // A chain on one child: every task comes after the one before it and is pushed before that one has ended.
  void chain(uint32_t child, uint32_t tasks, uint16_t callable = kNothing) {
    lane::MailboxParent& lane = *lanes_[child];
    uint32_t pushed = 0;
    uint32_t ended = 0;
    std::array<lane::Completion, wire::kMaxLines> some;
    while (ended < tasks) {
      for (uint32_t room = lane.free_lines(); room > 0 && pushed < tasks; --room, ++pushed) {
        lane.push(task(pushed, callable, pushed > 0 ? 1 : 0));
      }
      static_cast<void>(wait(shared_->doorbell, policy_, Deadline::never(), [&] {
        const uint32_t got = lane.poll(some);
        ended += got;
        return got > 0;
      }));
    }
  }

 private:
  static constexpr uint32_t kMaxChildren = 16;
  struct alignas(128) Digest {
    uint64_t value;
  };
  struct SharedPart {
    wire::Mailbox mailboxes[kMaxChildren];
    WakeWord doorbell;
    Digest digests[kMaxChildren];
  };
  class NothingHandler final : public lane::Handler {
   public:
    explicit NothingHandler(Digest& digest) : digest_(digest) {}
    Status run(const lane::Task& task) override {
      if (task.dispatch.callable == kDigest) digest_.value = fold(digest_.value, task.dispatch.slot);
      keep(task.dispatch.slot);
      return Status::ok();
    }

   private:
    Digest& digest_;
  };

  static wire::Dispatch task(uint32_t slot, uint16_t callable, uint32_t after_mask) {
    wire::Dispatch dispatch;
    dispatch.callable = callable;
    dispatch.flags = wire::kFlagInlineTensor;
    dispatch.tensors = 1;
    dispatch.slot = slot;
    dispatch.slot_generation = 1;
    dispatch.after_mask = after_mask;
    dispatch.run = 1;
    dispatch.inline_tensor = {.buffer = 1, .generation = 1, .layout = 1, .byte_offset = slot};
    return dispatch;
  }

  static WakeOptions wake_options(WakeOptions options, Manners manners) {
    if (manners == Manners::kNone) options.bad_yield = kSecond;
    return options;
  }

  pid_t fork_child(uint32_t index, uint32_t children, int cpu) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();
    if (pid > 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    WakePolicy policy(
        wake_options(WakeOptions::of_a_child(children + 1), manners_));  // before it is pinned: it counts processors
    if (cpu >= 0) pin_to_cpu(cpu);
    NothingHandler handler(shared_->digests[index]);
    lane::MailboxChild child(shared_->mailboxes[index], shared_->doorbell, policy);
    ::_exit(child.serve(handler).is_ok() ? 0 : 1);
  }

  Shared<SharedPart> shared_;
  WakePolicy policy_;
  Manners manners_;
  std::vector<std::unique_ptr<lane::MailboxParent>> lanes_;
  std::vector<pid_t> pids_;
};

}  // namespace simpler::bench
