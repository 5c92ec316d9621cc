#include "engine/driver.h"

#include <algorithm>
#include <limits>
#include <string>
#include <unistd.h>

#include "base/check.h"
#include "base/status_macros.h"

namespace simpler::engine {

namespace {
constexpr Nanos kNever = std::numeric_limits<Nanos>::max();

EngineOptions engine_options(const DriverOptions& options) {
  EngineOptions engine = options.engine;
  engine.defer_from = options.defer_from;
  return engine;
}
}  // namespace

// --- driver ----------------------------------------------------------------------------------------------------------

Driver::Driver(const DriverOptions& options, memory::SharedTables& tables, memory::ArgsArena& arena, memory::Heap* heap,
               WakeWord& doorbell, WakePolicy& policy, const Clock& clock)
    : options_(options),
      doorbell_(doorbell),
      policy_(policy),
      sleepy_(WakeOptions{.spin = 0, .yield = 0, .use_membarrier = policy.has_membarrier(), .posters_fence = true}),
      clock_(clock),
      lock_(policy),
      engine_(engine_options(options), tables, arena, heap),
      until_look_(options.submits_per_look),
      tick_at_(kNever) {}

Driver::~Driver() {
  stop();
}

Result<LaneId> Driver::add_lane(lane::Lane& lane) {
  return with_engine([&](Engine& engine) { return engine.add_lane(lane); });
}

void Driver::start() {
  SIMPLER_CHECK(!scheduler_.joinable());
  roles_.stopping.store(false, std::memory_order_seq_cst);
  scheduler_ = std::thread([this] { scheduler_main(); });
}

void Driver::stop() {
  if (!scheduler_.joinable()) return;
  roles_.stopping.store(true, std::memory_order_seq_cst);
  wake(scheduler_word_);
  wake(doorbell_);
  scheduler_.join();
}

// What other threads decide by; they read it without the lock.
inline void Driver::publish() {
  roles_.unfinished.store(engine_.unfinished_runs(), std::memory_order_relaxed);
  roles_.owed.store(engine_.lines_unanswered() || engine_.has_backlog(), std::memory_order_relaxed);
}

template <bool kRing>
inline void Driver::leave_with_news() {
  publish();
  RunRecord* ended = nullptr;
  uint32_t notes = 0;
  if (!engine_.news().more && !engine_.timed()) [[likely]] {
    ended = std::exchange(engine_.news().run, nullptr);
    notes = lock_.unlock_or_notes();
    if (notes == 0) [[likely]] {
      if (ended != nullptr) wake(ended->word);
      if (ended != nullptr || (kRing && roles_.builder_drives.load(std::memory_order_relaxed))) wake(doorbell_);
      return;
    }
  }
  leave_slowly(ended, notes, kRing);
}

void Driver::leave() {
  leave_with_news<true>();
}

// For a look of somebody who has announced that it will sleep on the doorbell: one that rang it would wake itself, and
// never sleep.
void Driver::leave_after_look() {
  leave_with_news<false>();
}

// After a change that nobody waits for.
inline void Driver::leave_silently() {
  const uint32_t notes = lock_.unlock_or_notes();
  if (notes != 0) [[unlikely]]
    leave_slowly(nullptr, notes, true);
}

void Driver::leave_slowly(RunRecord* ended, uint32_t notes, bool ring) {
  ring = ring || notes != 0;
  EngineNews news;
  news.run = ended;
  bool earlier_tick = false;
  do {
    if (notes != 0) handle_notes(notes);
    if (engine_.timed() && tick_at_.load(std::memory_order_relaxed) == kNever) {
      tell_time();
      earlier_tick = true;
    }
    if (!engine_.news().empty()) news.append(std::exchange(engine_.news(), {}));
    publish();
    notes = lock_.unlock_or_notes();
    ring = ring || notes != 0;
  } while (notes != 0);
  // Whoever sleeps on the doorbell may wait for something that happened here, or has to be up earlier than it knew.
  if (earlier_tick) rouse_scheduler();
  deliver(news);
  if (ring || earlier_tick || !news.empty()) wake(doorbell_);
}

void Driver::handle_notes(uint32_t notes) {
  if ((notes & EngineLock::kLost) != 0) {
    std::vector<Lost> lost;
    {
      MutexLock held(lost_mutex_);
      lost.swap(lost_);
    }
    for (Lost& one : lost) engine_.lane_lost(one.lane, std::move(one.why));
  }
  pump_held(options_.hold_limit);
}

void Driver::deliver(EngineNews& news) {
  if (news.run != nullptr) wake(news.run->word);
  for (EngineNews::Finished& finished : news.finished) {
    if (finished.record != nullptr) wake(finished.record->word);
    for (const auto& callback : finished.callbacks) callback();
  }
  for (const std::string& warning : news.warnings) {
    if (on_warning_) on_warning_(warning);
  }
  for (const EngineNews::Overdue& overdue : news.overdue) {
    if (on_overdue_) on_overdue_(overdue.lane, overdue.task);
  }
  for (const EngineNews::Condemned& condemned : news.condemned) {
    if (on_condemned_) on_condemned_(condemned.lane, condemned.why);
  }
}

void Driver::tell_time() {
  tick_at_.store(engine_.tick(clock_.now()), std::memory_order_relaxed);
}

uint32_t Driver::pump_held(uint32_t limit) {
  const uint32_t handled = engine_.pump(limit);
  progress_ += handled;
  if (engine_.timed()) {
    tell_time();
  } else {
    tick_at_.store(kNever, std::memory_order_relaxed);
  }
  return handled;
}

uint32_t Driver::pump_and_leave() {
  const uint32_t handled = pump_held(options_.hold_limit);
  if (handled == 0) {
    leave_after_look();
  } else {
    leave();
  }
  return handled;
}

uint32_t Driver::pump_once() {
  if (!lock_.lock_or_leave(EngineLock::kPump)) return 0;
  return pump_and_leave();
}

// --- building --------------------------------------------------------------------------------------------------------

template <class Ready>
bool Driver::builder_waits(Deadline deadline, Ready&& ready) {
  roles_.builder_drives.store(true, std::memory_order_relaxed);
  bool holds = ready();
  while (!holds) {
    leave();
    const auto look = [&] {
      if (!lock_.lock_or_leave(EngineLock::kPump)) return false;
      pump_held(options_.hold_limit);
      const bool now = ready();
      leave_after_look();
      return now;
    };
    const bool seen = wait_on_doorbell(deadline, look);
    lock_.lock();
    holds = ready();
    if (!holds && !seen && deadline.expired()) break;
  }
  roles_.builder_drives.store(false, std::memory_order_seq_cst);
  rouse_if_dozing();
  return holds;
}

template <class Ready>
bool Driver::builder_blocks(Deadline deadline, Ready&& ready) {
  if (ready()) return true;
  leave();
  if (options_.before_block) options_.before_block();
  lock_.lock();
  interrupted_ = false;
  bool holds = false;
  while (true) {
    const Deadline look = options_.interrupted ? Deadline::after(options_.interrupt_look) : Deadline::never();
    holds = builder_waits(Deadline::earlier(deadline, look), ready);
    if (holds || !options_.interrupted || deadline.expired()) break;
    leave();
    const bool interrupted = options_.interrupted();
    lock_.lock();
    interrupted_ = interrupted;
    if (interrupted) break;
  }
  if (!options_.after_block) return holds;
  leave();
  options_.after_block();
  lock_.lock();
  return holds;
}

Deadline Driver::space_deadline() const {
  return options_.heap_wait_timeout > 0 ? Deadline::after(options_.heap_wait_timeout) : Deadline::never();
}

Result<RunRef> Driver::begin_run(Deadline admission, const RunOptions& options) {
  const auto take_turn = [this] {
    bool taken = false;
    return roles_.building.compare_exchange_strong(taken, true, std::memory_order_seq_cst, std::memory_order_relaxed);
  };
  if (!simpler::wait(turn_word_, sleepy_, admission, take_turn)) {
    return timed_out("no submission turn: another thread builds a graph");
  }
  rouse_if_dozing();
  lock_.lock();
  const uint32_t most = options_.engine.max_runs;
  const auto admitted = [&]() SIMPLER_REQUIRES(lock_) { return engine_.unfinished_runs() < most; };
  if (!admitted() && !builder_waits(admission, admitted)) [[unlikely]] {
    leave();
    end_turn();
    return timed_out(std::to_string(most) + " runs are unfinished, as many as are admitted, and none ended in time");
  }
  Result<RunRef> run = engine_.begin_run(options);
  const bool deep = roles_.deep.load(std::memory_order_relaxed);
  leave();
  if (deep) wake(scheduler_word_);
  if (!run.ok()) end_turn();
  return run;
}

Status Driver::gave_up(Status expired) {
  return interrupted_ ? cancelled("the wait for room was interrupted") : std::move(expired);
}

Status Driver::wait_for_progress(Status refused, Deadline deadline, uint64_t seen) {
  if (builder_blocks(deadline, [&]() SIMPLER_REQUIRES(lock_) { return progress_ != seen; })) return Status::ok();
  return gave_up(resource_exhausted("nothing came free for " +
                                    std::to_string(options_.heap_wait_timeout / kMillisecond) +
                                    " ms: " + std::string(refused.message())));
}

void Driver::builder_looks() {
  until_look_ = options_.submits_per_look;
  const Nanos now = clock_.now();
  if (now - last_pump_ < options_.pump_interval && since_pump_ < options_.submits_per_pump) return;
  last_pump_ = now;
  since_pump_ = 0;
  pump_held(options_.hold_limit);
}

// Goes on where the first try of a submit ended: blocks as long as it may help.
Status Driver::submit_slowly(Status refused, const RunRef& run, const TaskRequest& request, TaskId* task) {
  const Deadline deadline = space_deadline();
  uint64_t seen = progress_;
  while (refused.code() == StatusCode::kWouldBlock) {
    if (engine_.full()) {
      if (!builder_blocks(deadline, [&]() SIMPLER_REQUIRES(lock_) { return !engine_.full(); })) {
        return gave_up(resource_exhausted("all " + std::to_string(options_.engine.window) +
                                          " task slots stayed taken for " +
                                          std::to_string(options_.heap_wait_timeout / kMillisecond) + " ms"));
      }
    } else if (Status status = wait_for_progress(std::move(refused), deadline, seen); !status.is_ok()) {
      return status;
    }
    seen = progress_;
    refused = engine_.submit(run, request, task);
  }
  return refused;
}

Result<TaskId> Driver::submit(const RunRef& run, const TaskRequest& request) {
  lock_.lock();
  note_builder();
  TaskId task;
  Status status = engine_.submit(run, request, &task);
  if (!status.is_ok()) [[unlikely]]
    status = submit_slowly(std::move(status), run, request, &task);
  ++since_pump_;
  if (--until_look_ == 0) [[unlikely]]
    builder_looks();
  leave_with_news<true>();
  if (!status.is_ok()) [[unlikely]]
    return status;
  return task;
}

Result<Allocation> Driver::alloc(const RunRef& run, uint64_t bytes) {
  lock_.lock();
  note_builder();
  Deadline deadline = Deadline::never();
  bool first = true;
  while (true) {
    const uint64_t seen = progress_;
    Result<Allocation> allocation = engine_.alloc(run, bytes);
    if (allocation.ok() || allocation.status().code() != StatusCode::kWouldBlock) {
      leave();
      return allocation;
    }
    if (first) deadline = space_deadline();
    first = false;
    if (Status status = wait_for_progress(allocation.status(), deadline, seen); !status.is_ok()) {
      leave();
      return status;
    }
  }
}

Status Driver::scope_begin(const RunRef& run) {
  return with_engine([&](Engine& engine) { return engine.scope_begin(run); });
}

Status Driver::scope_end(const RunRef& run) {
  return with_engine([&](Engine& engine) { return engine.scope_end(run); });
}

Status Driver::close_run(const RunRef& run) {
  lock_.lock();
  Status status = engine_.close_run(run);
  pump_held(options_.hold_limit);
  const bool backlog = engine_.has_backlog();
  leave();
  end_turn();
  if (backlog) rouse_scheduler();
  return status;
}

void Driver::fail_run(const RunRef& run, Status why) {
  lock_.lock();
  engine_.fail_run(run, std::move(why));
  pump_held(options_.hold_limit);
  leave();
  end_turn();
  rouse_scheduler();
}

void Driver::end_turn() {
  roles_.building.store(false, std::memory_order_seq_cst);
  wake(turn_word_);
  if (waiting_.load(std::memory_order_seq_cst) != 0) rouse_waiters();
}

// --- waiting ---------------------------------------------------------------------------------------------------------

bool Driver::can_elect() const {
  return !roles_.building.load(std::memory_order_seq_cst) && !roles_.elected.load(std::memory_order_seq_cst);
}

void Driver::rouse_waiters() {
  MutexLock held(waiters_mutex_);
  for (WakeWord* word : waiters_) wake(*word);
}

void Driver::rouse_scheduler() {
  roles_.roused.store(true, std::memory_order_seq_cst);
  wake(scheduler_word_);
}

// The elected waiter goes: another waiter, else the scheduler, has to notice answers from now on.
// Pairs with the scheduler's look after it set `dozing`: one of the two sees the other's store.
void Driver::rouse_if_dozing() {
  if (roles_.dozing.load(std::memory_order_seq_cst)) rouse_scheduler();
}

bool Driver::driver_sleeps() const {
  return roles_.building.load(std::memory_order_seq_cst) ? roles_.builder_drives.load(std::memory_order_seq_cst)
                                                         : roles_.elected.load(std::memory_order_seq_cst);
}

void Driver::step_down() {
  roles_.elected.store(false, std::memory_order_seq_cst);
  rouse_if_dozing();
  hand_over();
}

// Who drove goes while runs are unfinished: somebody else has to notice their answers.
void Driver::hand_over() {
  if (roles_.unfinished.load(std::memory_order_relaxed) == 0) return;
  if (waiting_.load(std::memory_order_seq_cst) != 0) {
    rouse_waiters();
  } else if (!roles_.building.load(std::memory_order_seq_cst)) {
    rouse_scheduler();
  }
}

// While a wait spins it needs no office: it may look, and only who sleeps on the doorbell has to be known. It leaves no
// note, since it looks again at once. True when it spun in vain to the end.
template <class Ready>
bool Driver::looks_for_a_moment(Deadline deadline, Ready&& ready) {
  const auto somebody_drives = [this] {
    return roles_.building.load(std::memory_order_relaxed) || roles_.elected.load(std::memory_order_relaxed);
  };
  if (somebody_drives() || roles_.looking.load(std::memory_order_relaxed)) return false;
  roles_.looking.store(true, std::memory_order_relaxed);
  bool in_vain = false;
  for (uint32_t handled = 1; handled != 0 && !ready() && !deadline.expired();) {
    handled = 0;
    in_vain = !wait_spinning(doorbell_, policy_, [&] {
      if (ready() || somebody_drives()) return true;
      if (lock_.try_lock()) handled = pump_and_leave();
      return handled != 0;
    });
  }
  roles_.looking.store(false, std::memory_order_relaxed);
  return in_vain;
}

template <class Ready>
void Driver::drive_as_waiter(Deadline deadline, bool has_spun, Ready&& ready) {
  const auto must_go = [&] { return ready() || roles_.building.load(std::memory_order_relaxed); };
  const auto look = [&] { return must_go() || pump_once() != 0; };
  for (bool spun = has_spun; !must_go() && !deadline.expired(); spun = false) {
    spun ? wait_longer_on_doorbell(deadline, look) : wait_on_doorbell(deadline, look);
  }
}

template <class Ready>
bool Driver::wait_for(WakeWord& word, Deadline deadline, Ready&& ready) {
  if (ready()) return true;
  if (deadline.expired()) return false;
  bool spun = looks_for_a_moment(deadline, ready);
  if (const bool done = ready(); done || deadline.expired()) {
    hand_over();
    return done;
  }
  while (true) {
    bool elected = false;
    if (!roles_.building.load(std::memory_order_seq_cst) &&
        roles_.elected.compare_exchange_strong(elected, true, std::memory_order_seq_cst)) {
      drive_as_waiter(deadline, spun, ready);
      step_down();
    } else {
      wait_for_another_driver(word, deadline, ready);
    }
    if (ready()) return true;
    if (deadline.expired()) return false;
    spun = false;
  }
}

template <class Ready>
void Driver::wait_for_another_driver(WakeWord& word, Deadline deadline, Ready&& ready) {
  {
    MutexLock held(waiters_mutex_);
    waiters_.push_back(&word);
  }
  waiting_.fetch_add(1, std::memory_order_seq_cst);
  simpler::wait(word, sleepy_, deadline, [&] { return ready() || can_elect(); });
  waiting_.fetch_sub(1, std::memory_order_seq_cst);
  MutexLock held(waiters_mutex_);
  waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &word));
}

