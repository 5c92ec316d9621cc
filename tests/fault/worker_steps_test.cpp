// A child or the parent is killed at every step of a worker's start-up and close: who is left says so in one clear
// error, ends in order, has nothing left over, and the process can start the next worker.
#include "fault/worker_steps.h"

#include <algorithm>
#include <poll.h>
#include <set>
#include <thread>

#include "process/watch.h"

namespace simpler::testing {
namespace {

template <std::size_t... sizes>
std::vector<Step> all_of(const Step (&... parts)[sizes]) {
  std::vector<Step> all;
  (all.insert(all.end(), parts, parts + sizes), ...);
  return all;
}

void expect_a_new_worker_works() {
  Tree tree(nullptr);
  tree.worker.init();
  tree.use();
  tree.worker.close();
}

TEST(WorkerSteps, TheTablesHoldEveryStepThatIsReached) {
  Disturbance watched({"", false, 0, 0}, Kind::kHost, Victim::kParent);
  watched.adopt();
  {
    Tree tree(watched.plan());
    tree.worker.init();
    tree.worker.close();
  }
  const std::vector<std::string> reached = watched.reached();
  std::set<std::string> tables;
  for (const Step& step : all_of(kBeforeForks, kStart, kClose, kAfterChildren)) tables.insert(step.point);
  EXPECT_EQ(std::set<std::string>(reached.begin(), reached.end()), tables);
}

// One start with a kill in it. True: the step was reached.
void start_and_lose_a_child(const Step& step, Kind kind) {
  Disturbance killed(step, kind, Victim::kChild);
  killed.adopt();
  Tree tree(killed.plan());
  const Status status = thrown([&] { tree.worker.init(); });
  EXPECT_EQ(status.code(), StatusCode::kPeerLost) << status.message();
  EXPECT_GT(killed.victim(), 0) << "nobody came to the step";
  EXPECT_EQ(status.pid(), killed.victim());
  EXPECT_EQ(status.signal(), SIGKILL);
  const std::string who = killed.child_name() + " (pid " + std::to_string(killed.victim()) + ") was killed by signal 9";
  EXPECT_NE(status.message().find(who), std::string_view::npos) << status.message();
  EXPECT_EQ(tree.worker.state(), WorkerState::kFailed);
  const Status later = thrown([&] { tree.worker.run([](Orchestrator&) {}); });
  EXPECT_NE(later.message().find(who), std::string_view::npos) << later.message();
  tree.worker.close();
  EXPECT_EQ(tree.worker.state(), WorkerState::kClosed);
}

void lose_a_child_and_close(const Step& step, Kind kind) {
  Disturbance killed(step, kind, Victim::kChild);
  killed.adopt();
  Tree tree(killed.plan());
  tree.worker.init();
  tree.use();
  tree.worker.close();
  EXPECT_GT(killed.victim(), 0) << "nobody came to the step";
  EXPECT_EQ(tree.worker.state(), WorkerState::kClosed);
}

class StartKill : public ::testing::TestWithParam<Step> {};

TEST_P(StartKill, TheStartNamesTheChildAndNothingStays) {
  for (const Kind kind : kinds_of(GetParam())) {
    SCOPED_TRACE(name_of(kind, 0));
    const Holdings before = Holdings::now();
    start_and_lose_a_child(GetParam(), kind);
    EXPECT_EQ(Holdings::now(), before);
    expect_a_new_worker_works();
    EXPECT_EQ(Holdings::now(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(At, StartKill, ::testing::ValuesIn(kStart), test_name);

class CloseKill : public ::testing::TestWithParam<Step> {};

TEST_P(CloseKill, TheCloseEndsInOrderAndNothingStays) {
  for (const Kind kind : kinds_of(GetParam())) {
    SCOPED_TRACE(name_of(kind, 0));
    const Holdings before = Holdings::now();
    lose_a_child_and_close(GetParam(), kind);
    EXPECT_EQ(Holdings::now(), before);
    expect_a_new_worker_works();
    EXPECT_EQ(Holdings::now(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(At, CloseKill, ::testing::ValuesIn(kClose), test_name);

TEST(WorkerSteps, AHundredKilledStartsAndClosesLeaveNothingBehind) {
  const Holdings before = Holdings::now();
  for (std::size_t cycle = 0; cycle < 100; ++cycle) {
    const std::vector<Step> steps = all_of(kStart, kClose);
    const std::size_t place = cycle % steps.size();
    const Step& step = steps[place];
    const Kind kind = kinds_of(step)[(cycle / steps.size()) % kinds_of(step).size()];
    SCOPED_TRACE(step.point + (" with " + name_of(kind, 0)));
    if (place < std::size(kStart)) {
      start_and_lose_a_child(step, kind);
    } else {
      lose_a_child_and_close(step, kind);
    }
    ASSERT_EQ(Holdings::now(), before);
  }
}

TEST(WorkerSteps, AChildKilledInATaskEndsTheCloseThatWaitsForIt) {
  Disturbance killed({"close.parent.drain", true, 1, 0}, Kind::kHost, Victim::kChild);
  killed.adopt();
  Tree tree(killed.plan());
  tree.worker.init();
  const Buffer flags = tree.worker.create_buffer(24);
  std::memset(flags.data(), 0, 24);
  const RunHandle run = tree.worker.submit([&](Orchestrator& orch) {
    for (std::uint32_t task = 0; task < 2; ++task) {
      orch.submit_sub(tree.meet(), TaskArgs().output(words(flags, task)).no_dep(words(flags, 2)));
    }
  });
  while (__atomic_load_n(&word(flags, 0), __ATOMIC_ACQUIRE) == 0 ||
         __atomic_load_n(&word(flags, 1), __ATOMIC_ACQUIRE) == 0) {
    sched_yield();
  }
  std::thread release([&] {
    // The other child's task ends once the first child is gone.
    killed.board().await([&] { return killed.victim() != 0; });
    set_word(word(flags, 2));
  });
  tree.worker.close();
  release.join();
  const Status outcome = run.outcome();
  EXPECT_EQ(outcome.code(), StatusCode::kPeerLost) << outcome.message();
  EXPECT_EQ(outcome.pid(), killed.victim());
  EXPECT_EQ(outcome.signal(), SIGKILL);
}

// Steps that fail rather than being the last of a process.

class StartFailure : public ::testing::TestWithParam<Step> {};

TEST_P(StartFailure, TheStartSaysWhyAndNothingStays) {
  const Holdings before = Holdings::now();
  {
    FaultPlan plan;
    plan.fail_at(GetParam().point, 1, resource_exhausted("planned"));
    Tree tree(&plan);
    const Status status = thrown([&] { tree.worker.init(); });
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
    EXPECT_NE(status.message().find("planned"), std::string_view::npos) << status.message();
    EXPECT_EQ(tree.worker.state(), WorkerState::kFailed);
  }
  EXPECT_EQ(Holdings::now(), before);
}

// A child can say why until it has said that it is ready.
std::vector<Step> steps_with_a_reason() {
  std::vector<Step> steps = all_of(kBeforeForks, kStart);
  std::erase_if(steps, [](const Step& step) {
    const std::string_view point = step.point;
    return point == "process.child.forked" || point == "start.child.announced" || point == "start.child.language" ||
           point == "start.child.serve";
  });
  return steps;
}

INSTANTIATE_TEST_SUITE_P(At, StartFailure, ::testing::ValuesIn(steps_with_a_reason()), test_name);

class CloseFailure : public ::testing::TestWithParam<Step> {};

TEST_P(CloseFailure, ALaterCloseGoesOn) {
  const Holdings before = Holdings::now();
  {
    FaultPlan plan;
    plan.fail_at(GetParam().point, 1, resource_exhausted("planned"));
    Tree tree(&plan);
    tree.worker.init();
    tree.use();
    EXPECT_EQ(thrown([&] { tree.worker.close(); }).message(), "planned");
    tree.worker.close();
  }
  EXPECT_EQ(Holdings::now(), before);
}

std::vector<Step> steps_of_a_closing_parent() {
  std::vector<Step> steps = all_of(kClose, kAfterChildren);
  std::erase_if(steps, [](const Step& step) { return !step.in_parent; });
  return steps;
}

INSTANTIATE_TEST_SUITE_P(At, CloseFailure, ::testing::ValuesIn(steps_of_a_closing_parent()), test_name);

// Ends of a pipe whose write end only a doomed parent and its children hold.
struct LifeLine {
  UniqueFd read_end, write_end;
  LifeLine() {
    int ends[2];
    SIMPLER_CHECK(::pipe(ends) == 0, errno);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  // What they print until the last of them is gone.
  ::testing::AssertionResult ends(std::string& printed) {
    write_end.reset();
    pollfd look{read_end.get(), POLLIN, 0};
    while (::poll(&look, 1, static_cast<int>(kWatchdog / kMillisecond)) == 1) {
      std::array<char, 512> text{};
      const ssize_t count = ::read(read_end.get(), text.data(), text.size());
      if (count <= 0) return ::testing::AssertionSuccess();
      printed.append(text.data(), static_cast<std::size_t>(count));
    }
    return ::testing::AssertionFailure() << "a process outlives its parent";
  }
};

class ParentKill : public ::testing::TestWithParam<Step> {
 protected:
  // Orphans come to this process, so that it learns how they ended.
  void SetUp() override { ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  void TearDown() override { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // The process that starts a worker, uses it and closes it, and is killed in between.
  [[noreturn]] static void be_the_parent(Disturbance& killed, LifeLine& line) {
    ::dup2(line.write_end.get(), STDERR_FILENO);
    line.write_end.reset();
    line.read_end.reset();
    killed.adopt();
    Tree tree(killed.plan());
    tree.worker.init();
    tree.use();
    tree.worker.close();
    ::_exit(0);
  }

  static void lose_the_parent(const Step& step, Kind kind) {
    Disturbance killed(step, kind, Victim::kParent);
    LifeLine line;
    const pid_t parent = ::fork();
    if (parent == 0) be_the_parent(killed, line);
    std::string printed;
    const ::testing::AssertionResult ended = line.ends(printed);
    if (!ended) killed.end_children();
    EXPECT_TRUE(ended);
    EXPECT_EQ(printed, "");
    EXPECT_EQ(process::collect(parent), -SIGKILL);
    std::size_t orphans = 0;
    int status = 0;
    for (; ::waitpid(-1, &status, 0) > 0; ++orphans) {
      const bool ends_as_told = WIFEXITED(status) && (WEXITSTATUS(status) == process::Watch::kOrphanedExitStatus ||
                                                      (is_close(step) && WEXITSTATUS(status) == 0));
      EXPECT_TRUE(ends_as_told) << "status " << status;
    }
    // A closing parent has collected some of them itself.
    EXPECT_TRUE(is_close(step) ? orphans <= killed.forked() : orphans == killed.forked()) << orphans;
    ::unlink((::testing::TempDir() + "simpler_steps_" + std::to_string(parent) + ".json").c_str());
  }
  static bool is_close(const Step& step) { return std::string_view(step.point).substr(0, 5) == "close"; }
};

TEST_P(ParentKill, ItsChildrenGoWithIt) {
  for (const Kind kind : kinds_of(GetParam())) {
    SCOPED_TRACE(name_of(kind, 0));
    const Holdings before = Holdings::now();
    lose_the_parent(GetParam(), kind);
    EXPECT_EQ(Holdings::now(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(At, ParentKill, ::testing::ValuesIn(all_of(kBeforeForks, kStart, kClose, kAfterChildren)),
                         test_name);

}  // namespace
}  // namespace simpler::testing
