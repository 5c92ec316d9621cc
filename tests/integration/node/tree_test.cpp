// A whole tree from outside: what it costs while nothing is asked of it, how it bears quick ends, how large its
// memory may be, and what a run that is done has left behind.
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

#include "base/test_activity.h"
#include "node_fixture.h"

namespace simpler::testing {
namespace {

// Sleeps in the kernel until the parent calls, where a child that spins would hide what the runtime does.
void sleep_until_called(const MappedArg& arg) {
  auto* flag = arg.as<std::uint32_t>();
  while (__atomic_load_n(flag, __ATOMIC_ACQUIRE) == 0) {
    ::syscall(SYS_futex, flag, FUTEX_WAIT, 0, nullptr, nullptr, 0);
  }
}

void call(const Buffer& buffer) {
  auto* flag = reinterpret_cast<std::uint32_t*>(buffer.data());
  __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
  ::syscall(SYS_futex, flag, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

constexpr std::int64_t kWindow = 400'000'000;

// No thread of the tree may look around by itself, and all together use less than 2 % of one CPU.
void expect_quiet(const Worker& worker, const char* when) {
  std::vector<std::pair<std::string, pid_t>> processes;
  for (const Worker::ChildStatistics& child : worker.statistics()) {
    processes.emplace_back(child.name, child.pid);
  }
  processes.emplace_back("the parent", ::getpid());
  pass(kWindow / 4);  // the work before this call dies down in time that is not measured
  std::vector<std::map<pid_t, Activity>> before;
  for (const auto& [name, process] : processes) {
    before.push_back(activity_of(process));
  }
  pass(kWindow);
  std::vector<std::map<pid_t, Activity>> after(processes.size());
  for (std::size_t i = processes.size(); i-- > 0;) {
    after[i] = activity_of(processes[i].second);
  }
  std::uint64_t cpu_ns = 0;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const Activity activity = grown(before[i], after[i]);
    EXPECT_LE(activity.switches, 8U) << processes[i].first << " " << when;
    cpu_ns += activity.cpu_ns;
  }
  EXPECT_LT(cpu_ns, static_cast<std::uint64_t>(kWindow) / 50) << when;
}

TEST(TreeTest, B061_AnIdleTreeOfEightChildrenCostsNothing) {
  Worker worker({.level = 3, .platform = "tiny", .device_ids = {0, 1}, .num_sub_workers = 6});
  const CallableHandle hold =
      worker.register_native("hold", [](const MappedArgs& args) { sleep_until_called(args[0]); });
  const CallableHandle add =
      worker.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
  worker.init();
  expect_quiet(worker, "after init");
  const Buffer counts = worker.create_buffer(8 * 8);
  const Buffer flag = worker.create_buffer(8);
  std::memset(counts.data(), 0, counts.nbytes());
  word(flag) = 0;
  const auto once = [&](Orchestrator& orch) { orch.submit_sub(add, TaskArgs().inout(words(counts))); };
  worker.run(once);
  expect_quiet(worker, "after a run");

  const RunHandle run = worker.submit([&](Orchestrator& orch) {
    orch.submit_sub(hold, TaskArgs().no_dep(words(flag)));
    std::vector<TaskArgs> members(6);
    for (std::uint32_t i = 0; i < 6; ++i) {
      members[i].inout(words(counts, 1 + i));
    }
    orch.submit_sub_group(add, members);
  });
  expect_quiet(worker, "while a group waits for a busy member");
  std::thread waiter([&] { EXPECT_TRUE(run.outcome().is_ok()); });
  expect_quiet(worker, "the same with a waiter");
  const RunHandle next = worker.submit(once);
  call(flag);
  waiter.join();
  next.wait();
  EXPECT_EQ(word(counts), 2U);
  for (std::size_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(word(counts, i), 1U);
  }
  worker.close();
}

// One program: many times a tree, a few runs that nobody waits for, and its end.
int open_run_close(int cycles) {
  for (int cycle = 0; cycle < cycles; ++cycle) {
    Worker worker({.level = 3, .num_sub_workers = 2});
    const CallableHandle add =
        worker.register_native("add", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() += 1; });
    worker.init();
    const Buffer buffer = worker.create_buffer(8);
    word(buffer) = 0;
    const int runs = 1 + cycle % 4;
    for (int i = 0; i < runs; ++i) {
      worker.submit([&](Orchestrator& orch) {
        for (int k = 0; k < 3; ++k) {
          orch.submit_sub(add, TaskArgs().inout(words(buffer)));
        }
      });
    }
    if (cycle % 8 == 7) {
      continue;  // its destructor ends what has not run
    }
    worker.close();
    if (word(buffer) != static_cast<std::uint64_t>(3 * runs)) {
      return 1;
    }
  }
  return 0;
}

TEST(TreeTest, B068_FourProgramsOfShortRunsAndImmediateClosesEndWellSideBySide) {
  std::vector<pid_t> programs;
  for (int i = 0; i < 4; ++i) {
    programs.push_back(::fork());
    ASSERT_GE(programs.back(), 0);
    if (programs.back() == 0) {
      ::_exit(open_run_close(60));
    }
  }
  for (const pid_t program : programs) {
    int status = -1;
    ASSERT_EQ(::waitpid(program, &status, 0), program);
    EXPECT_EQ(status, 0);
  }
}

TEST(TreeTest, B049_TheLastByteOfBuffersAroundTwoAndFourGibibytesIsTheSameForParentAndChild) {
  constexpr std::uint64_t kGibi = std::uint64_t{1} << 30;
  Worker worker({.level = 3, .num_sub_workers = 2});
  // Both go by the whole buffer: the byte at a 64-bit place of it.
  const CallableHandle put = worker.register_native("put", [](const MappedArgs& args) {
    args[0].as<std::uint8_t>()[args.scalar(0)] = static_cast<std::uint8_t>(args.scalar(1));
  });
  const CallableHandle get = worker.register_native("get", [](const MappedArgs& args) {
    *args[1].as<std::uint64_t>() += args[0].as<const std::uint8_t>()[args.scalar(0)];
  });
  worker.init();
  const Buffer sum = worker.create_buffer(8);
  for (const std::uint64_t bytes : {2 * kGibi - 1, 2 * kGibi, 4 * kGibi, 5 * kGibi}) {
    const Buffer large = worker.create_buffer(bytes);
    ASSERT_EQ(large.nbytes(), bytes);
    const bool one_row = bytes < 4 * kGibi;  // an extent has 32 bits
    const Tensor whole =
        one_row ? large.tensor({static_cast<std::uint32_t>(bytes)}, DataType::kUint8)
                : large.tensor({static_cast<std::uint32_t>(bytes / kGibi), std::uint32_t{1} << 30}, DataType::kUint8);
    const Tensor last = large.tensor({1}, DataType::kUint8, bytes - 1);
    word(sum) = 0;
    large.data()[bytes - 1] = std::byte{1};
    worker.run([&](Orchestrator& orch) {
      const auto at = bytes - 1;
      orch.submit_sub(get, TaskArgs().input(whole).inout(words(sum)).add_scalar(at));               // 1
      orch.submit_sub(put, TaskArgs().inout(whole).add_scalar(at).add_scalar(10));                  // after it
      orch.submit_sub(get, TaskArgs().input(last).inout(words(sum)).add_scalar(std::uint64_t{0}));  // the view: 10
      orch.submit_sub(put, TaskArgs().inout(last).add_scalar(std::uint64_t{0}).add_scalar(100));    // after that
      orch.submit_sub(get, TaskArgs().input(whole).inout(words(sum)).add_scalar(at));               // 100
    });
    EXPECT_EQ(word(sum), 111U) << bytes;
    EXPECT_EQ(large.data()[bytes - 1], std::byte{100}) << bytes;
    // Where the place would be if a part of the way had 31 or 32 bits.
    EXPECT_EQ(large.data()[(bytes - 1) & 0x7FFFFFFF], bytes <= 2 * kGibi ? std::byte{100} : std::byte{0}) << bytes;
    EXPECT_EQ(large.data()[(bytes - 1) & 0xFFFFFFFF], bytes <= 4 * kGibi ? std::byte{100} : std::byte{0}) << bytes;
    worker.release_buffer(large);
  }
  worker.close();
}

class RunEndTest : public NodeTest {};

// S4-021
TEST_F(RunEndTest, WhoeverSeesARunDoneFindsAllOfItsEndBehindIt) {
  const Buffer gate = worker.create_buffer(16);
  for (int round = 0; round < 200; ++round) {
    const Buffer buffer = worker.create_buffer(8);
    word(buffer) = word(gate, 0) = word(gate, 1) = 0;
    const RunHandle run = worker.submit([&](Orchestrator& orch) {
      orch.submit_sub(meet, TaskArgs().inout(words(gate, 0)).no_dep(words(gate, 1)));
      orch.submit_sub(mix, TaskArgs().inout(words(buffer)).input(words(gate, 0)));
      orch.submit_sub(round % 2 == 0 ? fail : pid, TaskArgs().inout(words(buffer)));
    });
    std::thread waiter([&] { (void)run.outcome(); });  // two of them, so that one sleeps while the other ends the run
    std::thread other([&] { (void)run.outcome(); });
    EXPECT_FALSE(run.done());
    set_word(word(gate, 1));
    while (!run.done()) {
      sched_yield();
    }
    EXPECT_EQ(run.errors().size(), round % 2 == 0 ? 1U : 0U);
    EXPECT_NE(run.outcome(std::chrono::nanoseconds(0)).code(), StatusCode::kTimeout);
    worker.release_buffer(buffer);  // which throws while an unfinished run names it
    waiter.join();
    other.join();
  }
}

// S0-215
TEST_F(RunEndTest, TheHeapServesAllocAloneAndAnOutputNamesABufferThatExists) {
  const Buffer buffer = worker.create_buffer(8);
  word(buffer) = 0;
  worker.run([&](Orchestrator& orch) {
    orch.submit_sub(pid, TaskArgs().add_tensor(words(buffer), TensorArgType::kOutput));
    orch.submit_sub(mix, TaskArgs().add_tensor(words(buffer), TensorArgType::kOutputExisting).add_scalar(1));
  });
  // No memory stands for a tensor that names none, under either tag of an output.
  for (const TensorArgType tag : {TensorArgType::kOutput, TensorArgType::kOutputExisting}) {
    const Status status = thrown(
        [&] { worker.run([&](Orchestrator& orch) { orch.submit_sub(pid, TaskArgs().add_tensor(Tensor{}, tag)); }); });
    EXPECT_FALSE(status.is_ok());
  }
  EXPECT_EQ(worker.peak_heap_bytes(), 0U);
  worker.run([&](Orchestrator& orch) {
    const Buffer scratch = orch.alloc({1}, DataType::kUint64);
    orch.submit_sub(pid, TaskArgs().add_tensor(words(scratch), TensorArgType::kOutput));
    orch.submit_sub(mix, TaskArgs().inout(words(buffer)).input(words(scratch)));
  });
  EXPECT_GE(worker.peak_heap_bytes(), 8U);
}

// S0-122
TEST_F(RunEndTest, AGraphFunctionThatThrowsBehindARunningOneStartsNothingAndNamesNothing) {
  const Buffer flags = worker.create_buffer(16);
  const Buffer touched = worker.create_buffer(8);
  word(flags, 0) = word(flags, 1) = word(touched) = 0;
  const RunHandle running = worker.submit(
      [&](Orchestrator& orch) { orch.submit_sub(meet, TaskArgs().inout(words(flags, 0)).no_dep(words(flags, 1))); });
  EXPECT_THROW(worker.run([&](Orchestrator& orch) {
    const Buffer scratch = orch.alloc({1}, DataType::kUint64);
    orch.submit_sub(pid, TaskArgs().inout(words(touched)).output(words(scratch)));
    orch.submit_sub_group(pid,
                          std::vector<TaskArgs>{TaskArgs().inout(words(touched)), TaskArgs().output(words(scratch))});
    throw std::out_of_range("mine");
  }),
               std::out_of_range);
  EXPECT_FALSE(running.done());
  worker.release_buffer(touched);  // nothing names it any more, although the run before still goes
  set_word(word(flags, 1));
  running.wait();
  EXPECT_EQ(word(touched), 0U);
  std::uint64_t tasks = 0;
  for (const Worker::ChildStatistics& child : worker.statistics()) {
    tasks += child.tasks;
  }
  EXPECT_EQ(tasks, 1U);
}

}  // namespace
}  // namespace simpler::testing
