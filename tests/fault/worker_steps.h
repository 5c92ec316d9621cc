// A worker with host and chip children whose start-up and close are disturbed at one named step.
//
// A Disturbance is what one case plans: at a step, a child or the parent is killed by SIGKILL. Its hook runs in the
// parent and, in copies, in the children; what they tell each other lies in a shared Board.
#pragma once

#include <array>
#include <atomic>
#include <cstring>
#include <dirent.h>
#include <fstream>
#include <signal.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/check.h"
#include "base/fault_point.h"
#include "integration/node/node_fixture.h"
#include "process/process_test_support.h"
#include "worker/faults.h"

namespace simpler::testing {

using process::kWatchdog;

constexpr int kHosts = 2;
constexpr int kChips = 2;

enum class Kind { kHost, kChip };
enum class Victim { kChild, kParent };

struct Step {
  const char* point;
  bool in_parent;
  // The how-manieth time it is reached counts where a child of that kind is concerned; 0: such a child is never there.
  int host;
  int chip;
};

inline std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << step.point;
}

// In the order of a start with a trace. Before the first fork there is no child to kill.
inline constexpr Step kBeforeForks[] = {
    {"start.parent.memory", true, 1, 0},
    {"start.parent.kernels", true, 1, 0},
    {"start.parent.trace", true, 1, 0},
};
inline constexpr Step kStart[] = {
    {"start.parent.fork", true, 2, 4},      {"start.parent.forked", true, 1, 3},
    {"process.child.forked", false, 1, 1},  {"start.child.memory", false, 1, 1},
    {"start.child.tables", false, 1, 1},    {"start.child.guard", false, 1, 1},
    {"start.child.trace", false, 1, 1},     {"start.child.chip", false, 0, 1},
    {"start.child.callable", false, 0, 1},  {"start.child.announce", false, 1, 1},
    {"start.child.announced", false, 1, 1}, {"start.child.language", false, 1, 1},
    {"start.child.serve", false, 1, 1},     {"start.parent.await", true, 1, 2},
    {"start.parent.connect", true, 1, 1},   {"start.parent.scheduler", true, 1, 1},
    {"start.parent.watch", true, 1, 1},     {"start.parent.publish", true, 1, 1},
    {"start.parent.ready", true, 1, 1},
};
inline constexpr Step kClose[] = {
    {"close.parent.drain", true, 1, 1}, {"close.parent.scheduler", true, 1, 1}, {"close.parent.ask", true, 2, 4},
    {"close.child.asked", false, 1, 1}, {"close.child.flush", false, 1, 1},     {"close.child.exit", false, 1, 1},
    {"close.parent.reap", true, 1, 1},
};
// No child is left to be killed.
inline constexpr Step kAfterChildren[] = {
    {"close.parent.trace", true, 1, 0},
    {"close.parent.unmap", true, 1, 0},
};

inline std::string test_name(const ::testing::TestParamInfo<Step>& info) {
  std::string name = info.param.point;
  for (char& letter : name) letter = letter == '.' ? '_' : letter;
  return name;
}

inline std::vector<Kind> kinds_of(const Step& step) {
  std::vector<Kind> kinds;
  if (step.host != 0) kinds.push_back(Kind::kHost);
  if (step.chip != 0) kinds.push_back(Kind::kChip);
  return kinds;
}

inline std::string name_of(Kind kind, int index) {
  return (kind == Kind::kHost ? "sub_worker " : "chip ") + std::to_string(index);
}

inline std::string own_name() {
  std::array<char, 17> name{};
  ::prctl(PR_GET_NAME, name.data());
  return name.data();
}

inline void kill_and_await(pid_t pid) {
  const UniqueFd end = process::open_pidfd_for_test(pid);
  ::kill(pid, SIGKILL);
  SIMPLER_CHECK(end.valid() && process::await_end(end), pid);
}

struct Board {
  WakeWord changed;
  std::atomic<pid_t> parent{0};
  std::atomic<pid_t> victim{0};                          // release by who kills, acquire by who looks
  std::array<std::atomic<pid_t>, kHosts + kChips> pids;  // by place, as the children came to be; paired as `victim`
  std::atomic<uint32_t> reached_count{0};                // counts places of `reached`, which one process each writes
  std::array<std::array<char, 32>, 1024> reached;

  template <class Ready>
  void await(Ready&& ready) {
    WakePolicy policy;
    SIMPLER_CHECK(wait(changed, policy, Deadline::after(kWatchdog), ready), "a process did not come to its step");
  }
  template <class T, class V>
  void set(std::atomic<T>& word, V value) {
    word.store(value, std::memory_order_release);
    wake(changed);
  }
};

class Disturbance {
 public:
  Disturbance(const Step& step, Kind kind, Victim victim) : step_(step), kind_(kind), victim_(victim) {
    plan_.on_reach([this](std::string_view point) {
      at(point);
      return Status::ok();
    });
  }
  FaultPlan* plan() { return &plan_; }
  Board& board() { return *board_; }
  pid_t victim() const { return board_->victim.load(std::memory_order_acquire); }
  // The child that is killed, or that kills its parent.
  std::string child_name() const { return name_of(kind_, step_.in_parent ? 0 : 1); }
  // In the process that will call init().
  void adopt() { board_->parent.store(::getpid()); }
  std::vector<std::string> reached() const {
    std::vector<std::string> all;
    for (uint32_t i = 0; i < board_->reached_count.load(); ++i) all.emplace_back(board_->reached[i].data());
    return all;
  }
  std::size_t forked() const {
    std::size_t count = 0;
    for (const std::atomic<pid_t>& pid : board_->pids) count += pid.load() != 0 ? 1 : 0;
    return count;
  }
  // So that a test that finds survivors leaves none.
  void end_children() {
    for (const std::atomic<pid_t>& pid : board_->pids) {
      if (pid.load() != 0) ::kill(pid.load(), SIGKILL);
    }
  }

