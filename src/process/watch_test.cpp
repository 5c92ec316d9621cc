#include "process/watch.h"

#include <array>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <optional>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "base/guarded.h"
#include "process/process_test_support.h"
#include "process/reaper.h"

namespace simpler::process {
namespace {

Child start(const std::string& name, const std::function<int(ChildContext&)>& body) {
  return fork_child({.name = name}, body).value();
}

[[noreturn]] void wait_for_ever() {
  while (true) ::pause();
}

// How often threads of this process went to sleep so far.
long sleeps() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nvcsw;
}

TEST(Watch, TellsOnceHowAChildEnded) {
  auto watch = Watch::of_process().value();
  Guarded<std::vector<ExitInfo>> seen;
  const Child child = start("leaf", [](ChildContext&) -> int { wait_for_ever(); });
  watch->add_child(child, [&](const ExitInfo& info) { seen.update([&](auto& all) { all.push_back(info); }); });
  ASSERT_TRUE(child.send_signal(SIGABRT));
  ASSERT_TRUE(seen.wait_until(Deadline::after(kWatchdog), [](const auto& all) { return !all.empty(); }));
  watch.reset();  // joins the thread: nothing more can come
  ASSERT_EQ(seen.lock()->size(), 1U);
  EXPECT_EQ(seen.lock()->front().code, SIGABRT);
  EXPECT_EQ(seen.lock()->front().pid, child.pid());
}

TEST(Watch, TellsAlsoOfAChildThatHadEndedBefore) {
  const Child child = start("leaf", [](ChildContext&) { return 4; });
  ASSERT_TRUE(reap(std::span(&child, 1), Deadline::after(kWatchdog)).status().is_ok());
  auto watch = Watch::of_process().value();
  Guarded<std::optional<ExitInfo>> seen;
  watch->add_child(child, [&](const ExitInfo& info) { seen.update([&](auto& value) { value = info; }); });
  ASSERT_TRUE(seen.wait_until(Deadline::after(kWatchdog), [](const auto& value) { return value.has_value(); }));
  EXPECT_EQ((*seen.lock())->code, 4);
}

TEST(Watch, IsSilentAboutAChildThatWasRemoved) {
  auto watch = Watch::of_process().value();
  SharedForTest<Flag> leave;
  int calls = 0;  // the watch thread must not touch it
  Guarded<bool> other_ended(false);
  const Child removed = start("removed", [&](ChildContext&) { return leave->await() ? 0 : 1; });
  const Child kept = start("kept", [&](ChildContext&) { return leave->await() ? 0 : 1; });
  const auto token = watch->add_child(removed, [&](const ExitInfo&) { ++calls; });
  watch->add_child(kept, [&](const ExitInfo&) { other_ended.update([](bool& value) { value = true; }); });
  watch->remove_child(token);
  leave->raise();
  EXPECT_TRUE(other_ended.wait_until(Deadline::after(kWatchdog), [](bool value) { return value; }));
  EXPECT_TRUE(reap(std::span(&removed, 1), Deadline::after(kWatchdog)).status().is_ok());
  watch.reset();
  EXPECT_EQ(calls, 0);
}

TEST(Watch, IsOnePerProcessAndEndsWithItsLastOwner) {
  auto first = Watch::of_process().value();
  auto second = Watch::of_process().value();
  EXPECT_EQ(first.get(), second.get());
  const Child child = start("leaf", [&](ChildContext& context) {
    auto own = context.guard_parent().value();
    const bool different = own.get() != first.get();
    const_cast<std::shared_ptr<Watch>&>(first).reset();   // the copies of the parent's watch are given up
    const_cast<std::shared_ptr<Watch>&>(second).reset();  // without touching anything of the parent's
    return different ? 0 : 1;
  });
  const ReapReport report = reap(std::span(&child, 1), Deadline::after(kWatchdog));
  ASSERT_EQ(report.ended.size(), 1U);
  EXPECT_TRUE(report.ended[0].info.clean()) << report.ended[0].info.describe();
}

TEST(Watch, SleepsWhileNothingHappens) {
  auto watch = Watch::of_process().value();
  SharedForTest<Flag> leave;
  const Child child = start("leaf", [&](ChildContext&) { return leave->await() ? 0 : 1; });
  watch->add_child(child, {});
  const long before = sleeps();
  pollfd look{child.pidfd(), POLLIN, 0};
  EXPECT_EQ(::poll(&look, 1, 300), 0);
  EXPECT_LT(sleeps() - before, 20) << "a thread that looks every 10 ms sleeps 30 times";
  leave->raise();
  EXPECT_TRUE(reap(std::span(&child, 1), Deadline::after(kWatchdog)).status().is_ok());
}

struct Family {
  std::atomic<pid_t> middle{0};
  std::array<std::atomic<pid_t>, 2> leaves{};
  Flag ready;
};

// top -> middle -> two leaves, each guarding its parent; says when all are up.
[[noreturn]] void run_top(Family& family) {
  const Child middle = start("middle", [&](ChildContext& context) -> int {
    auto watch = context.guard_parent().value();
    SharedForTest<std::array<Flag, 2>> up;
    for (size_t i = 0; i < 2; ++i) {
      const Child leaf = start("leaf", [&, i](ChildContext& leaf_context) -> int {
        auto own = leaf_context.guard_parent().value();
        (*up)[i].raise();
        wait_for_ever();
      });
      family.leaves[i] = leaf.pid();
      watch->add_child(leaf, {});
    }
    for (Flag& flag : *up) flag.await();
    family.ready.raise();
    wait_for_ever();
  });
  family.middle = middle.pid();
  wait_for_ever();
}

TEST(Watch, AKilledParentLeavesNoProcessBehind) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // the orphans become ours, so that their end can be seen
  SharedForTest<Family> family;
  const pid_t top = ::fork();
  if (top == 0) run_top(*family);
  ASSERT_TRUE(family->ready.await());
  ::kill(top, SIGKILL);
  EXPECT_EQ(collect(top), -SIGKILL);
  for (const pid_t orphan : {family->middle.load(), family->leaves[0].load(), family->leaves[1].load()}) {
    ASSERT_GT(orphan, 0);
    const UniqueFd pidfd = open_pidfd_for_test(orphan);
    EXPECT_TRUE(await_end(pidfd)) << orphan;
    const int end = collect(orphan);
    EXPECT_TRUE(end == Watch::kOrphanedExitStatus || end == -SIGKILL) << end;
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(Watch, AChildWhoseParentEndedBeforeItLookedEndsToo) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  SharedForTest<std::atomic<pid_t>> orphan;
  SharedForTest<Flag> parent_gone;
  const pid_t top = ::fork();
  if (top == 0) {
    *orphan = start("leaf", [&](ChildContext& context) -> int {
                parent_gone->await();
                if (context.parent_alive()) return 1;
                auto watch = context.guard_parent().value();
                wait_for_ever();
              }).pid();
    ::_exit(0);
  }
  EXPECT_EQ(collect(top), 0);
  parent_gone->raise();
  EXPECT_EQ(collect(orphan->load()), Watch::kOrphanedExitStatus);
  ::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

// As the first process of a new process-id space, where the parent's number is 1.
int as_first_process() {
  SharedForTest<Flag> guarded;
  SharedForTest<Flag> leave;
  if (::getpid() != 1) return 10;
  const Child child = start("leaf", [&](ChildContext& context) {
    const ParentLink by_number{context.parent_pid(), UniqueFd()};
    if (context.parent_pid() != 1 || !context.parent_alive() || !by_number.alive()) return 1;
    auto watch = context.guard_parent().value();
    guarded->raise();
    return leave->await() ? 0 : 2;
  });
  if (!guarded->await()) return 11;
  leave->raise();
  const ReapReport report = reap(std::span(&child, 1), Deadline::after(kWatchdog));
  if (report.ended.size() != 1) return 12;
  return report.ended[0].info.clean() ? 0 : 13;
}

TEST(Watch, AParentWithProcessIdOneIsNotMistakenForAnOrphansKeeper) {
  const pid_t helper = ::fork();
  if (helper == 0) {
    if (::unshare(CLONE_NEWPID) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0) ::_exit(77);
    const pid_t first = ::fork();
    if (first == 0) ::_exit(as_first_process());
    ::_exit(first < 0 ? 77 : collect(first) & 0x7f);
  }
  const int result = collect(helper);
  if (result == 77) GTEST_SKIP() << "this environment does not allow a new process-id space";
  EXPECT_EQ(result, 0);
}

// From here on the kernel answers this process and its children that it does not know pidfds.
bool refuse_pidfds() {
  std::array<sock_filter, 4> program = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// A child's death is told, and a parent's death ends its child.
int without_pidfds() {
  if (!refuse_pidfds()) return 77;
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return 77;
  auto watch = Watch::of_process().value();
  Guarded<int> code(0);
  const Child killed = start("killed", [](ChildContext&) -> int { wait_for_ever(); });
  if (killed.pidfd() >= 0) return 10;
  watch->add_child(killed, [&](const ExitInfo& info) { code.update([&](int& value) { value = info.code; }); });
  killed.send_signal(SIGABRT);
  if (!code.wait_until(Deadline::after(kWatchdog), [](int value) { return value == SIGABRT; })) return 11;

  SharedForTest<std::atomic<pid_t>> orphan;
  SharedForTest<Flag> up;
  const Child middle = start("middle", [&](ChildContext&) -> int {
    *orphan = start("leaf", [&](ChildContext& context) -> int {
                auto own = context.guard_parent().value();
                up->raise();
                wait_for_ever();
              }).pid();
    wait_for_ever();
  });
  if (!up->await()) return 12;
  const ReapReport report = reap(std::span(&middle, 1), Deadline::after(kSecond), {0, 0});
  if (report.ended.size() != 1) return 13;
  return collect(orphan->load()) == Watch::kOrphanedExitStatus ? 0 : 14;
}

TEST(Watch, WorksByLookingWhereTheKernelRefusesPidfds) {
  const pid_t helper = ::fork();
  if (helper == 0) ::_exit(without_pidfds());
  const int result = collect(helper);
  if (result == 77) GTEST_SKIP() << "this environment does not allow system call filters";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace simpler::process
