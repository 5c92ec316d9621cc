// A child process of ours: made by fork, known by a pidfd, reported by how it ended.
//
// The child never returns into its parent's frames: it runs `body`, then leaves by _exit. Before that it ignores SIGINT
// (the parent decides what an interrupt means), takes the default action for SIGTERM, closes every descriptor that it
// was not told to keep, and takes a group of its own if asked. Child is a handle that may be copied; all copies share
// what is known about the end, which is collected once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/clock.h"
#include "base/fault_point.h"
#include "base/unique_fd.h"
#include "simpler/status.h"

namespace simpler::process {

class Watch;

// How a process ended.
struct ExitInfo {
  enum class Kind : uint8_t { kExited, kSignaled, kUnknown };  // kUnknown: somebody else collected the status
  pid_t pid = 0;
  Kind kind = Kind::kUnknown;
  int code = 0;  // exit status or signal number

  bool clean() const { return kind == Kind::kExited && code == 0; }
  std::string describe() const;                  // "was killed by signal 9 (Killed)", "ended with exit status 3"
  Status to_status(std::string_view who) const;  // kPeerLost: "<who> (pid 123) was killed by ...", with details
};

// Lets children say "look at me" while their parent waits for them to become ready. Made before the fork.
class ReadySignal {
 public:
  static Result<ReadySignal> create();
  void raise() const;  // child; never blocks
  void clear() const;  // parent
  int fd() const { return event_.get(); }

 private:
  explicit ReadySignal(UniqueFd event) : event_(std::move(event)) {}
  UniqueFd event_;
};

// What a child can use to notice that its parent is gone. Taken before the fork, so there is no moment without it.
struct ParentLink {
  pid_t pid = 0;
  UniqueFd pidfd;  // not valid where the kernel refuses pidfds: then the parent is compared by number
  bool alive() const;
};

class ChildContext {
 public:
  ChildContext(std::string name, ParentLink parent, int ready_fd)
      : name_(std::move(name)), parent_(std::move(parent)), ready_fd_(ready_fd) {}

  const std::string& name() const { return name_; }
  pid_t parent_pid() const { return parent_.pid; }
  bool parent_alive() const { return parent_.alive(); }
  // After the child has written its readiness or its failure where the parent looks.
  void raise_ready() const;
  // Starts this process's watch: from now on the death of the parent kills our own children and ends this process.
  // Called once, best after this process's own forks. The result keeps the watch running.
  Result<std::shared_ptr<Watch>> guard_parent();

 private:
  std::string name_;
  ParentLink parent_;
  int ready_fd_;
};

struct ForkOptions {
  std::string name = "simpler";  // shown by ps; at most 15 bytes are
  bool own_group = false;
  std::vector<int> keep_fds = {};      // beyond 0, 1 and 2
  const ReadySignal* ready = nullptr;  // kept open for the child
  // "process.child.forked": in the child, before it has a group of its own or has closed anything.
  FaultPlan* faults = nullptr;
};

class Child {
 public:
  Child() = default;

  bool valid() const { return record_ != nullptr; }
  pid_t pid() const;
  const std::string& name() const;
  bool own_group() const;
  int pidfd() const;  // readable when the process has ended; -1 where pidfds are refused

  // How it ended, empty while it runs. Collects the status, so no zombie is left; any thread may ask, any number of
  // times.
  std::optional<ExitInfo> exit_info() const;
  bool running() const { return !exit_info().has_value(); }
  // False when it has already ended. Never hits a stranger that got the same pid.
  bool send_signal(int signal) const;
  // Also reaches the rest of the group if it has one of its own.
  bool send_signal_to_group(int signal) const;

 private:
  friend Result<Child> fork_child(const ForkOptions&, const std::function<int(ChildContext&)>&);
  struct Record;
  explicit Child(std::shared_ptr<Record> record) : record_(std::move(record)) {}
  std::shared_ptr<Record> record_;
};

// The child's exit status is what `body` returns; 70 when it throws, after a line on standard error.
Result<Child> fork_child(const ForkOptions& options, const std::function<int(ChildContext&)>& body);

// What the parent knows about child i: empty: nothing yet; ok: ready; else the reason that the child gave.
using LookAtChild = std::function<std::optional<Status>(size_t index)>;

// Waits until every child is ready. Fails with the first child's own reason, with kPeerLost when one ended without
// giving any, or with kTimeout naming those that are not ready. A child that ends is noticed at once; `look` is called
// at least every 100 ms, so it may also end the wait by a status of its own. The children are left as they are.
Status wait_ready(std::span<const Child> children, const ReadySignal* ready, Deadline deadline,
                  const LookAtChild& look);

}  // namespace simpler::process
