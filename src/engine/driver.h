// Feeds the engine: one lock, one driver at a time, and everybody who waits for something.
//
// Who drives: while a run is built, the builder (it pumps every few submits and while it is blocked); otherwise any
// waiter while it spins and then one elected waiter, which sleeps on the level's doorbell; otherwise the scheduler
// thread, which also takes over when a builder's heartbeat stood still while lines were unanswered. Other waiters sleep
// on their run's word. A thread that finds the lock taken leaves a note for the holder, who sees it on leaving, instead
// of waiting (EngineLock). A hold is bounded: after `hold_limit` tasks the rest is handed to the scheduler thread. No
// user code runs under the lock, and no call blocks while holding it.
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
#include "engine/engine_lock.h"

namespace simpler::engine {

struct DriverOptions {
  EngineOptions engine;
  uint32_t hold_limit = 64;  // completions and poisonings per hold
  // A building thread looks at the time every few submits and pumps when some has passed, or after many submits: a
  // pump takes lines from the caches of the children, so a fast builder gains by letting several answers come together.
  uint32_t submits_per_look = 8;
  uint32_t submits_per_pump = 32;
  Nanos pump_interval = 3 * kMicrosecond;
  uint32_t defer_from = 4;      // see EngineOptions; pushes of several submits then share one hand-over of the lock
  Nanos heap_wait_timeout = 0;  // of submit and alloc; 0: as long as it can help
  Nanos first_look = 50 * kMicrosecond;  // scheduler's look at a builder's heartbeat, backing off to last_look
  Nanos last_look = 1 * kMillisecond;
  Nanos doze = 100 * kMillisecond;  // of the scheduler while somebody sleeps on the doorbell and drives
  // Around a wait inside submit, alloc or wait_head, on the builder's thread and outside of the lock: gives up and
  // takes back what the builder holds, such as an interpreter's lock. May be empty.
  std::function<void()> before_block = {};
  std::function<void()> after_block = {};
  // Asked about every `interrupt_look` while a builder is blocked; true gives its wait up with kCancelled.
  std::function<bool()> interrupted = {};
  Nanos interrupt_look = 50 * kMillisecond;
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
  // Ends the scheduler thread. Runs stay as they are; afterwards only those who wait drive.
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
  // A child answered what cannot be true: its lane takes no more work, and the owner ends the child.
  void on_condemned(std::function<void(LaneId, const Status&)> callback) { on_condemned_ = std::move(callback); }
  void on_warning(std::function<void(const std::string&)> callback) { on_warning_ = std::move(callback); }

  // Runs `use(Engine&)` under the lock: for tables and tests. Keep it short.
  template <class Use>
  decltype(auto) with_engine(Use&& use) SIMPLER_NO_THREAD_SAFETY_ANALYSIS {
    struct Leave {
      Driver& driver;
      explicit Leave(Driver& owner) SIMPLER_NO_THREAD_SAFETY_ANALYSIS : driver(owner) { owner.lock_.lock(); }
      ~Leave() SIMPLER_NO_THREAD_SAFETY_ANALYSIS { driver.leave(); }
    } inside(*this);
    return std::forward<Use>(use)(engine_);
  }
  uint32_t unfinished_runs() {
    return with_engine([](Engine& engine) { return engine.unfinished_runs(); });
  }
  EngineCounters counters() {
    return with_engine([](Engine& engine) { return engine.counters(); });
  }

 private:
  // Who is expected to notice answers. Ordered by the lock or by the wake words that are rung after a change.
  struct Roles {
    std::atomic<bool> building{false};        // a thread holds the submission turn; taken by exchange
    std::atomic<bool> builder_drives{false};  // it is blocked and drives meanwhile
    std::atomic<uint32_t> heartbeat{0};       // moves with every call of the builder
    std::atomic<bool> looking{false};         // a waiter spins and may look meanwhile; advice
    std::atomic<bool> elected{false};         // a waiter drives
    std::atomic<bool> dozing{false};          // it sleeps long because somebody drives, who rouses it on leaving
    std::atomic<bool> deep{false};            // the scheduler sleeps without a deadline; set and read under the lock
    std::atomic<bool> roused{false};          // the scheduler is asked to look now
    std::atomic<bool> stopping{false};
    std::atomic<uint32_t> unfinished{0};  // runs; written by the lock's holder
    std::atomic<bool> owed{false};        // answers or backlog are outstanding; written by the lock's holder
  };

