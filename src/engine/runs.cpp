// Runs from begin to release, failure, cancellation, and what depends on time.
#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/engine.h"

namespace simpler::engine {

namespace {
constexpr Nanos kNoTime = std::numeric_limits<Nanos>::max();
}

ActiveRun* Engine::active_of(const RunRef& run) {
  if (run.record == nullptr || run.record->id != run.id || run.record->is_done()) return nullptr;
  return &active_[run.record->active];
}

Result<RunRef> Engine::begin_run(const RunOptions& options) {
  SIMPLER_CHECK(building_ == nullptr);
  if (order_.size() == options_.max_runs) {
    return would_block(std::to_string(order_.size()) + " runs are unfinished, as many as are admitted");
  }
  RunRecord* record = nullptr;
  if (!free_records_.empty()) {
    record = free_records_.back();
    free_records_.pop_back();
  } else {
    records_.push_back(std::make_unique<RunRecord>());
    record = records_.back().get();
  }
  uint32_t place = 0;
  while (active_[place].record != nullptr) ++place;
  ActiveRun& active = active_[place];
  record->id = ++last_run_;
  record->phase = RunPhase::kBuilding;
  record->errors.clear();
  record->on_done.clear();
  record->active = static_cast<uint8_t>(place);
  record->released = false;
  record->done.store(false, std::memory_order_relaxed);
  active.record = record;
  active.live_tasks = active.live_allocations = 0;
  active.closed = active.executing = active.cancelled = active.failed = false;
  active.id = record->id;
  active.place = record->active;
  active.timeout = options.timeout;
  active.deadline = 0;
  if (options.timeout > 0) ++timed_runs_;
  building_ = &active;
  open_run_ = active.id;
  map_.begin_epoch();
  member_mark_ = 0;
  named_seen_ = 0;
  SIMPLER_CHECK(scopes_.depth() == 0);
  SIMPLER_RETURN_IF_ERROR(scopes_.begin());
  order_.push_back(static_cast<uint8_t>(place));
  activate();
  return RunRef{record, record->id};
}

void Engine::end_submission(ActiveRun& active) {
  scopes_.end_all([this](uint32_t allocation) { unhold(allocation); });
  building_ = nullptr;
  open_run_ = 0;
  active.closed = true;
  if (!active.executing) active.record->phase = RunPhase::kPrepared;
  want_finish(active);
}

Status Engine::close_run(const RunRef& run) {
  if (building_ == nullptr || building_->record != run.record) return check_run(run);
  ActiveRun& active = *building_;
  Status status;
  if (!scopes_.balanced()) {
    status = failed_precondition("the graph function returned with " + std::to_string(scopes_.depth() - 1) +
                                 " scope(s) still open: each scope_begin needs its scope_end");
    record_error(active, status);
    cancel_active(active);
  }
  end_submission(active);
  settle_runs();
  return status;
}

void Engine::fail_run(const RunRef& run, Status why) {
  if (building_ == nullptr || building_->record != run.record) return;
  ActiveRun& active = *building_;
  record_error(active, std::move(why));
  cancel_active(active);
  end_submission(active);
  settle_runs();
}

void Engine::cancel(const RunRef& run, Status why) {
  ActiveRun* const active = active_of(run);
  if (active == nullptr || active->cancelled) return;
  record_error(*active, std::move(why));
  cancel_active(*active);
  settle_runs();
}

// What has not started never will. Tasks that wait for running ones fail when those end.
void Engine::cancel_active(ActiveRun& active) {
  if (active.cancelled) return;
  active.cancelled = true;
  for (LaneQueue& queue : active.lanes) doom_list(queue.ready);
  for (uint32_t index = active.groups.head; index != kNoSlot; index = slots_.details(index).next) --waiting_groups_;
  doom_list(active.groups);
  doom_list(active.subs);
  groups_wanted_ = true;
  const auto run_low = static_cast<uint32_t>(active.record->id);
  for (LaneState& state : lanes_) {
    if (state.unanswered != 0 && !state.lost) state.lane->cancel(run_low);
  }
}

void Engine::doom_list(SlotList& list) {
  if (list.empty()) return;
  slots_.details(list.head).prev = doomed_.tail;
  (doomed_.tail == kNoSlot ? doomed_.head : slots_.details(doomed_.tail).next) = list.head;
  doomed_.tail = list.tail;
  list = SlotList{};
}

uint32_t Engine::settle_doomed(uint32_t limit) {
  uint32_t settled = 0;
  while (settled < limit && !doomed_.empty()) {
    const uint32_t index = pop(doomed_);
    Slot& slot = slots_[index];
    if ((slot.flags & kSlotGroup) != 0) {
      for (GroupMember& member : groups_[slots_.details(index).group].members)
        member.state = GroupMemberState::kSkipped;
    }
    finish(index, slot, false);
    ++settled;
  }
  return settled;
}

void Engine::record_error(ActiveRun& active, Status why) {
  active.failed = true;
  if (open_run_ == active.id) open_run_ = 0;
  active.record->errors.push_back(std::move(why));
}

void Engine::settle_runs() {
  while (finish_wanted_ != 0) {
    ActiveRun& active = active_[static_cast<size_t>(std::countr_zero(finish_wanted_))];
    finish_wanted_ &= finish_wanted_ - 1;
    if (active.record != nullptr && active.closed && active.live_tasks == 0 && active.live_allocations == 0) {
      finish_run(active);
    }
  }
}

void Engine::finish_run(ActiveRun& active) {
  RunRecord& record = *active.record;
  for (const uint32_t buffer : active.named_buffers) tables_.unname_buffer(buffer);
  active.named_buffers.clear();
  if (active.timeout > 0) --timed_runs_;
  record.phase = record.errors.empty() ? RunPhase::kCompleted : RunPhase::kFailed;
  if (order_.size() == 1) [[likely]] {
    order_.clear();
  } else {
    order_.erase(std::find(order_.begin(), order_.end(), record.active));
  }
  active.record = nullptr;
  if (record.released) {
    record.done.store(true, std::memory_order_release);
    if (!record.on_done.empty()) news_.tell(news_.finished, {nullptr, std::move(record.on_done)});
    free_records_.push_back(&record);
  } else {
    if (record.on_done.empty()) [[likely]] {
      news_.tell_end(record);
    } else {
      news_.tell(news_.finished, {&record, std::exchange(record.on_done, {})});
    }
    record.done.store(true, std::memory_order_release);
  }
  activate();
}

// The head of the queue executes.
void Engine::activate() {
  if (order_.empty()) return;
  ActiveRun& head = active_[order_.front()];
  if (head.executing) return;
  head.executing = true;
  head.record->phase = RunPhase::kExecuting;
  if (head.live_tasks != 0) dispatch_run(head);
}

void Engine::release(const RunRef& run) {
  if (run.record == nullptr || run.record->id != run.id || run.record->released) return;
  run.record->released = true;
  if (run.record->is_done()) free_records_.push_back(run.record);
}

bool Engine::is_head(const RunRef& run) const {
  return !order_.empty() && active_[order_.front()].record == run.record;
}

std::string Engine::name_of(uint32_t index) const {
  const Slot& slot = slots_[index];
  return "task in slot " + std::to_string(index) + " of run " + std::to_string(active_[slot.run].record->id);
}

Status Engine::described(uint32_t index, Status why) const {
  if (why.is_ok()) why = internal_error("a task failed without a reason");
  if (why.task().empty()) {
    why = std::move(why).with_task("in slot " + std::to_string(index) + " of run " +
                                   std::to_string(active_[slots_[index].run].record->id));
  }
  const auto& callable = tables_.callable(slots_[index].callable);
  if (why.callable().empty() && callable.name[0] != 0) why = std::move(why).with_callable(callable.name.data());
  return why;
}

Nanos Engine::tick(Nanos now) {
  Nanos next = kNoTime;
  if (timed_runs_ != 0) {
    for (ActiveRun& active : active_) {
      if (active.record == nullptr || active.timeout <= 0 || active.cancelled) continue;
      if (active.deadline == 0) active.deadline = now + active.timeout;
      if (now >= active.deadline) {
        record_error(active, timed_out("run " + std::to_string(active.record->id) + " did not end within " +
                                       std::to_string(active.timeout / kMillisecond) + " ms"));
        cancel_active(active);
      } else {
        next = std::min(next, active.deadline);
      }
    }
  }
  if (timed_tasks_ != 0) next = std::min(next, watch_lanes(now));
  if (waiting_groups_ != 0) next = std::min(next, watch_groups(now));
  settle_runs();
  return next;
}

// The oldest unanswered line of a lane is what its child works on.
Nanos Engine::watch_lanes(Nanos now) {
  Nanos next = kNoTime;
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    LaneState& state = lanes_[lane];
    if (state.unanswered == 0 || state.lost) continue;
    const uint32_t line = state.pushed - state.unanswered;
    if (!state.watching || state.watched != line) {
      state.watching = true;
      state.watched = line;
      state.watched_since = now;
      state.overdue = false;
    }
    const uint32_t index = state.lines[line % lane::kMaxQueueDepth];
    const Slot& slot = slots_[index];
    if (!slot.timed || state.overdue) continue;
    const Nanos limit = state.watched_since + Nanos{slots_.details(index).timeout_ms} * kMillisecond;
    if (now < limit) {
      next = std::min(next, limit);
      continue;
    }
    state.overdue = true;
    ActiveRun& active = active_[slot.run];
    record_error(active, described(index, timed_out("a task ran longer than its timeout of " +
                                                    std::to_string(slots_.details(index).timeout_ms) + " ms")));
    news_.tell(news_.overdue, {LaneId{lane}, {active.record->id, index, slot.generation}});
    cancel_active(active);
  }
  return next;
}

Nanos Engine::watch_groups(Nanos now) {
  if (reservation_warned_ || options_.stall_warning <= 0) return kNoTime;
  if (reservation_since_ == 0) reservation_since_ = now;
  if (now < reservation_since_ + options_.stall_warning) return reservation_since_ + options_.stall_warning;
  for (const uint8_t place : order_) {
    const ActiveRun& active = active_[place];
    if (!active.executing || active.groups.empty()) continue;
    std::string busy;
    std::string waiting;
    for (const GroupMember& member : groups_[slots_.details(active.groups.head).group].members) {
      if (!idle(member.lane)) busy += " " + std::to_string(lanes_[member.lane].info.worker_id);
      if (idle(member.lane) && !active.lanes[member.lane].ready.empty()) {
        waiting += " " + std::to_string(lanes_[member.lane].info.worker_id);
      }
    }
    if (waiting.empty()) continue;
    reservation_warned_ = true;
    news_.tell(news_.warnings, "a group (" + name_of(active.groups.head) + ") waits for busy worker(s)" + busy +
                                   " and keeps idle worker(s)" + waiting + " from their work");
  }
  return kNoTime;
}

}  // namespace simpler::engine