Status Driver::wait(const RunRef& run, Deadline deadline) {
  if (run.record == nullptr) return invalid_argument("wait for a run that does not exist");
  const RunRecord& record = *run.record;
  if (!wait_for(run.record->word, deadline, [&] { return record.is_done(); })) {
    return timed_out("run " + std::to_string(run.id) + " is not finished yet");
  }
  return record.errors.empty() ? Status::ok() : record.errors.front();
}

bool Driver::done(const RunRef& run) const {
  return run.record != nullptr && run.record->is_done();
}

Status Driver::wait_head(const RunRef& run, Deadline deadline) {
  lock_.lock();
  const bool head = builder_blocks(deadline, [&]() SIMPLER_REQUIRES(lock_) { return engine_.is_head(run); });
  leave();
  return head ? Status::ok() : timed_out("earlier runs are not finished yet");
}

Status Driver::wait_idle(Deadline deadline) {
  WakeWord word;  // nobody rings it: whoever waits here is roused to be elected, or by its own looks
  while (roles_.unfinished.load(std::memory_order_acquire) != 0) {
    if (deadline.expired()) {
      return timed_out(std::to_string(roles_.unfinished.load(std::memory_order_relaxed)) +
                       " runs are not finished yet");
    }
    const Deadline look = Deadline::earlier(deadline, Deadline::after(options_.last_look));
    wait_for(word, look, [&] { return roles_.unfinished.load(std::memory_order_acquire) == 0; });
  }
  return Status::ok();
}

