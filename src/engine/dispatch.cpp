// Dispatch: which ready task goes to which lane now.
//
// A task whose lane can take it is pushed at once; otherwise it waits in its run's list for that lane, for groups or
// for SUB children. Only executing runs are served, in their order.
#include <algorithm>
#include <bit>

#include "base/check.h"
#include "engine/engine.h"

namespace simpler::engine {

inline bool Engine::takes(const LaneState& state) const {
  return state.unanswered < state.info.queue_depth && state.lane->alive();
}

bool Engine::idle(uint32_t lane) const {
  const LaneState& state = lanes_[lane];
  return state.unanswered == 0 && state.lane->alive();
}

// A task that no lane can ever run fails here instead of waiting for ever.
bool Engine::refuse_if_undeliverable(uint32_t index, Slot& slot) {
  const auto refuse = [&](uint32_t lane) {
    LaneState& state = lanes_[lane];
    ActiveRun& active = active_[slot.run];
    if (state.reported_run != active.record->id) {
      state.reported_run = active.record->id;
      record_error(active, described(index, state.why));
    }
    doom(index);
    return true;
  };
  if (slot.lane == kAnySub) {
    const uint32_t members =
        (slot.flags & kSlotGroup) == 0 ? 1 : static_cast<uint32_t>(groups_[slots_.details(index).group].members.size());
    if (members <= healthy_subs_) return false;
    const auto lost = std::find_if(subs_.begin(), subs_.end(), [this](uint32_t lane) { return lanes_[lane].lost; });
    SIMPLER_CHECK(lost != subs_.end());
    return refuse(*lost);
  }
  if ((slot.flags & kSlotGroup) == 0) return lanes_[slot.lane].lost && refuse(slot.lane);
  for (const GroupMember& member : groups_[slots_.details(index).group].members) {
    if (lanes_[member.lane].lost) return refuse(member.lane);
  }
  return false;
}

void Engine::make_ready(uint32_t index, Slot& slot) {
  slot.state = TaskState::kReady;
  ActiveRun& active = active_[slot.run];
  if (slot.lane < kGroupLane) {
    LaneState& lane = lanes_[slot.lane];
    if (lane.lost) [[unlikely]] {
      refuse_if_undeliverable(index, slot);
      return;
    }
    LaneQueue& queue = active.lanes[slot.lane];
    const bool first = active.executing && queue.ready.empty() && !reserved(slot.lane);
    if (first && !defers(lane) && takes(lane)) {
      push_single(slot.lane, index, slot);
      return;
    }
    append(queue.ready, index);
    if (first) want(slot.lane);
    return;
  }
  if (refuse_if_undeliverable(index, slot)) return;
  if (slot.lane == kAnySub) {
    append(active.subs, index);
    subs_wanted_ = true;
    return;
  }
  append(active.groups, index);
  ++waiting_groups_;
  groups_wanted_ = true;
}

inline void Engine::push_line(uint32_t lane, uint32_t index, const Slot& slot, wire::Dispatch& dispatch) {
  LaneState& state = lanes_[lane];
  dispatch.callable = slot.callable;
  dispatch.config = slot.config;
  dispatch.slot = index;
  dispatch.slot_generation = slot.generation;
  dispatch.run = static_cast<uint32_t>(active_[slot.run].id);
  dispatch.lease_generation = dispatch.run;
  state.lines[state.pushed % lane::kMaxQueueDepth] = index;
  ++state.pushed;
  if (state.unanswered++ == 0) busy_[lane / 64] |= uint64_t{1} << (lane % 64);
  ++unanswered_;
  ++counters_.pushed;
  state.lane->push_line(wire::compose(dispatch));
}

inline void Engine::note_successor(uint32_t lane, uint32_t bit, uint32_t successor) {
  Slot& slot = slots_[successor];
  if (slot.lane != lane) return;
  ++slot.on_lane;
  slot.after_mask |= bit;
  if (slot.on_lane == slot.pending && slot.state == TaskState::kPending) consider_early(successor, slot);
}

void Engine::note_spilled(uint32_t lane, uint32_t bit, uint32_t chunk) {
  for (; chunk != kNoChunk; chunk = slots_.chunk(chunk).next) {
    for (uint32_t i = 0; i < slots_.chunk(chunk).count; ++i) note_successor(lane, bit, slots_.chunk(chunk).ids[i]);
  }
}

inline void Engine::note_pushed(uint32_t lane, const Slot& slot) {
  const uint32_t bit = 1U << slot.position;
  const uint32_t inline_count = std::min(slot.successor_count, Slot::kInlineSuccessors);
  for (uint32_t i = 0; i < inline_count; ++i) note_successor(lane, bit, slot.successors[i]);
  if (slot.spill != kNoChunk) [[unlikely]]
    note_spilled(lane, bit, slot.spill);
}

void Engine::push_single(uint32_t lane, uint32_t index, Slot& slot) {
  LaneState& state = lanes_[lane];
  wire::Dispatch dispatch;
  if (slot.pending != 0) {
    // The line pushed i + 1 pushes ago sits at ring position pushed - 1 - i; turn the ring so that it becomes bit i.
    uint32_t mask = 0;
    for (uint32_t left = slot.after_mask; left != 0; left &= left - 1) {
      const auto position = static_cast<uint32_t>(std::countr_zero(left));
      mask |= 1U << ((state.pushed - 1 - position) % lane::kMaxQueueDepth);
    }
    dispatch.after_mask = mask;
    ++counters_.pushed_early;
  }
  slot.state = TaskState::kRunning;
  slot.lane = static_cast<uint16_t>(lane);
  slot.position = static_cast<uint8_t>(state.pushed % lane::kMaxQueueDepth);
  dispatch.tensors = slot.tensors;
  dispatch.scalars = slot.scalars;
  if ((slot.flags & kSlotInline) != 0) {
    dispatch.flags = wire::kFlagInlineTensor;
    dispatch.inline_tensor = slots_.details(index).tensor;
  } else if ((slot.flags & kSlotLarge) != 0) {
    dispatch.args = slots_.details(index).args;
  } else if (slot.tensors + slot.scalars != 0) {
    dispatch.args = arena_.slot_block(index);
  }
  push_line(lane, index, slot, dispatch);
  if (state.early && slot.successor_count != 0) note_pushed(lane, slot);
}

void Engine::dispatch_lane(uint32_t lane) {
  if (reserved(lane)) return;
  LaneState& state = lanes_[lane];
  if (state.unanswered > state.refill_from) return;  // its next answers will ask again
  for (const uint8_t place : order_) {
    ActiveRun& active = active_[place];
    if (!active.executing) break;
    LaneQueue& queue = active.lanes[lane];
    while (takes(state)) {
      if (!queue.ready.empty()) {
        const uint32_t index = pop(queue.ready);
        push_single(lane, index, slots_[index]);
      } else if (!queue.early.empty() && !active.cancelled) {
        const uint32_t index = pop(queue.early);
        Slot& slot = slots_[index];
        slot.flags &= static_cast<uint8_t>(~kSlotEarly);
        if ((slot.flags & kSlotPoisoned) == 0) push_single(lane, index, slot);
      } else {
        break;
      }
    }
  }
}

void Engine::dispatch_wanted() {
  if (groups_wanted_) {
    groups_wanted_ = false;
    if (waiting_groups_ != 0 || any_reserved_) dispatch_groups();
  }
  while (any_wanted_) {
    any_wanted_ = false;
    for (size_t word = 0; word < wanted_.size(); ++word) {
      while (wanted_[word] != 0) {
        const auto bit = static_cast<uint32_t>(std::countr_zero(wanted_[word]));
        wanted_[word] &= wanted_[word] - 1;
        dispatch_lane(static_cast<uint32_t>(word) * 64 + bit);
      }
    }
  }
  if (subs_wanted_) {
    subs_wanted_ = false;
    for (const uint8_t place : order_) {
      if (active_[place].executing) dispatch_subs(active_[place]);
    }
  }
}

void Engine::want_lanes(const ActiveRun& active) {
  for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!active.lanes[lane].ready.empty() || !active.lanes[lane].early.empty()) want(lane);
  }
}

