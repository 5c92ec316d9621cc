// The live part of a level-3 worker: shared memory, children, lanes, control channels and the driver.
//
// Made by start() in one piece or not at all; stop() asks the children to leave and reaps them within one budget. A
// child that dies in between is noticed by the watch thread, which tells its lane and its control channel; the others
// go on. Owned by the worker; methods may be called from any thread unless said otherwise.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/log.h"
#include "base/wake_word.h"
#include "engine/driver.h"
#include "kernels/catalog.h"
#include "lane/control_channel.h"
#include "lane/mailbox_parent.h"
#include "process/child_process.h"
#include "process/reaper.h"
#include "process/watch.h"
#include "simpler/worker.h"
#include "trace/recorder.h"
#include "worker/child_main.h"
#include "worker/level_memory.h"
#include "worker/settings.h"

namespace simpler::worker {

class Tree {
 public:
  // Everything that children need to know at the fork.
  struct Start {
    WorkerOptions options;
    HostLanguage language;
    HostTable host_table;
    std::vector<ChipRegistration> chip_callables;
    std::vector<std::pair<std::uint16_t, std::string>> names;  // of all callables, by index
    std::vector<int> keep_fds;
    std::function<bool()> cancelled;  // true: somebody closes the worker while it starts
    FaultPlan* faults = nullptr;      // null in production
  };

  // Throws nothing. On failure every process that was started is gone.
  static Result<std::unique_ptr<Tree>> start(Start start, Deadline deadline);
  // The last look of a start: how the first child ended that is there no more, or ok.
  Status all_alive() const;
  ~Tree();
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  engine::Driver& driver() { return *driver_; }
  LevelMemory& memory() { return *memory_; }
  // For whoever keeps an address inside it.
  std::shared_ptr<const void> shared_memory() const { return memory_; }
  WakePolicy& policy() { return policy_; }
  const Logger& logger() const { return logger_; }

  std::size_t chip_count() const { return chips_; }
  std::size_t host_count() const { return children_.size() - chips_; }

  // One command to one chip, by its worker id.
  Result<lane::ControlAnswer> control_chip(std::size_t chip, const lane::ControlCall& call, Deadline deadline);
  // The same command to every child of a kind, one after the other under one deadline. What each answered, in order.
  // `told`, when not empty, has one element per child of the kind and leaves out the others.
  std::vector<Result<lane::ControlAnswer>> broadcast(ChildKind kind, const lane::ControlCall& call, Deadline deadline,
                                                     const std::vector<bool>& told = {});
  // Leaves a command with a child, by its place among all, and waits for the answer until `deadline` at most. False: an
  // earlier command is still with the child, so this one could not be left.
  bool leave_command(std::size_t child, const lane::ControlCall& call, Deadline deadline);
  std::vector<Worker::ChildStatistics> statistics() const;

  // The number under which children trace a callable of this name; nothing without a trace.
  trace::NameId trace_name(std::string_view callable);
  trace::Recorder* recorder() { return recorder_.get(); }
  // SIGKILLs the children that owe an answer.
  void kill_busy();
  // Ends the scheduler, asks the children to leave and reaps them. May be called again with what survived.
  Status stop(Deadline deadline, bool kill);

 private:
  struct Child {
    ChildKind kind = ChildKind::kHost;
    std::uint32_t index = 0;
    std::string name;
    process::Child process;
    std::unique_ptr<lane::MailboxParent> lane;
    std::unique_ptr<lane::ControlChannel> control;
    LaneId lane_id{};
    process::Watch::Token token = 0;
    bool watched = false;
  };

  explicit Tree(const Start& start);
  Status start_children(const Start& start, Deadline deadline);
  Status fork_group(ChildKind kind, std::uint32_t count, const Start& start, Deadline deadline);
  Status start_trace();
  Status connect();
  void abort();
  void kill_lane(LaneId lane);
  void end_runs();
  Child& chip(std::size_t index) { return children_[host_count() + index]; }

  WorkerOptions options_;
  Settings settings_;
  Logger logger_;
  std::string trace_path_;  // empty: not traced
  HostLanguage language_;
  FaultPlan* faults_;
  WakePolicy policy_;
  SteadyClock clock_;
  std::shared_ptr<LevelMemory> memory_;
  std::unique_ptr<trace::Recorder> recorder_;  // null: not traced
  std::shared_ptr<process::Watch> watch_;
  std::vector<Child> children_;  // host children first, then chips
  std::size_t chips_ = 0;
  std::unique_ptr<kernels::Catalog> kernels_;
  ChildPlan plan_;
  std::unique_ptr<engine::Driver> driver_;
  bool driver_running_ = false;
};

}  // namespace simpler::worker
