// Either side of a lane is killed at every state of a frame: the survivor notices, every line ends with a reason that
// names the dead process, other children go on, and nothing is left behind.
#include <array>
#include <atomic>
#include <dirent.h>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault_point.h"
#include "conformance/lane/bodies.h"
#include "lane/mailbox_child.h"
#include "lane/mailbox_parent.h"
#include "process/child_process.h"
#include "process/watch.h"

namespace simpler::lane {
namespace {

constexpr Nanos kWatchdog = 10 * kSecond;

struct SharedPart {
  std::array<wire::Mailbox, 2> mailboxes;
  WakeWord doorbell;
  std::array<Board, 2> boards;
};

class SharedMemory {
 public:
  SharedMemory() {
    void* memory = ::mmap(nullptr, sizeof(SharedPart), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    SIMPLER_CHECK(memory != MAP_FAILED, errno);
    part_ = ::new (memory) SharedPart{};
  }
  ~SharedMemory() { ::munmap(part_, sizeof(SharedPart)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  SharedPart* operator->() const { return part_; }

 private:
  SharedPart* part_;
};

// Two children under watch, driven by the test's thread as a driver would: the watch leaves a note and rings.
class TwoChildren {
 public:
  // `point`: where child 0 kills itself; empty: nowhere.
  explicit TwoChildren(const std::string& point = {}) {
    for (uint32_t i = 0; i < 2; ++i) {
      wire::initialise(shared_->mailboxes[i], wire::kMaxLines, 0);
      lanes_[i].emplace(LaneInfo{.worker_id = i}, shared_->mailboxes[i]);
      control_[i].emplace(shared_->mailboxes[i], policy_, "worker " + std::to_string(i));
    }
    for (uint32_t i = 0; i < 2; ++i) {
      children_[i] = *process::fork_child({.name = "lane child"}, [&](process::ChildContext&) {
        serve(i, i == 0 ? point : std::string());
        return 3;
      });
    }
    watch_ = *process::Watch::of_process();
    for (uint32_t i = 0; i < 2; ++i) {
      tokens_[i] = watch_->add_child(children_[i], [this, i](const process::ExitInfo& how) {
        const Status why = how.to_status("the child");
        control_[i]->lose(why);
        {
          std::lock_guard held(mutex_);
          notes_[i] = why;
        }
        noted_.fetch_or(1U << i, std::memory_order_release);
        wake(shared_->doorbell);
      });
    }
  }
  ~TwoChildren() {
    for (uint32_t i = 0; i < 2; ++i) {
      watch_->remove_child(tokens_[i]);
      children_[i].send_signal(SIGKILL);
      while (children_[i].running()) ::poll(nullptr, 0, 1);
    }
  }

  MailboxParent& lane(uint32_t i) { return *lanes_[i]; }
  ControlChannel& control(uint32_t i) { return *control_[i]; }
  Board& board(uint32_t i) { return shared_->boards[i]; }
  wire::Mailbox& mailbox(uint32_t i) { return shared_->mailboxes[i]; }
  pid_t pid(uint32_t i) const { return children_[i].pid(); }
  void kill(uint32_t i) { children_[i].send_signal(SIGKILL); }
  WakePolicy& policy() { return policy_; }

  // Drives until `count` lines of that lane have ended; fewer only if the watchdog came first.
  std::vector<Completion> collect(uint32_t i, uint32_t count) {
    std::vector<Completion> all(count);
    uint32_t got = 0;
    static_cast<void>(wait(shared_->doorbell, policy_, Deadline::after(kWatchdog), [&] {
      take_notes();
      got += lanes_[i]->poll(std::span(all).subspan(got));
      return got == count;
    }));
    all.resize(got);
    return all;
  }
  bool wait_until_lost(uint32_t i) {
    return wait(shared_->doorbell, policy_, Deadline::after(kWatchdog), [&] {
      take_notes();
      return !lanes_[i]->alive();
    });
  }
  bool wait_until_at_gate(uint32_t i) {
    return wait(board(i).changed, policy_, Deadline::after(kWatchdog),
                [&] { return board(i).at_gate.load(std::memory_order_acquire) > 0; });
  }

 private:
  void serve(uint32_t i, const std::string& point) {
    WakePolicy policy;
    FaultPlan plan;
    if (!point.empty()) plan.fail_at(point, 1, cancelled("die here"));
    ScriptHandler handler(shared_->boards[i], policy, [] { ::_exit(7); });
    const Status status = MailboxChild(shared_->mailboxes[i], shared_->doorbell, policy, &plan).serve(handler);
    if (status.code() == StatusCode::kCancelled) ::raise(SIGKILL);
  }
  void take_notes() {
    for (uint32_t i = 0; i < 2; ++i) {
      if ((noted_.load(std::memory_order_acquire) & (1U << i)) == 0) continue;
      std::lock_guard held(mutex_);
      lanes_[i]->lose(notes_[i]);
    }
  }

  SharedMemory shared_;
  WakePolicy policy_;
  std::array<std::optional<MailboxParent>, 2> lanes_;
  std::array<std::optional<ControlChannel>, 2> control_;
  std::array<process::Child, 2> children_;
  std::shared_ptr<process::Watch> watch_;
  std::array<process::Watch::Token, 2> tokens_{};
  std::mutex mutex_;
  std::array<Status, 2> notes_;
  std::atomic<uint32_t> noted_{0};  // bit i: notes_[i] is written; pairs with the load in take_notes
};

uint32_t open_descriptors() {
  uint32_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

void expect_killed(const Status& why, pid_t pid) {
  EXPECT_EQ(why.code(), StatusCode::kPeerLost) << why.message();
  EXPECT_EQ(why.pid(), pid);
  EXPECT_EQ(why.signal(), SIGKILL);
}

struct KillPoint {
  const char* name;
  const char* point;  // fault point at which the child kills itself; null: the parent kills it at the gate
  Outcome first;      // how the line in hand ends
};

class LaneKill : public testing::TestWithParam<KillPoint> {};

TEST_P(LaneKill, TheParentNoticesAndTheOtherChildGoesOn) {
  const KillPoint& at = GetParam();
  TwoChildren world(at.point != nullptr ? at.point : "");
  world.lane(0).push(task(10, at.point != nullptr ? kSucceed : kWaitAtGate));
  world.lane(0).push(task(11));
  world.lane(1).push(task(20));
  if (at.point == nullptr) {
    ASSERT_TRUE(world.wait_until_at_gate(0));
    world.kill(0);
  }
  const std::vector<Completion> got = world.collect(0, 2);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].outcome, at.first);
  EXPECT_EQ(got[1].outcome, Outcome::kEndpointFailure);
  for (const Completion& completion : got) {
    if (completion.outcome == Outcome::kEndpointFailure) {
      expect_killed(world.lane(0).take_failure(completion), world.pid(0));
    }
  }
  EXPECT_TRUE(world.wait_until_lost(0));
  EXPECT_EQ(world.lane(0).free_lines(), 0U);
  EXPECT_EQ(world.collect(1, 1).size(), 1U);
  for (uint32_t slot = 21; slot < 30; ++slot) {
    world.lane(1).push(task(slot));
    const std::vector<Completion> other = world.collect(1, 1);
    ASSERT_EQ(other.size(), 1U);
    EXPECT_EQ(other[0].outcome, Outcome::kSuccess);
  }
}

INSTANTIATE_TEST_SUITE_P(
    At, LaneKill,
    testing::Values(KillPoint{"BeforeTheTaskRuns", "lane.child.taken", Outcome::kEndpointFailure},
                    KillPoint{"WhileTheTaskRuns", nullptr, Outcome::kEndpointFailure},
                    KillPoint{"BeforeTheAnswer", "lane.child.answering", Outcome::kEndpointFailure},
                    KillPoint{"BetweenAnswerAndDoorbell", "lane.child.answered", Outcome::kSuccess}),
    [](const auto& kill) { return std::string(kill.param.name); });

TEST(LaneKillMore, AnIdleChildThatDiesIsNoticed) {
  TwoChildren world;
  world.kill(0);
  EXPECT_TRUE(world.wait_until_lost(0));
  expect_killed(world.lane(0).health(), world.pid(0));
}

TEST(LaneKillMore, AChildThatExitsInATaskIsReportedWithItsStatus) {
  TwoChildren world;
  world.lane(0).push(task(1, kDie));
  const std::vector<Completion> got = world.collect(0, 1);
  ASSERT_EQ(got.size(), 1U);
  const Status why = world.lane(0).take_failure(got[0]);
  EXPECT_EQ(why.exit_status(), 7);
  EXPECT_NE(why.message().find("while the task ran"), std::string_view::npos) << why.message();
}

TEST(LaneKillMore, AControlCallEndsWhenItsChildDies) {
  for (const char* point : {"", "lane.child.control"}) {
    TwoChildren world(point);
    const auto command = *point == '\0' ? kDieCommand : kEcho;
    const Status why = world.control(0).call({.command = command}, Deadline::after(kWatchdog)).status();
    EXPECT_EQ(why.code(), StatusCode::kPeerLost) << why.message();
    EXPECT_EQ(why.pid(), world.pid(0));
    EXPECT_TRUE(world.control(1).call({.command = kEcho}, Deadline::after(kWatchdog)).ok());
  }
}

TEST(LaneKillMore, AHundredKilledChildrenLeaveNothingBehind) {
  { TwoChildren warm_up; }
  const uint32_t before = open_descriptors();
  for (int cycle = 0; cycle < 50; ++cycle) {
    TwoChildren world(cycle % 2 == 0 ? "lane.child.answering" : "lane.child.answered");
    world.lane(0).push(task(1));
    world.lane(1).push(task(2, kDie));
    EXPECT_EQ(world.collect(0, 1).size(), 1U);
    EXPECT_EQ(world.collect(1, 1).size(), 1U);
    EXPECT_TRUE(world.wait_until_lost(0) && world.wait_until_lost(1));
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
  EXPECT_EQ(errno, ECHILD);
}

// What the child does when its parent is killed.
enum class ChildState { kIdle, kRunning, kInControl };

class ParentKill : public testing::TestWithParam<ChildState> {};

TEST_P(ParentKill, TheChildEndsToo) {
  SharedMemory shared;
  std::array<int, 2> alive{};  // its far end is open as long as the parent or the child lives
  ASSERT_EQ(::pipe2(alive.data(), O_CLOEXEC), 0);
  const process::Child parent =
      *process::fork_child({.name = "lane parent", .keep_fds = {alive[1]}}, [&](process::ChildContext&) {
        WakePolicy policy;
        wire::initialise(shared->mailboxes[0], wire::kMaxLines, 0);
        MailboxParent lane(LaneInfo{.worker_id = 0}, shared->mailboxes[0]);
        ControlChannel control(shared->mailboxes[0], policy, "worker 0");
        const process::Child child =
            *process::fork_child({.name = "lane child", .keep_fds = {alive[1]}}, [&](process::ChildContext& context) {
              const auto watch = context.guard_parent();
              WakePolicy own;
              ScriptHandler handler(shared->boards[0], own, [] {});
              static_cast<void>(MailboxChild(shared->mailboxes[0], shared->doorbell, own).serve(handler));
              return 0;
            });
        lane.push(task(1));
        if (GetParam() == ChildState::kRunning) lane.push(task(2, kWaitAtGate));
        if (GetParam() == ChildState::kInControl) {
          static_cast<void>(control.call({.command = kWaitAtGateCommand}, Deadline::after(kWatchdog)));
        }
        ::pause();
        return 0;
      });
  ::close(alive[1]);
  WakePolicy policy;
  const bool idle = GetParam() == ChildState::kIdle;
  ASSERT_TRUE(wait(idle ? shared->doorbell : shared->boards[0].changed, policy, Deadline::after(kWatchdog), [&] {
    const auto head = wire::parse_head(wire::load_head(shared->mailboxes[0].lines[0]));
    return idle ? head.state == MailboxState::kTaskDone : shared->boards[0].at_gate.load(std::memory_order_acquire) > 0;
  }));
  EXPECT_TRUE(parent.send_signal(SIGKILL));
  pollfd end{.fd = alive[0], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&end, 1, static_cast<int>(kWatchdog / kMillisecond)), 1) << "the child outlives its parent";
  char byte = 0;
  EXPECT_EQ(::read(alive[0], &byte, 1), 0);
  ::close(alive[0]);
  while (parent.running()) ::poll(nullptr, 0, 1);
}

INSTANTIATE_TEST_SUITE_P(While, ParentKill,
                         testing::Values(ChildState::kIdle, ChildState::kRunning, ChildState::kInControl),
                         [](const auto& state) {
                           switch (state.param) {
                             case ChildState::kIdle:
                               return std::string("TheChildIsIdle");
                             case ChildState::kRunning:
                               return std::string("TheChildRunsATask");
                             default:
                               return std::string("TheChildIsInACommand");
                           }
                         });

}  // namespace
}  // namespace simpler::lane