// A run begins to execute: everything that waited for that.
void Engine::dispatch_run(ActiveRun& active) {
  groups_wanted_ = subs_wanted_ = true;
  want_lanes(active);
  dispatch_wanted();
}

bool Engine::group_can_start(uint32_t index) const {
  const Group& group = groups_[slots_.details(index).group];
  return std::all_of(group.members.begin(), group.members.end(),
                     [this](const GroupMember& member) { return idle(member.lane); });
}

void Engine::launch_group(uint32_t index, Slot& slot) {
  Group& group = groups_[slots_.details(index).group];
  slot.state = TaskState::kRunning;
  for (size_t i = 0; i < group.members.size(); ++i) {
    GroupMember& member = group.members[i];
    member.state = GroupMemberState::kRunning;
    wire::Dispatch dispatch;
    dispatch.tensors = member.tensors;
    dispatch.scalars = member.scalars;
    dispatch.args = member.args;
    if (i + 1 == group.members.size()) dispatch.flags = wire::kFlagLastOfGroup;
    push_line(member.lane, index, slot, dispatch);
  }
}

// Starts groups from the head; the first of a run that has to wait reserves its lanes against later singles.
void Engine::dispatch_groups() {
  if (any_reserved_) {
    std::fill(reserved_.begin(), reserved_.end(), 0);
    any_reserved_ = false;
    for (const uint8_t place : order_) {
      if (active_[place].executing) want_lanes(active_[place]);
    }
  }
  for (const uint8_t place : order_) {
    if (active_[place].executing) start_groups(active_[place]);
  }
}

