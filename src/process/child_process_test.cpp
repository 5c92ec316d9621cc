#include "process/child_process.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <signal.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <thread>

#include <gtest/gtest.h>

#include "process/fork_point.h"
#include "process/process_test_support.h"
#include "process/reaper.h"
#include "process/watch.h"

namespace simpler::process {
namespace {

// Waits for the end of one child.
ExitInfo end_of(const Child& child) {
  const ReapReport report = reap(std::span(&child, 1), Deadline::after(kWatchdog), {.leave_percent = 90});
  EXPECT_TRUE(report.survivors.empty());
  return report.ended.empty() ? ExitInfo{} : report.ended[0].info;
}

Child start(const ForkOptions& options, const std::function<int(ChildContext&)>& body) {
  auto child = fork_child(options, body);
  if (!child.ok()) throw std::runtime_error(child.status().describe());
  return *child;
}

TEST(ForkChild, ReportsTheExitStatusOfItsBody) {
  const Child child = start({.name = "leaf"}, [](ChildContext& context) { return context.name() == "leaf" ? 7 : 1; });
  const ExitInfo info = end_of(child);
  EXPECT_EQ(info.pid, child.pid());
  EXPECT_EQ(info.describe(), "ended with exit status 7");
  const Status status = info.to_status("sub 0");
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.exit_status(), 7);
  EXPECT_EQ(status.pid(), child.pid());
  EXPECT_FALSE(child.send_signal(SIGTERM)) << "it has ended";
}

TEST(ForkChild, ReportsTheSignalThatKilledIt) {
  const Child child = start({}, [](ChildContext&) {
    ::raise(SIGKILL);
    return 0;
  });
  const ExitInfo info = end_of(child);
  EXPECT_EQ(info.describe(), "was killed by signal 9 (Killed)");
  EXPECT_EQ(info.to_status("sub 0").signal(), 9);
}

TEST(ForkChild, NeverReturnsOrThrowsIntoTheCallersFrames) {
  SharedForTest<std::atomic<int>> passed;
  Child child;
  try {
    child = start({}, [](ChildContext&) -> int { throw std::runtime_error("deliberate, part of a test"); });
  } catch (...) {
    ++*passed;
  }
  ++*passed;
  EXPECT_EQ(end_of(child).code, 70);
  EXPECT_EQ(passed->load(), 1);
}

TEST(ForkChild, IgnoresAnInterruptAndEndsBySigtermWhateverTheParentDoesWithIt) {
  struct sigaction old {};
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGTERM, &ignore, &old), 0);
  const Child child = start({}, [](ChildContext&) {
    ::raise(SIGINT);
    ::raise(SIGTERM);
    return 1;
  });
  const ExitInfo info = end_of(child);
  ::sigaction(SIGTERM, &old, nullptr);
  EXPECT_EQ(info.kind, ExitInfo::Kind::kSignaled);
  EXPECT_EQ(info.code, SIGTERM);
}

TEST(ForkChild, LeavesTheSignalSettingsOfTheParentAlone) {
  std::array<struct sigaction, 3> before{};
  std::array<struct sigaction, 3> after{};
  constexpr std::array kSignals = {SIGINT, SIGTERM, SIGCHLD};
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], nullptr, &before[i]);
  sigset_t mask_before;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_before);
  end_of(start({}, [](ChildContext&) { return 0; }));
  sigset_t mask_after;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask_after);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &after[i]);
    EXPECT_EQ(after[i].sa_handler, before[i].sa_handler);
  }
  for (int signal = 1; signal < 32; ++signal)
    EXPECT_EQ(sigismember(&mask_after, signal), sigismember(&mask_before, signal));
}

TEST(ForkChild, ClosesEveryDescriptorItWasNotToldToKeep) {
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(::pipe(pipe_ends.data()), 0);  // without close-on-exec, as a foreign library would leave it
  const UniqueFd reader(pipe_ends[0]);
  UniqueFd writer(pipe_ends[1]);
  const UniqueFd kept(::open("/dev/null", O_RDONLY));
  const UniqueFd high(::fcntl(kept.get(), F_DUPFD, 500));
  SharedForTest<Flag> leave;
  const int dropped = writer.get();
  const Child child = start({.keep_fds = {kept.get()}}, [&](ChildContext&) {
    const bool right = ::fcntl(dropped, F_GETFD) < 0 && ::fcntl(high.get(), F_GETFD) < 0 &&
                       ::fcntl(kept.get(), F_GETFD) >= 0 && ::fcntl(2, F_GETFD) >= 0;
    leave->await();
    return right ? 0 : 1;
  });
  writer.reset();
  pollfd look{reader.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&look, 1, static_cast<int>(kWatchdog / kMillisecond)), 1) << "end of file while the child lives";
  EXPECT_NE(look.revents & POLLHUP, 0);
  leave->raise();
  EXPECT_TRUE(end_of(child).clean());
}

TEST(ForkChild, TakesAGroupOfItsOwnOnlyIfAsked) {
  const Child alone = start({.own_group = true}, [](ChildContext&) { return ::getpgrp() == ::getpid() ? 0 : 1; });
  const pid_t group = ::getpgrp();
  const Child joined = start({}, [group](ChildContext&) { return ::getpgrp() == group ? 0 : 1; });
  EXPECT_TRUE(end_of(alone).clean());
  EXPECT_TRUE(end_of(joined).clean());
}

