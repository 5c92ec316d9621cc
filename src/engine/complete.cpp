// Completion: an answered line releases its successors, gives back its storage and makes room for the next push.
#include <algorithm>
#include <string>
#include <utility>

#include "base/check.h"
#include "engine/engine.h"

namespace simpler::engine {
namespace {

// The child's place in the tree, as messages name it.
std::string path_of(const lane::LaneInfo& info) {
  return (info.type == WorkerType::kSub ? "L3/sub_worker " : "L3/chip ") + std::to_string(info.worker_id);
}

}  // namespace

inline void Engine::release_successor(uint32_t index, const Slot& producer, uint32_t bit, bool success) {
  Slot& slot = slots_[index];
  --slot.pending;
  if (!success) slot.flags |= kSlotPoisoned;
  if (slot.state != TaskState::kPending) return;  // pushed early: the child knows the order and the outcome
  if (bit != 0 && slot.lane == producer.lane) {
    --slot.on_lane;
    slot.after_mask &= ~bit;
  }
  if (slot.pending != 0) {
    if (slot.on_lane == slot.pending) consider_early(index, slot);
    return;
  }
  ActiveRun& active = active_[slot.run];
  if ((slot.flags & kSlotEarly) != 0) {
    slot.flags &= static_cast<uint8_t>(~kSlotEarly);
    remove(active.lanes[slot.lane].early, index);
  }
  if ((slot.flags & kSlotPoisoned) != 0 || active.cancelled) {
    doom(index);
  } else {
    make_ready(index, slot);
  }
}

void Engine::release_retained(uint32_t index) {
  for (uint32_t chunk = slots_.details(index).retains; chunk != kNoChunk;) {
    const uint32_t next = slots_.chunk(chunk).next;
    for (uint32_t i = 0; i < slots_.chunk(chunk).count; ++i) {
      const uint32_t producer = slots_.chunk(chunk).ids[i];
      Slot& kept = slots_[producer];
      if (--slots_.details(producer).retained_by == 0 && slots_.is_terminal(producer)) consume(producer, kept);
    }
    slots_.free_chunk(chunk);
    chunk = next;
  }
}

std::span<const wire::TensorRef> Engine::tensors_at(uint32_t place, uint32_t count) const {
  return {reinterpret_cast<const wire::TensorRef*>(arena_.at(place)), count};
}

// Lets go of what the arguments name and of the blocks that hold them.
void Engine::consume_arguments(uint32_t index, Slot& slot) {
  const SlotDetails& details = slots_.details(index);
  const bool pins = (slot.flags & kSlotPins) != 0;
  if ((slot.flags & kSlotGroup) != 0) {
    for (const GroupMember& member : groups_[details.group].members) {
      if (pins && member.tensors != 0) release_pins(tensors_at(member.args, member.tensors));
      if (member.args != 0) arena_.free(member.args, member.tensors * 24U + member.scalars * 8U);
    }
    groups_.put_back(details.group);
    return;
  }
  if ((slot.flags & kSlotInline) != 0) {
    if (pins) release_pins({&details.tensor, 1});
    return;
  }
  const uint32_t place = (slot.flags & kSlotLarge) != 0 ? details.args : arena_.slot_block(index);
  if (pins) release_pins(tensors_at(place, slot.tensors));
  if ((slot.flags & kSlotLarge) != 0) arena_.free(place, slot.tensors * 24U + slot.scalars * 8U);
}

inline void Engine::consume(uint32_t index, Slot& slot) {
  if ((slot.flags & (kSlotPins | kSlotGroup | kSlotLarge)) != 0) consume_arguments(index, slot);
  if (slot.timed) --timed_tasks_;
  slot.state = TaskState::kFree;
  slots_.put_back(index);
  ActiveRun& active = active_[slot.run];
  if (--active.live_tasks == 0) want_finish(active);
}

// Part of every completion; the compiler takes it for too large to be copied into the loop that it is for.
[[gnu::always_inline]] inline void Engine::end_task(uint32_t index, Slot& slot, bool success) {
  // Which ring position the successors counted, if any.
  const bool was_pushed = slot.state == TaskState::kRunning && slot.lane < kGroupLane && lanes_[slot.lane].early;
  const uint32_t bit = was_pushed ? 1U << slot.position : 0;
  slot.state = success ? TaskState::kCompleted : TaskState::kFailed;
  slots_.end(slot);
  success ? ++counters_.completed : ++counters_.failed;
  const uint32_t inline_count = std::min(slot.successor_count, Slot::kInlineSuccessors);
  for (uint32_t i = 0; i < inline_count; ++i) release_successor(slot.successors[i], slot, bit, success);
  for (uint32_t chunk = slot.spill; chunk != kNoChunk;) {
    const uint32_t next = slots_.chunk(chunk).next;
    for (uint32_t i = 0; i < slots_.chunk(chunk).count; ++i) {
      release_successor(slots_.chunk(chunk).ids[i], slot, bit, success);
    }
    slots_.free_chunk(chunk);
    chunk = next;
  }
  if ((slot.flags & kSlotRetains) != 0) release_retained(index);
  if ((slot.flags & kSlotRetained) == 0 || slots_.details(index).retained_by == 0) consume(index, slot);
}

void Engine::finish(uint32_t index, Slot& slot, bool success) {
  end_task(index, slot, success);
}

void Engine::complete_member(uint32_t lane, uint32_t index, Slot& slot, lane::Outcome outcome) {
  Group& group = groups_[slots_.details(index).group];
  for (GroupMember& member : group.members) {
    if (member.lane != lane || member.state != GroupMemberState::kRunning) continue;
    member.state = outcome == lane::Outcome::kSuccess   ? GroupMemberState::kSuccess
                   : outcome == lane::Outcome::kSkipped ? GroupMemberState::kSkipped
                                                        : GroupMemberState::kFailed;
    break;
  }
  group.failed = group.failed || outcome != lane::Outcome::kSuccess;
  if (--group.unfinished == 0) finish(index, slot, !group.failed);
}

inline void Engine::complete_line(uint32_t lane, const lane::Completion& completion) {
  LaneState& state = lanes_[lane];
  const uint32_t index = completion.slot;
  SIMPLER_CHECK(state.unanswered > 0 &&
                    state.lines[(state.pushed - state.unanswered) % lane::kMaxQueueDepth] == index &&
                    slots_[index].generation == completion.slot_generation,
                lane, index, completion.slot_generation);
  state.watching = false;
  --unanswered_;
  if (--state.unanswered == 0) {
    busy_[lane / 64] &= ~(uint64_t{1} << (lane % 64));
    groups_wanted_ = groups_wanted_ || waiting_groups_ != 0;
    if (state.info.type == WorkerType::kSub) subs_wanted_ = true;
  }
  Slot& slot = slots_[index];
  const bool success = completion.outcome == lane::Outcome::kSuccess;
  if (!success && completion.outcome != lane::Outcome::kSkipped) {
    Status why = state.lane->take_failure(completion);
    if (why.worker_path().empty()) why = std::move(why).with_worker_path(path_of(state.info));
    record_error(active_[slot.run], described(index, std::move(why)));
  }
  if ((slot.flags & kSlotGroup) == 0) [[likely]] {
    end_task(index, slot, success);
  } else {
    complete_member(lane, index, slot, completion.outcome);
  }
}

uint32_t Engine::take_completions(uint32_t lane, uint32_t limit) {
  const uint32_t count = lanes_[lane].lane->poll({answered_.data(), std::min<uint32_t>(limit, lane::kMaxQueueDepth)});
  for (uint32_t i = 0; i < count; ++i) complete_line(lane, answered_[i]);
  if (count != 0) {
    if (has_waiting(lane)) want(lane);
  } else if (LaneState& state = lanes_[lane]; !state.lane->alive() && !state.lost && !state.condemned) [[unlikely]] {
    state.condemned = true;
    news_.tell(news_.condemned, {LaneId{lane}, state.lane->health()});
  }
  return count;
}

}  // namespace simpler::engine