void Engine::start_groups(ActiveRun& active) {
  while (!active.groups.empty() && group_can_start(active.groups.head)) {
    const uint32_t index = pop(active.groups);
    --waiting_groups_;
    launch_group(index, slots_[index]);
  }
  if (active.groups.empty()) return;
  if (reservation_head_ != active.groups.head) {
    reservation_head_ = active.groups.head;
    reservation_since_ = 0;
    reservation_warned_ = false;
  }
  const Group& head = groups_[slots_.details(active.groups.head).group];
  for (const GroupMember& member : head.members) reserved_[member.lane / 64] |= uint64_t{1} << (member.lane % 64);
  any_reserved_ = true;
}

// SUB work goes to any idle child, lowest first; a group at the head waits for enough of them and lets nobody pass.
void Engine::dispatch_subs(ActiveRun& active) {
  while (!active.subs.empty()) {
    const uint32_t index = active.subs.head;
    Slot& slot = slots_[index];
    Group* const group = (slot.flags & kSlotGroup) != 0 ? &groups_[slots_.details(index).group] : nullptr;
    const size_t needed = group == nullptr ? 1 : group->members.size();
    member_lanes_.clear();
    for (const uint32_t lane : subs_) {
      if (member_lanes_.size() == needed) break;
      if (idle(lane)) member_lanes_.push_back(static_cast<uint16_t>(lane));
    }
    if (member_lanes_.size() < needed) return;
    remove(active.subs, index);
    if (group == nullptr) {
      push_single(member_lanes_[0], index, slot);
      continue;
    }
    for (size_t i = 0; i < needed; ++i) group->members[i].lane = member_lanes_[i];
    slot.lane = kGroupLane;
    launch_group(index, slot);
  }
}

// A lane is lost: what waits for it alone fails.
void Engine::doom_undeliverable(ActiveRun& active, uint32_t lane) {
  SlotList& ready = active.lanes[lane].ready;
  while (!ready.empty()) {
    const uint32_t index = pop(ready);
    refuse_if_undeliverable(index, slots_[index]);
  }
  for (SlotList* list : {&active.groups, &active.subs}) {
    uint32_t index = list->head;
    while (index != kNoSlot) {
      const uint32_t next = slots_.details(index).next;
      const SlotDetails place = slots_.details(index);
      remove(*list, index);
      if (refuse_if_undeliverable(index, slots_[index])) {
        if (list == &active.groups) --waiting_groups_;
      } else {
        // Not refused: back to where it was.
        SlotDetails& details = slots_.details(index);
        details.prev = place.prev;
        details.next = place.next;
        (place.prev == kNoSlot ? list->head : slots_.details(place.prev).next) = index;
        (place.next == kNoSlot ? list->tail : slots_.details(place.next).prev) = index;
      }
      index = next;
    }
  }
}

}  // namespace simpler::engine
