#include "chip/backends/sim/sim_cores.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "chip/run_codes.h"

namespace simpler::chip::sim {
namespace {

constexpr Nanos kLook = 10 * kMillisecond;       // between two looks of the watch
constexpr Nanos kLongBlock = 20 * kMillisecond;  // CPU time after which a block gives its seat to waiting work
constexpr Nanos kLongWall = 100 * kMillisecond;  // the same for a block that does not compute
constexpr int kSleepFactor = 10;  // a block that neither computes nor pauses may stand still this many limits

WakeOptions wake_options(uint32_t threads) {
  WakeOptions options;
  options.runnable_threads = threads + 1;
  return options;
}

// A block that waits naps again and again; what it naps on is posted when its run is stopped.
constexpr WakeOptions kNapping{.spin = 0, .yield = 0, .posters_fence = true};

}  // namespace

SimCores::SimCores(const SimOptions& options)
    : options_(options), policy_(wake_options(options.threads)), napping_(kNapping) {
  const uint32_t count = aic_cores() + aiv_cores();
  for (uint32_t id = 0; id < count; ++id) {
    cores_.push_back(std::make_unique<SimCore>());
    cores_.back()->id = id;
  }
}

SimCores::~SimCores() {
  SIMPLER_CHECK(shut_down());
}

bool SimCores::shut_down() {
  SIMPLER_CHECK(over(), participants_.load());
  std::vector<std::unique_ptr<SimThread>> threads;
  bool safe;
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
    parked_.clear();
    safe = lost_.empty();
  }
  for (auto& thread : threads) thread->order_quit_and_join();
  return safe;
}

uint32_t SimCores::core_index(const device::Ticket& ticket) const {
  return ticket.core + (ticket.shape == device::Shape::kAic ? 0 : options_.clusters);
}

void SimCores::launch(const SimRun& run) {
  SIMPLER_CHECK(over());
  {
    MutexLock lock(mutex_);
    outcome_ = SimOutcome{};
  }
  run_ = run;
  progress_mark_ = 0;
  progress_since_ = monotonic_now();
  next_look_ = progress_since_ + kLook;
  if (run.scheduler->finished() || run.scheduler->stopped()) return;
  if (take_seat()) put_to_work();
}

bool SimCores::take_seat() {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // after this thread's own push; pairs with leave_seat
  uint32_t taken = seats_taken_.load(std::memory_order_relaxed);
  while (taken < options_.threads) {
    if (seats_taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_seq_cst)) return true;
  }
  return false;
}

void SimCores::start_helper() {
  if (seat_free() && take_seat()) put_to_work();
}

// Gives a taken seat to a parked thread or to a new one.
void SimCores::put_to_work() {
  participants_.fetch_add(1, std::memory_order_relaxed);
  if (SimThread* thread = parked_or_new()) {
    thread->order_drive();
    return;
  }
  leave_seat();
  end_participation();
}

SimThread* SimCores::parked_or_new() {
  MutexLock lock(mutex_);
  if (!parked_.empty()) {
    SimThread* thread = parked_.back();
    parked_.pop_back();
    return thread;
  }
  if (cannot_grow_) return nullptr;
  auto thread = std::make_unique<SimThread>(*this, next_number_);
  try {
    thread->start();
  } catch (const std::system_error& error) {
    // The threads that exist go on; without any there is no chip.
    cannot_grow_ = !threads_.empty();
    if (threads_.empty()) {
      stop_with(resource_exhausted(std::string("the simulated chip cannot start a thread: ") + error.what()));
    }
    return nullptr;
  }
  ++next_number_;
  ++statistics_.threads_made;
  threads_.push_back(std::move(thread));
  return threads_.back().get();
}

void SimCores::leave_run(SimThread& thread) {
  {
    MutexLock lock(mutex_);
    parked_.push_back(&thread);
  }
  end_participation();
}

