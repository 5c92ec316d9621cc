// The one place where this process forks, and how an object knows that it was copied by a fork.
//
// Fork must work while threads of ours run (a second worker, a simulated chip, the watch thread). So everybody who owns
// a lock that a child may need registers it here with its rank; fork takes all of them in ascending rank, which is the
// documented lock order, and the child starts with fresh ones. Threads that are not ours are not our business: libc
// protects its own locks, and the caller may report how many threads there were.
//
// ProcessMark recognises any fork, also one made by user code: the word it compares lives in a page that the kernel
// empties in every child.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string_view>
#include <sys/types.h>

#include "base/guarded.h"
#include "base/mutex.h"
#include "simpler/status.h"

namespace simpler::process {

// "This object belongs to the process that made it." One load to check; safe to check in any thread.
class ProcessMark {
 public:
  ProcessMark();
  bool is_here() const { return word_->load(std::memory_order_relaxed) == token_; }
  // kWrongProcess naming the object, its process and this one.
  Status check(std::string_view object) const;
  pid_t pid() const { return pid_; }

 private:
  const std::atomic<uint64_t>* word_;  // written once per process; orders nothing
  uint64_t token_;
  pid_t pid_;
};

// Where in the lock order a participant stands; lower is taken first. One row each in docs/architecture/locks.md.
enum class ForkRank : int {
  kSubmissionTurn = 10,
  kWorker = 20,
  kEngine = 30,
  kControlPlane = 40,
  kRegistry = 50,
  kMemory = 60,
  kTrace = 70,
  kWatch = 80,
  kLog = 90,
};

struct ForkHooks {
  std::function<void()> before;     // in the forking thread, ascending rank: take the lock
  std::function<void()> in_parent;  // descending rank: let it go
  std::function<void()> in_child;   // descending rank: make it as new
};

class ForkPoint {
 public:
  // A place in the registry; gives it up when destroyed. Movable. Harmless when destroyed in a forked copy.
  class [[nodiscard]] Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    ~Registration();

   private:
    friend class ForkPoint;
    explicit Registration(uint64_t id) : id_(id) {}
    uint64_t id_ = 0;
  };

  // Exists once per process because fork copies the process as a whole.
  static ForkPoint& of_process();

  // Adding, and giving up a registration, happen while no registered lock is held: fork holds the list first.
  Registration add(ForkRank rank, ForkHooks hooks);
  Registration add_lock(ForkRank rank, Mutex& mutex);
  template <class T>
  Registration add_lock(ForkRank rank, Guarded<T>& guarded) {
    return add(rank, {[&guarded] { guarded.mutex().lock(); }, [&guarded] { guarded.mutex().unlock(); },
                      [&guarded] { guarded.reset_after_fork(); }});
  }

  // fork(2) with every hook run: the child's pid in the parent, 0 in the child. The calling thread holds no registered
  // lock and runs no hook. Signals are blocked from before the fork until the hooks, and in the child `in_child`, have
  // run.
  Result<pid_t> fork(const std::function<void()>& in_child = {});

  // Threads of this process at this moment, the caller included.
  static uint32_t thread_count();

 private:
  ForkPoint();
  ForkPoint(const ForkPoint&) = delete;
  struct State;
  void remove(uint64_t id);
  State* state_;  // lives as long as the process, so that late destructors may still deregister
};

}  // namespace simpler::process