void Driver::cancel(const RunRef& run, Status why) {
  lock_.lock();
  engine_.cancel(run, std::move(why));
  pump_held(options_.hold_limit);
  leave();
  rouse_scheduler();
}

std::vector<Status> Driver::errors(const RunRef& run) const {
  return done(run) ? run.record->errors : std::vector<Status>{};
}

void Driver::on_done(const RunRef& run, std::function<void()> callback) {
  lock_.lock();
  if (!run.record->is_done()) {
    run.record->on_done.push_back(std::move(callback));
    leave();
    return;
  }
  leave();
  callback();
}

void Driver::signal_eventfd(const RunRef& run, int fd) {
  on_done(run, [fd] {
    const uint64_t one = 1;
    // A full counter already says that something is done; there is nobody to tell about any other failure.
    if (::write(fd, &one, sizeof one) < 0) return;
  });
}

void Driver::release(const RunRef& run) {
  lock_.lock();
  engine_.release(run);
  leave_silently();
}

void Driver::lane_lost(LaneId lane, Status why) {
  {
    MutexLock held(lost_mutex_);
    lost_.push_back({lane, std::move(why)});
  }
  if (lock_.lock_or_leave(EngineLock::kLost)) {
    handle_notes(EngineLock::kLost);
    leave();
  }
  rouse_scheduler();
}

}  // namespace simpler::engine
