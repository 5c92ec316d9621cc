#include "process/reaper.h"

#include <signal.h>

#include <gtest/gtest.h>

#include "process/process_test_support.h"

namespace simpler::process {
namespace {

constexpr ReapOptions kPatient{.leave_percent = 90, .terminate_percent = 5};
constexpr ReapOptions kTerminateSoon{.leave_percent = 1, .terminate_percent = 90};
constexpr ReapOptions kKillSoon{.leave_percent = 1, .terminate_percent = 1};
constexpr ReapOptions kKillNow{.leave_percent = 0, .terminate_percent = 0};

Child start(const std::function<int(ChildContext&)>& body) {
  return fork_child({.name = "leaf"}, body).value();
}

// Ignores SIGTERM and waits for ever, once it has said so.
Child start_wedged(Flag& wedged) {
  return start([&wedged](ChildContext&) {
    ::signal(SIGTERM, SIG_IGN);
    wedged.raise();
    while (true) ::pause();
    return 0;
  });
}

TEST(Reap, LetsChildrenLeaveByThemselves) {
  SharedForTest<Flag> leave;
  std::vector<Child> children;
  for (int i = 0; i < 3; ++i) children.push_back(start([&, i](ChildContext&) { return leave->await() ? i : 99; }));
  leave->raise();
  const ReapReport report = reap(children, Deadline::after(kWatchdog), kPatient);
  EXPECT_TRUE(report.status().is_ok());
  ASSERT_EQ(report.ended.size(), 3U);
  for (const auto& ended : report.ended) {
    EXPECT_EQ(ended.info.kind, ExitInfo::Kind::kExited);
    EXPECT_FALSE(ended.terminated || ended.killed);
  }
}

TEST(Reap, TerminatesAChildThatStays) {
  const Child child = start([](ChildContext&) {
    while (true) ::pause();
    return 0;
  });
  const ReapReport report = reap(std::span(&child, 1), Deadline::after(kWatchdog), kTerminateSoon);
  ASSERT_EQ(report.ended.size(), 1U);
  EXPECT_EQ(report.ended[0].info.code, SIGTERM);
  EXPECT_TRUE(report.ended[0].terminated);
}

TEST(Reap, AStoppedChildIsTerminatedToo) {
  const Child child = start([](ChildContext&) {
    ::raise(SIGSTOP);
    while (true) ::pause();
    return 0;
  });
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED), 0);
  const ReapReport report = reap(std::span(&child, 1), Deadline::after(kWatchdog), kTerminateSoon);
  ASSERT_EQ(report.ended.size(), 1U);
  EXPECT_EQ(report.ended[0].info.code, SIGTERM);
}

TEST(Reap, KillsAllWedgedChildrenWithinOneBudget) {
  constexpr size_t kChildren = 5;
  SharedForTest<std::array<Flag, kChildren>> wedged;
  std::vector<Child> children;
  for (size_t i = 0; i < kChildren; ++i) children.push_back(start_wedged((*wedged)[i]));
  for (Flag& flag : *wedged) ASSERT_TRUE(flag.await());
  const ReapReport report = reap(children, Deadline::after(2 * kSecond), kKillSoon);
  EXPECT_TRUE(report.status().is_ok());
  ASSERT_EQ(report.ended.size(), kChildren);
  for (const auto& ended : report.ended) {
    EXPECT_EQ(ended.info.code, SIGKILL);
    EXPECT_TRUE(ended.terminated && ended.killed);
  }
  EXPECT_TRUE(reap(children, Deadline::after(kSecond)).status().is_ok()) << "a later call finds them ended";
}

TEST(Reap, KillsAtOnceWhenToldToAndAlsoAfterTheDeadline) {
  SharedForTest<std::array<Flag, 2>> wedged;
  const Child first = start_wedged((*wedged)[0]);
  const Child second = start_wedged((*wedged)[1]);
  for (Flag& flag : *wedged) ASSERT_TRUE(flag.await());
  const ReapReport now = reap(std::span(&first, 1), Deadline::after(kWatchdog), kKillNow);
  const ReapReport late = reap(std::span(&second, 1), Deadline::at(1));
  ASSERT_EQ(now.ended.size(), 1U);
  EXPECT_TRUE(now.ended[0].killed && !now.ended[0].terminated);
  ASSERT_EQ(late.ended.size() + late.survivors.size(), 1U);
  EXPECT_TRUE(reap(std::span(&second, 1), Deadline::after(kWatchdog)).status().is_ok());
}

TEST(Reap, NothingToReapIsSuccess) {
  EXPECT_TRUE(reap({}, Deadline::never()).status().is_ok());
}

TEST(ReapReport, NamesSurvivors) {
  SharedForTest<Flag> leave;
  const Child child = start([&](ChildContext&) { return leave->await() ? 0 : 1; });
  ReapReport report;
  report.survivors.push_back(child);
  EXPECT_EQ(report.status().code(), StatusCode::kTimeout);
  EXPECT_NE(report.status().message().find("leaf (pid " + std::to_string(child.pid()) + ")"), std::string_view::npos);
  leave->raise();
  EXPECT_TRUE(reap(std::span(&child, 1), Deadline::after(kWatchdog)).status().is_ok());
}

}  // namespace
}  // namespace simpler::process