void SimCores::end_participation() {
  if (participants_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake(done_);
}

void SimCores::account(uint64_t blocks, uint64_t kernel_cpu_ns) {
  MutexLock lock(mutex_);
  statistics_.blocks += blocks;
  statistics_.kernel_cpu_ns += kernel_cpu_ns;
}

std::string SimCores::block_name(const device::Ticket& ticket) const {
  const device::TaskSlot& slot = run_.image->slot(ticket.task);
  const auto kernels = run_.callable->kernels();
  const std::string name = slot.func_id < kernels.size() ? kernels[slot.func_id].name : "unknown";
  return "task " + std::to_string(ticket.task) + ", kernel '" + name + "' (func_id " + std::to_string(slot.func_id) +
         "), block " + std::to_string(ticket.block) + " of " + std::to_string(slot.block_num) + ", core " +
         std::to_string(core_index(ticket)) + (ticket.shape == device::Shape::kAic ? " (AIC)" : " (AIV)");
}

void SimCores::stop_with(Status status) {
  if (outcome_.status.is_ok()) outcome_.status = std::move(status).with_callable(run_.callable->name());
  run_.scheduler->stop(device::Stop::kFailed);
  wake(naps_);
}

void SimCores::report_throw(const device::Ticket& ticket, const std::string& what, const std::string& type) {
  MutexLock lock(mutex_);
  stop_with(task_failed(block_name(ticket) + " threw " + type + ": " + what)
                .with_task(std::to_string(ticket.task))
                .with_type_name(type));
}

bool SimCores::poll() {
  if (over()) return true;
  if (const Nanos now = monotonic_now(); now >= next_look_) watch(now);
  return over();
}

bool SimCores::wait(Deadline deadline) {
  while (true) {
    const Deadline look = Deadline::at(next_look_);
    if (simpler::wait(done_, policy_, Deadline::earlier(deadline, look), [this] { return over(); })) return true;
    const Nanos now = monotonic_now();
    if (now >= next_look_) watch(now);
    if (deadline.expired(now)) return over();
  }
}

void SimCores::watch(Nanos now) {
  next_look_ = now + std::min(kLook, options_.watchdog / 2 + 1);
  uint32_t seats_given = 0;
  {
    MutexLock lock(mutex_);
    uint64_t mark = run_.scheduler->completed();
    for (const auto& thread : threads_) mark += block_of(thread->word());
    if (mark != progress_mark_) {
      progress_mark_ = mark;
      progress_since_ = now;
    }
    for (const auto& thread : threads_) seats_given += watch_thread(*thread, now) ? 1 : 0;
    const auto is_lost = [](const auto& thread) { return phase_of(thread->word()) == Phase::kLost; };
    const auto first_lost = std::stable_partition(threads_.begin(), threads_.end(), std::not_fn(is_lost));
    std::move(first_lost, threads_.end(), std::back_inserter(lost_));
    threads_.erase(first_lost, threads_.end());
  }
  for (; seats_given > 0; --seats_given) start_helper();
}

bool SimCores::watch_thread(SimThread& thread, Nanos now) {
  uint64_t word = thread.word();
  const Phase phase = phase_of(word);
  if (phase != Phase::kInKernel && phase != Phase::kDetached) return false;
  const Nanos cpu = thread.cpu_time();
  SimThread::Seen& seen = thread.seen;
  if (seen.block != block_of(word)) {
    seen = SimThread::Seen{block_of(word), now, cpu, thread.pauses()};
    return false;
  }
  const bool waits = thread.pauses() != seen.pauses;
  const Nanos still = now - progress_since_;
  if (cpu - seen.cpu >= options_.watchdog || (waits && still >= options_.watchdog) ||
      still / kSleepFactor >= options_.watchdog) {
    if (lose(thread, word)) return false;
  }
  const bool long_block = cpu - seen.cpu >= kLongBlock || now - seen.since >= kLongWall;
  if (phase != Phase::kInKernel || !long_block || !run_.scheduler->runnable()) return false;
  const uint64_t detached = phase_word(Phase::kDetached, block_of(word));
  if (!thread.word().compare_exchange_strong(word, detached, std::memory_order_acq_rel)) return false;
  leave_seat();
  return true;
}

bool SimCores::lose(SimThread& thread, uint64_t word) {
  const device::Ticket ticket = thread.ticket();
  const bool seated = phase_of(word) == Phase::kInKernel;
  const uint64_t lost = phase_word(Phase::kLost, block_of(word));
  if (!thread.word().compare_exchange_strong(word, lost, std::memory_order_acq_rel)) return false;
  thread.detach_for_good();
  std::unique_ptr<SimCore>& core = cores_[core_index(ticket)];
  auto replacement = std::make_unique<SimCore>();
  replacement->id = core->id;
  lost_cores_.push_back(std::exchange(core, std::move(replacement)));
  ++statistics_.lost_threads;
  outcome_.lost_thread = true;
  stop_with(run_failure(RunCode::kSchedulerTimeout, block_name(ticket) + " did not return")
                .with_task(std::to_string(ticket.task)));
  if (seated) leave_seat();
  end_participation();
  return true;
}

SimOutcome SimCores::take_outcome() {
  MutexLock lock(mutex_);
  return std::move(outcome_);
}

SimStatistics SimCores::statistics() const {
  MutexLock lock(mutex_);
  return statistics_;
}

}  // namespace simpler::chip::sim
