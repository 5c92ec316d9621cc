// Feeds the engine: one lock, one driver at a time, and everybody who waits for something.
//
// Who drives: while a run is built, the builder (it pumps every few submits and while it is blocked); otherwise one
// elected waiter, which sleeps on the level's doorbell; otherwise the scheduler thread, which also takes over when a
// builder's heartbeat stood still while lines were unanswered. Other waiters sleep on their run's word. A thread that
// finds the lock taken leaves a note for the holder instead of waiting; lock and notes share one word and unlock looks
// at it, so no note is lost. A hold is bounded: after `hold_limit` tasks the rest is handed to the scheduler thread.
// No user code runs under the lock, and no call blocks while holding it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/wake_word.h"
#include "engine/engine.h"

namespace simpler::engine {

struct DriverOptions {
  EngineOptions engine;
  uint32_t hold_limit = 64;  // completions and poisonings per hold
  uint32_t submits_per_pump = 4;
  Nanos heap_wait_timeout = 0;           // of submit and alloc; 0: as long as it can help
  Nanos first_look = 50 * kMicrosecond;  // scheduler's look at a builder's heartbeat, backing off to last_look
  Nanos last_look = 1 * kMillisecond;
};

// The lock of the engine together with the notes for its holder.
class SIMPLER_CAPABILITY("engine") EngineLock {
 public:
  enum Note : uint32_t {
    kPump = 2,  // somebody wanted to drive
    kLost = 4,  // a lane is lost: see the driver's list
  };

  // True when the lock was free and is now held.
  bool try_lock() SIMPLER_TRY_ACQUIRE(true);
  // Takes the lock, waiting for the holder if need be. Holds are bounded, so this is short.
  void lock() SIMPLER_ACQUIRE();
  // Takes the lock, or leaves `note` for the holder, who will then see it before it is out. True: taken.
  bool lock_or_leave(uint32_t note) SIMPLER_TRY_ACQUIRE(true);
  // Leaves when there is no note; otherwise keeps the lock, clears the notes and returns them.
  uint32_t unlock_or_notes() SIMPLER_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static constexpr uint32_t kHeld = 1;
  // The acquire of a taker pairs with the release of the leaver; a note's release pairs with the leaver's acquire.
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

class Driver {
 public:
  // `doorbell` is the word that every child of the level rings after an answer.
  Driver(const DriverOptions& options, memory::SharedTables& tables, memory::ArgsArena& arena, memory::Heap* heap,
         WakeWord& doorbell, WakePolicy& policy, const Clock& clock);
  ~Driver();  // stops
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  // Before start, or later for a new incarnation of a lost child.
  Result<LaneId> add_lane(lane::Lane& lane);
  void start();
  // Ends the scheduler thread. Runs stay as they are; nobody may wait or submit any more.
  void stop();

  // --- one run, built by the calling thread ------------------------------------------------------------------------
  // Takes the submission turn; blocks while another thread builds or too many runs are unfinished.
  Result<RunRef> begin_run(Deadline admission, const RunOptions& options = {});
  // Blocks while slots or argument space are full and running tasks can free them.
  Result<TaskId> submit(const RunRef& run, const TaskRequest& request);
  // Blocks while running tasks can free the space; kResourceExhausted as soon as waiting cannot help.
  Result<Allocation> alloc(const RunRef& run, uint64_t bytes);
  Status scope_begin(const RunRef& run);
  Status scope_end(const RunRef& run);
  // Both end the submission turn.
  Status close_run(const RunRef& run);
  void fail_run(const RunRef& run, Status why);

  // --- any thread ---------------------------------------------------------------------------------------------------
  // The run's first error, or ok; kTimeout when the deadline came first, which changes nothing.
  Status wait(const RunRef& run, Deadline deadline);
  bool done(const RunRef& run) const;  // never blocks
  // Until the run is the head of the queue, so that nothing before it is unfinished.
  Status wait_head(const RunRef& run, Deadline deadline);
  // Until no run is unfinished.
  Status wait_idle(Deadline deadline);
  void cancel(const RunRef& run, Status why);
  // Final once done(); empty before.
  std::vector<Status> errors(const RunRef& run) const;
  // Called once when the run is terminal, on the thread that noticed, outside of the lock; at once if it already is.
  void on_done(const RunRef& run, std::function<void()> callback);
  // As on_done: adds 1 to the eventfd.
  void signal_eventfd(const RunRef& run, int fd);
  // Drops the record; the run itself goes on to its end.
  void release(const RunRef& run);

  // From the watch thread: the child is dead. Never blocks.
  void lane_lost(LaneId lane, Status why);
  // Tasks that exceed their timeout are reported here, outside of the lock, so that the owner can end the child.
  void on_overdue(std::function<void(LaneId, TaskId)> callback) { on_overdue_ = std::move(callback); }
  void on_warning(std::function<void(const std::string&)> callback) { on_warning_ = std::move(callback); }

  // Runs `use(Engine&)` under the lock: for tables and tests. Keep it short.
  template <class Use>
  decltype(auto) with_engine(Use&& use) {
    struct Leave {
      Driver& driver;
      ~Leave() { driver.leave(); }
    } leave{*this};
    lock_.lock();
    return std::forward<Use>(use)(engine_);
  }
  uint32_t unfinished_runs();
  EngineCounters counters();

 private:
  void leave();

  DriverOptions options_;
  WakeWord& doorbell_;
  WakePolicy& policy_;
  const Clock& clock_;
  EngineLock lock_;
  Engine engine_;
  std::function<void(LaneId, TaskId)> on_overdue_;
  std::function<void(const std::string&)> on_warning_;
};

}  // namespace simpler::engine