TEST(ForkChild, WhatIsLeftOfItsGroupEndsWithIt) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  SharedForTest<std::atomic<pid_t>> helper;
  SharedForTest<Flag> started;
  SharedForTest<Flag> leave;
  const Child child = start({.own_group = true}, [&](ChildContext&) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      while (true) ::pause();
    }
    *helper = pid;
    started->raise();
    leave->await();
    return 0;
  });
  ASSERT_TRUE(started->await());
  const UniqueFd left = open_pidfd_for_test(helper->load());
  leave->raise();
  EXPECT_TRUE(end_of(child).clean());
  EXPECT_TRUE(await_end(left));
  EXPECT_EQ(collect(helper->load()), -SIGKILL);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(ForkChild, WorksWhileOtherThreadsOfOursRunAndAllocate) {
  auto watch = Watch::of_process();
  ASSERT_TRUE(watch.ok());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop.load()) std::string(200, 'x').append(100, 'y');
  });
  for (int round = 0; round < 20; ++round) {
    const Child child = start({}, [](ChildContext& context) {
      auto own = context.guard_parent();  // a child starts threads of its own
      return own.ok() && std::string(300, 'z').size() == 300 ? 0 : 1;
    });
    EXPECT_TRUE(end_of(child).clean());
  }
  stop = true;
  busy.join();
}

TEST(ForkChild, KnowsNothingOfAChildInAnotherProcess) {
  SharedForTest<Flag> leave;
  const Child child = start({}, [&](ChildContext&) { return leave->await() ? 0 : 1; });
  const pid_t copy = ::fork();
  if (copy == 0) ::_exit(!child.exit_info().has_value() && !child.send_signal(SIGKILL) ? 0 : 1);
  EXPECT_EQ(collect(copy), 0);
  leave->raise();
  EXPECT_TRUE(end_of(child).clean());
}

struct Startup {
  std::atomic<int> state{0};  // 1 ready, 2 failed; release by the child, acquire by the parent
  std::array<char, 64> text{};
};

LookAtChild look_at(SharedForTest<std::array<Startup, 3>>& records) {
  return [&records](size_t index) -> std::optional<Status> {
    const Startup& record = (*records)[index];
    const int state = record.state.load(std::memory_order_acquire);
    if (state == 0) return std::nullopt;
    return state == 1 ? Status::ok() : failed_precondition(record.text.data());
  };
}

void announce(Startup& record, int state, ChildContext& context) {
  record.state.store(state, std::memory_order_release);
  context.raise_ready();
}

class WaitReady : public testing::Test {
 protected:
  void SetUp() override {
    auto created = ReadySignal::create();
    ASSERT_TRUE(created.ok());
    signal_.emplace(std::move(*created));
  }
  void TearDown() override {
    leave_->raise();
    EXPECT_TRUE(reap(children_, Deadline::after(kWatchdog)).status().is_ok());
  }
  void add(std::function<int(ChildContext&, Startup&, Flag&)> body) {
    Startup& record = (*records_)[children_.size()];
    ForkOptions options;
    options.name = "sub " + std::to_string(children_.size());
    options.ready = &*signal_;
    children_.push_back(start(options, [&](ChildContext& context) { return body(context, record, *leave_); }));
  }
  void add_good() {
    add([](ChildContext& context, Startup& record, Flag& leave) {
      announce(record, 1, context);
      return leave.await() ? 0 : 1;
    });
  }
  Status wait(Deadline deadline = Deadline::after(kWatchdog)) {
    return wait_ready(children_, &*signal_, deadline, look_at(records_));
  }

  std::optional<ReadySignal> signal_;
  SharedForTest<std::array<Startup, 3>> records_;
  SharedForTest<Flag> leave_;
  std::vector<Child> children_;
};

TEST_F(WaitReady, EndsWhenEveryChildIsReady) {
  for (int i = 0; i < 3; ++i) add_good();
  EXPECT_TRUE(wait().is_ok());
  EXPECT_TRUE(wait_ready(children_, nullptr, Deadline::after(kWatchdog), look_at(records_)).is_ok());
}

TEST_F(WaitReady, PassesOnTheTextOfAChildThatFailsInItsStart) {
  add_good();
  add([](ChildContext& context, Startup& record, Flag&) {
    constexpr std::string_view kText = "no such device: 99";
    std::copy(kText.begin(), kText.end(), record.text.begin());
    announce(record, 2, context);
    return 3;
  });
  const Status status = wait();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "no such device: 99");
}

TEST_F(WaitReady, NamesAChildThatDiesWithoutAWord) {
  add_good();
  add([](ChildContext&, Startup&, Flag&) {
    ::raise(SIGABRT);
    return 0;
  });
  const Status status = wait();
  EXPECT_EQ(status.code(), StatusCode::kPeerLost);
  EXPECT_EQ(status.signal(), SIGABRT);
  EXPECT_NE(status.message().find("sub 1 (pid "), std::string_view::npos) << status.message();
}

TEST_F(WaitReady, NamesThoseThatAreNotReadyAtTheDeadline) {
  add_good();
  add([](ChildContext&, Startup&, Flag& leave) { return leave.await() ? 0 : 1; });
  const Status status = wait(Deadline::after(200 * kMillisecond));
  EXPECT_EQ(status.code(), StatusCode::kTimeout);
  EXPECT_EQ(status.message(), "start-up deadline passed; not ready: sub 1");
}

}  // namespace
}  // namespace simpler::process