 private:
  void at(std::string_view point) {
    const uint32_t note = board_->reached_count.fetch_add(1);
    std::memcpy(board_->reached.at(note).data(), point.data(), std::min<std::size_t>(point.size(), 31));
    const bool parent = ::getpid() == board_->parent.load();
    if (point == "process.child.forked") board_->set(board_->pids.at(own_place()), ::getpid());
    const int due = kind_ == Kind::kHost ? step_.host : step_.chip;
    if (point == step_.point && (parent || own_name() == child_name()) && ++times_ == due) disturb(parent);
    if (victim_ != Victim::kChild) return;
    if (parent && point == "start.parent.ready" && !step_.in_parent && is_start()) await_victim();
    // Or it might be gone before the parent comes to its step.
    if (!parent && point == "close.child.asked" && step_.in_parent && own_name() == child_name()) ::pause();
  }
  bool is_start() const { return std::string_view(step_.point).substr(0, 5) != "close"; }

  void disturb(bool parent) {
    if (victim_ == Victim::kParent) {
      board_->set(board_->victim, board_->parent.load());
      kill_and_await(board_->parent.load());
      return;  // a child goes on
    }
    if (!parent) {
      board_->set(board_->victim, ::getpid());
      ::raise(SIGKILL);
    }
    const std::atomic<pid_t>& pid = board_->pids[kind_ == Kind::kHost ? 0 : kHosts];
    board_->await([&] { return pid.load(std::memory_order_acquire) != 0; });
    board_->set(board_->victim, pid.load());
    kill_and_await(pid.load());
  }
  // The step may lie behind the word that says the child is ready, so nothing else holds the parent up.
  void await_victim() {
    board_->await([&] { return victim() != 0; });
    const UniqueFd end = process::open_pidfd_for_test(victim());
    SIMPLER_CHECK(!end.valid() || process::await_end(end), victim());
  }
  static std::size_t own_place() {
    const std::string name = own_name();
    const auto index = static_cast<std::size_t>(name.back() - '0');
    return name.front() == 's' ? index : kHosts + index;
  }

  const Step step_;
  const Kind kind_;
  const Victim victim_;
  int times_ = 0;
  process::SharedForTest<Board> board_;
  FaultPlan plan_;
};

// The worker of every case: two hosts, two chips, traced, with a callable of either kind.
class Tree {
 public:
  explicit Tree(FaultPlan* plan)
      : trace_(::testing::TempDir() + "simpler_steps_" + std::to_string(::getpid()) + ".json"),
        worker({.level = 3,
                .platform = "tiny",
                .device_ids = {0, 1},
                .num_sub_workers = kHosts,
                .heap_ring_size = 1 << 20,
                .task_window = 64,
                .trace_path = trace_}) {
    if (plan != nullptr) worker::set_fault_plan(worker, plan);
    pid_ = worker.register_native(
        "pid", [](const MappedArgs& args) { *args[0].as<std::uint64_t>() = static_cast<std::uint64_t>(::getpid()); });
    meet_ = worker.register_native("meet", [](const MappedArgs& args) {
      set_word(*args[0].as<std::uint64_t>());
      await_word(args[1]);
    });
    chip_ = worker.register_callable(graph("multiply_add", {ArgDirection::kIn, ArgDirection::kIn, ArgDirection::kOut}));
  }
  ~Tree() { ::unlink(trace_.c_str()); }

  // One task on every child.
  void use() {
    const Buffer buffer = worker.create_buffer(64);
    std::memset(buffer.data(), 0, 64);
    auto* const numbers = reinterpret_cast<float*>(buffer.data());
    const auto number = [&](std::uint64_t place) { return buffer.tensor({1}, DataType::kFloat32, 4 * place); };
    numbers[0] = 6;
    worker.run([&](Orchestrator& orch) {
      orch.submit_sub(pid_, TaskArgs().output(words(buffer, 6)));
      orch.submit_sub(pid_, TaskArgs().output(words(buffer, 7)));
      for (int chip = 0; chip < kChips; ++chip) {
        const auto place = static_cast<std::uint64_t>(chip);
        orch.submit_next_level(chip_, TaskArgs().input(number(0)).input(number(0)).output(number(1 + place)), chip);
      }
    });
    EXPECT_EQ(numbers[1], 42.0F);
    EXPECT_EQ(numbers[2], 42.0F);
    EXPECT_NE(word(buffer, 6), 0U);
    worker.release_buffer(buffer);
  }
  const CallableHandle& meet() const { return meet_; }

 private:
  std::string trace_;

 public:
  Worker worker;

 private:
  CallableHandle pid_, meet_, chip_;
};

// What a process has that a worker could leave behind.
struct Holdings {
  std::size_t descriptors = 0;
  std::size_t shared_mappings = 0;
  bool children = false;
  friend bool operator==(const Holdings&, const Holdings&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Holdings& held) {
    return out << held.descriptors << " descriptors, " << held.shared_mappings << " shared mappings, "
               << (held.children ? "children" : "no child");
  }

  static Holdings now() {
    Holdings held;
    DIR* const folder = ::opendir("/proc/self/fd");
    while (::readdir(folder) != nullptr) ++held.descriptors;
    ::closedir(folder);
    std::ifstream maps("/proc/self/maps");
    std::string range, access, rest;
    while (maps >> range >> access && std::getline(maps, rest)) held.shared_mappings += access.back() == 's' ? 1 : 0;
    held.children = ::waitpid(-1, nullptr, WNOHANG) != -1;
    return held;
  }
};

}  // namespace simpler::testing
