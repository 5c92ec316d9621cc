// SimCores: the cores of one simulated chip, multiplexed over a few OS threads.
//
// A thread drives the scheduler and is the core at the same time, so from one task to the next there is no hand-over.
// As many threads drive as the chip has seats; a block that waits (pause) or runs long gives its seat to a spare
// thread, so that blocks which wait for each other all get to run. Whoever waits for the run is its watch: a block that
// used more CPU time than the limit ends the run, its thread and core are replaced.
//
// launch, poll, wait and take_outcome belong to one thread at a time; one run is live at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "base/wake_word.h"
#include "chip/backends/sim/sim_thread.h"
#include "chip/graph_image.h"
#include "chip/loaded_callable.h"
#include "device/scheduler.h"
#include "simpler/status.h"

namespace simpler::chip::sim {

struct SimOptions {
  uint32_t clusters = 0;
  uint32_t aiv_per_cluster = 2;
  uint32_t threads = 1;
  Nanos watchdog = 10 * kSecond;
};

// What the cores need to know of a run; stays until the run is over, for good if a thread was lost.
struct SimRun {
  device::Scheduler* scheduler = nullptr;
  const GraphImage* image = nullptr;
  const LoadedCallable* callable = nullptr;
};

struct SimOutcome {
  Status status;
  bool lost_thread = false;  // a kernel is still running: keep everything it may touch
};

struct SimStatistics {
  uint64_t blocks = 0;
  uint64_t kernel_cpu_ns = 0;
  uint64_t lost_threads = 0;
  uint64_t threads_made = 0;
};

class SimCores {
 public:
  explicit SimCores(const SimOptions& options);
  ~SimCores();
  SimCores(const SimCores&) = delete;
  SimCores& operator=(const SimCores&) = delete;

  // The scheduler has booted the run's graph. Never blocks.
  void launch(const SimRun& run);
  // True when the last block has ended. Looks after stuck blocks when it is time to.
  bool poll();
  bool wait(Deadline deadline);
  // Once, after the run was over.
  SimOutcome take_outcome();

  uint32_t aic_cores() const { return options_.clusters; }
  uint32_t aiv_cores() const { return options_.clusters * options_.aiv_per_cluster; }
  uint32_t seats() const { return options_.threads; }
  SimStatistics statistics() const;
  // Ends the parked threads. False when a lost thread may still use this object: then it must never be destroyed.
  bool shut_down();

  // --- for SimThread
  const SimRun& run() const { return run_; }
  SimCore& core(const device::Ticket& ticket) { return *cores_[core_index(ticket)]; }
  WakePolicy& policy() { return policy_; }
  bool take_seat();
  void leave_seat() { seats_taken_.fetch_sub(1, std::memory_order_seq_cst); }
  bool seat_free() const { return seats_taken_.load(std::memory_order_relaxed) < options_.threads; }
  void start_helper();  // if a seat is free
  void leave_run(SimThread& thread);
  void report_throw(const device::Ticket& ticket, const std::string& what, const std::string& type);
  void account(uint64_t blocks, uint64_t kernel_cpu_ns);
  WakeWord& naps() { return naps_; }
  WakePolicy& napping() { return napping_; }

 private:
  bool over() const { return participants_.load(std::memory_order_acquire) == 0; }
  void put_to_work();
  SimThread* parked_or_new();
  uint32_t core_index(const device::Ticket& ticket) const;
  void watch(Nanos now);
  // True when a seat was given up for waiting work.
  bool watch_thread(SimThread& thread, Nanos now) SIMPLER_REQUIRES(mutex_);
  bool lose(SimThread& thread, uint64_t word) SIMPLER_REQUIRES(mutex_);
  void stop_with(Status status) SIMPLER_REQUIRES(mutex_);
  std::string block_name(const device::Ticket& ticket) const;
  void end_participation();

  const SimOptions options_;
  WakePolicy policy_;
  WakePolicy napping_;
  SimRun run_;
  std::vector<std::unique_ptr<SimCore>> cores_;  // AIC, then AIV

  // Threads that hold a seat, and threads that are in the run at all (seated, detached or leaving). The last one to
  // leave (acq_rel) publishes everything the run wrote to poll().
  alignas(64) std::atomic<uint32_t> seats_taken_{0};
  alignas(64) std::atomic<uint32_t> participants_{0};
  WakeWord done_;
  WakeWord naps_;

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<SimThread>> threads_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<SimThread*> parked_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<SimThread>> lost_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<SimCore>> lost_cores_ SIMPLER_GUARDED_BY(mutex_);
  SimOutcome outcome_ SIMPLER_GUARDED_BY(mutex_);
  SimStatistics statistics_ SIMPLER_GUARDED_BY(mutex_);
  uint32_t next_number_ SIMPLER_GUARDED_BY(mutex_) = 0;
  bool cannot_grow_ SIMPLER_GUARDED_BY(mutex_) = false;

  // The watch's own view, used by the one waiting thread.
  Nanos next_look_ = 0;
  uint64_t progress_mark_ = 0;
  Nanos progress_since_ = 0;
};

}  // namespace simpler::chip::sim
