#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/check.h"

namespace simpler::engine {

Engine::Engine(const EngineOptions& options, memory::SharedTables& tables, memory::ArgsArena& arena, memory::Heap* heap)
    : options_(options),
      tables_(tables),
      arena_(arena),
      heap_(heap),
      blocks_(arena.at(arena.slot_block(0))),
      slots_(options.window),
      map_(tables,
           {&slots_, [](const void* slots,
                        graph::TaskRef task) { return static_cast<const SlotTable*>(slots)->unfinished(task); }},
           options.tensor_map_entries) {
  SIMPLER_CHECK(options.max_runs >= 1 && options.max_runs <= 64, options.max_runs);
  SIMPLER_CHECK(arena.slots() >= options.window, arena.slots(), options.window);
  active_.resize(options.max_runs);
  order_.reserve(options.max_runs);
  entries_.resize(64);
  if (options.inference != graph::Inference::kFull) always_ = kTraitWeakRules;
}

Engine::~Engine() = default;

Result<LaneId> Engine::add_lane(lane::Lane& lane) {
  const lane::LaneInfo info = lane.info();
  uint32_t place = static_cast<uint32_t>(lanes_.size());
  for (uint32_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].info.type != info.type || lanes_[i].info.worker_id != info.worker_id) continue;
    if (!lanes_[i].lost) {
      return already_exists("a lane for worker id " + std::to_string(info.worker_id) + " exists and is alive");
    }
    place = i;
  }
  if (info.queue_depth == 0 || info.queue_depth > lane::kMaxQueueDepth) {
    return invalid_argument("a lane with a queue depth of " + std::to_string(info.queue_depth));
  }
  if (place == kGroupLane) return resource_exhausted("too many lanes");
  if (place == lanes_.size()) {
    lanes_.emplace_back();
    const size_t words = (lanes_.size() + 63) / 64;
    busy_.resize(words);
    reserved_.resize(words);
    wanted_.resize(words);
    for (ActiveRun& active : active_) active.lanes.resize(lanes_.size());
    if (info.type == WorkerType::kSub) {
      subs_.push_back(place);
    } else {
      if (lane_of_worker_.size() <= info.worker_id) lane_of_worker_.resize(info.worker_id + 1, kNoSlot);
    }
  }
  if (info.type == WorkerType::kNextLevel) lane_of_worker_[info.worker_id] = place;
  lanes_[place] = LaneState{};
  lanes_[place].lane = &lane;
  lanes_[place].info = info;
  lanes_[place].refill_from =
      info.queue_depth < 16 || !options_.refill_in_batches ? info.queue_depth : info.queue_depth / 2;
  lanes_[place].early = options_.early_push && info.in_order && info.type == WorkerType::kNextLevel;
  if (info.type == WorkerType::kSub) {
    ++healthy_subs_;
    subs_wanted_ = true;
    dispatch_wanted();
  }
  return LaneId{place};
}

void Engine::lane_lost(LaneId id, Status why) {
  LaneState& state = lanes_[id.value];
  if (state.lost) return;
  state.lost = true;
  state.why = why;
  if (state.info.type == WorkerType::kNextLevel) lane_of_worker_[state.info.worker_id] = kNoSlot;
  if (state.info.type == WorkerType::kSub) --healthy_subs_;
  state.lane->lose(std::move(why));
  while (state.unanswered != 0) {
    const uint32_t taken = take_completions(id.value, lane::kMaxQueueDepth);
    SIMPLER_CHECK(taken != 0, id.value, state.unanswered);
  }
  for (ActiveRun& active : active_) {
    if (active.record != nullptr) doom_undeliverable(active, id.value);
  }
  groups_wanted_ = subs_wanted_ = true;
  dispatch_wanted();
  settle_runs();
}

uint32_t Engine::pump(uint32_t limit) {
  uint32_t handled = 0;
  for (size_t word = 0; word < busy_.size(); ++word) {
    for (uint64_t left = busy_[word]; left != 0 && handled < limit; left &= left - 1) {
      const uint32_t lane = static_cast<uint32_t>(word) * 64 + static_cast<uint32_t>(std::countr_zero(left));
      handled += take_completions(lane, limit - handled);
    }
  }
  if (!doomed_.empty() && handled < limit) handled += settle_doomed(limit - handled);
  if (any_wanted_ || subs_wanted_ || groups_wanted_) dispatch_wanted();
  if (finish_wanted_ != 0) settle_runs();
  return handled;
}

TaskState Engine::state_of(const TaskId& task) const {
  if (task.slot >= slots_.window()) return TaskState::kConsumed;
  const Slot& slot = slots_[task.slot];
  if (slot.generation == task.generation) return slot.state;
  return slots_.has_ended(task.slot, task.generation) && slot.state != TaskState::kFree ? slot.state
                                                                                        : TaskState::kConsumed;
}

Status Engine::check_consistency() const {
  uint32_t tasks = 0;
  uint32_t allocations = 0;
  uint32_t groups = 0;
  for (const ActiveRun& active : active_) {
    if (active.record == nullptr) continue;
    tasks += active.live_tasks;
    allocations += active.live_allocations;
    for (uint32_t index = active.groups.head; index != kNoSlot; index = slots_.details(index).next) {
      ++groups;
    }
  }
  uint32_t unanswered = 0;
  for (const LaneState& state : lanes_) unanswered += state.unanswered;
  if (tasks != slots_.live())
    return internal_error("runs count " + std::to_string(tasks) + " tasks, slots " + std::to_string(slots_.live()));
  if (allocations != live_allocations_) return internal_error("allocations of runs do not add up");
  if (groups != waiting_groups_) return internal_error("waiting groups do not add up");
  if (unanswered != unanswered_) return internal_error("unanswered lines do not add up");
  if (order_.empty() && (slots_.live() != 0 || live_allocations_ != 0 || slots_.chunks_live() != 0 ||
                         groups_.live() != 0 || !doomed_.empty())) {
    return internal_error("something is left although no run is unfinished: slots " + std::to_string(slots_.live()) +
                          " allocations " + std::to_string(live_allocations_) + " chunks " +
                          std::to_string(slots_.chunks_live()) + " groups " + std::to_string(groups_.live()));
  }
  return Status::ok();
}

}  // namespace simpler::engine