  void leave() SIMPLER_RELEASE(lock_) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  template <bool kRing>
  void leave_with_news() SIMPLER_RELEASE(lock_) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  void leave_silently() SIMPLER_RELEASE(lock_) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  void leave_slowly(RunRecord* ended, uint32_t notes, bool ring) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  void leave_after_look() SIMPLER_RELEASE(lock_) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  void handle_notes(uint32_t notes) SIMPLER_REQUIRES(lock_);
  void publish() SIMPLER_REQUIRES(lock_);
  void deliver(EngineNews& news);
  uint32_t pump_held(uint32_t limit) SIMPLER_REQUIRES(lock_);
  void tell_time() SIMPLER_REQUIRES(lock_);
  void builder_looks() SIMPLER_REQUIRES(lock_);
  uint32_t pump_once();  // takes the lock or leaves a note; returns what it handled
  uint32_t pump_and_leave() SIMPLER_RELEASE(lock_) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  Deadline next_tick() const { return Deadline::at(tick_at_.load(std::memory_order_relaxed)); }
  void rouse_if_dozing();
  bool driver_sleeps() const;
  void rouse_scheduler();
  void rouse_waiters();
  template <class Look>
  bool wait_on_doorbell(Deadline deadline, Look&& look);
  template <class Look>
  bool wait_longer_on_doorbell(Deadline deadline, Look&& look);
  // Blocks the builder, who drives meanwhile, until `ready()` holds under the lock. Entered and left with the lock
  // held.
  template <class Ready>
  bool builder_waits(Deadline deadline, Ready&& ready) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  // The same with the hooks of the options around it.
  template <class Ready>
  bool builder_blocks(Deadline deadline, Ready&& ready) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  template <class Ready>
  bool wait_for(WakeWord& word, Deadline deadline, Ready&& ready);
  template <class Ready>
  void wait_for_another_driver(WakeWord& word, Deadline deadline, Ready&& ready);
  template <class Ready>
  bool looks_for_a_moment(Deadline deadline, Ready&& ready) SIMPLER_NO_THREAD_SAFETY_ANALYSIS;
  template <class Ready>
  void drive_as_waiter(Deadline deadline, bool has_spun, Ready&& ready);
  bool can_elect() const;
  void step_down();
  void hand_over();
  void end_turn();
  // After kWouldBlock: waits until something was completed since `seen`. Ok: try again.
  // Why builder_blocks came back without what it waited for.
  Status gave_up(Status expired) SIMPLER_REQUIRES(lock_);
  Status submit_slowly(Status refused, const RunRef& run, const TaskRequest& request, TaskId* task)
      SIMPLER_REQUIRES(lock_);
  void note_builder() {
    roles_.heartbeat.store(roles_.heartbeat.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  Status wait_for_progress(Status refused, Deadline deadline, uint64_t seen) SIMPLER_REQUIRES(lock_);
  Deadline space_deadline() const;
  bool builder_moved(uint32_t* seen) const;
  bool somebody_drives(uint32_t* seen) const;
  void scheduler_main();
  void scheduler_drives();

  DriverOptions options_;
  WakeWord& doorbell_;
  WakePolicy& policy_;
  WakePolicy sleepy_;  // of those who wait for long: straight to sleep
  const Clock& clock_;
  EngineLock lock_;
  Engine engine_ SIMPLER_GUARDED_BY(lock_);
  uint32_t until_look_ SIMPLER_GUARDED_BY(lock_);      // submits
  uint32_t since_pump_ SIMPLER_GUARDED_BY(lock_) = 0;  // submits
  Nanos last_pump_ SIMPLER_GUARDED_BY(lock_) = 0;
  bool interrupted_ SIMPLER_GUARDED_BY(lock_) = false;  // how the builder's last wait ended
  uint64_t progress_ SIMPLER_GUARDED_BY(lock_) = 0;     // completions and poisonings so far
  std::atomic<Nanos> tick_at_;  // when the engine wants to be told the time; written under the lock
  Roles roles_;
  WakeWord scheduler_word_;
  WakeWord turn_word_;  // rung when the submission turn comes free

  struct Lost {
    LaneId lane;
    Status why;
  };
  Mutex lost_mutex_;
  std::vector<Lost> lost_ SIMPLER_GUARDED_BY(lost_mutex_);
  Mutex waiters_mutex_;
  std::vector<WakeWord*> waiters_ SIMPLER_GUARDED_BY(waiters_mutex_);  // words of waiters that are not elected
  std::atomic<uint32_t> waiting_{0};                                   // their number, as advice

  std::function<void(LaneId, TaskId)> on_overdue_;
  std::function<void(LaneId, const Status&)> on_condemned_;
  std::function<void(const std::string&)> on_warning_;
  std::thread scheduler_;
};

// Until `look()` says so, the deadline, or the next tick, also one that a look has brought nearer.
template <class Look>
bool Driver::wait_on_doorbell(Deadline deadline, Look&& look) {
  return simpler::wait_spinning(doorbell_, policy_, look) || wait_longer_on_doorbell(deadline, look);
}
template <class Look>
bool Driver::wait_longer_on_doorbell(Deadline deadline, Look&& look) {
  const Deadline until = Deadline::earlier(deadline, next_tick());
  return simpler::wait_longer(doorbell_, policy_, until, [&] { return look() || next_tick().when() < until.when(); });
}

}  // namespace simpler::engine
