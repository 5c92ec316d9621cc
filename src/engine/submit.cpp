// Submit: every check, then the slot, its arguments and its edges. A refused submit leaves no trace.
#include <algorithm>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/engine.h"

namespace simpler::engine {

namespace {

// What the checks learnt about a member's tensors.
enum Traits : uint32_t {
  kHasMixed = graph::EntryFlags::kEntryMixed,  // several views of one buffer may overlap: compare them in pairs
  kHasPinned = graph::EntryFlags::kEntryPinned,
  kHasNoDep = 4,
};

uint64_t block_bytes(const MemberArgs& member) {
  return member.tensors.size() * sizeof(wire::TensorRef) + member.scalars.size() * sizeof(uint64_t);
}

void write_block(std::byte* block, const MemberArgs& member) {
  auto* out = reinterpret_cast<wire::TensorRef*>(block);
  for (const wire::TensorRef& tensor : member.tensors) *out++ = tensor;
  auto* scalars = reinterpret_cast<uint64_t*>(out);
  for (const uint64_t scalar : member.scalars) *scalars++ = scalar;
}

bool fits_inline(const MemberArgs& member) {
  return member.tensors.size() == 1 && member.scalars.empty();
}

Status member_prefix(Status status, const TaskRequest& request, size_t member) {
  if (status.is_ok() || request.members.size() == 1) return status;
  return std::move(status).context("member " + std::to_string(member));
}

}  // namespace

Status Engine::check_run(const RunRef& run) const {
  if (building_ == nullptr || building_->record != run.record || run.record->id != run.id) {
    return failed_precondition("run " + std::to_string(run.id) + " is not being built");
  }
  if (building_->failed) return run.record->errors.front();
  return Status::ok();
}

Status Engine::check_member(const TaskRequest& request, const MemberArgs& member, uint16_t* lane) const {
  if (member.tags.size() != member.tensors.size()) {
    return invalid_argument(std::to_string(member.tensors.size()) + " tensors with " +
                            std::to_string(member.tags.size()) + " tags");
  }
  const uint64_t bytes = block_bytes(member);
  if (bytes > memory::kMaxArgsBytes) {
    return invalid_argument(std::to_string(member.tensors.size()) + " tensors and " +
                            std::to_string(member.scalars.size()) + " scalars take " + std::to_string(bytes) +
                            " bytes; a task has room for " + std::to_string(memory::kMaxArgsBytes));
  }
  if (request.type == WorkerType::kSub) {
    *lane = kAnySub;
    if (request.members.size() <= healthy_subs_) return Status::ok();
    if (subs_.empty()) return failed_precondition("a SUB task needs SUB children and there are none");
    if (healthy_subs_ == 0) return lanes_[subs_.front()].why;
    return invalid_argument("a SUB group of " + std::to_string(request.members.size()) + " members and " +
                            std::to_string(healthy_subs_) + " SUB children");
  }
  const uint32_t at = member.worker < lane_of_worker_.size() ? lane_of_worker_[member.worker] : kNoSlot;
  if (at == kNoSlot) return invalid_argument("no child with worker id " + std::to_string(member.worker));
  if (lanes_[at].lost) return lanes_[at].why;
  *lane = static_cast<uint16_t>(at);
  return Status::ok();
}

Status Engine::check_dependencies(const RunRef& run, const TaskRequest& request) const {
  for (const Dependency& dependency : request.dependencies) {
    if (dependency.producer.run != run.id) {
      return invalid_argument("a dependency on a task of run " + std::to_string(dependency.producer.run) + " in run " +
                              std::to_string(run.id) + ": only tasks of the same run can be waited for");
    }
    if (dependency.producer.slot >= slots_.window()) return invalid_argument("a dependency that names no task");
  }
  return Status::ok();
}

inline Status Engine::check_tensors(const MemberArgs& member, graph::Entry** entries, uint32_t* traits) {
  const uint32_t mark = (++member_mark_) << 1;
  const size_t count = member.tensors.size();
  for (size_t i = 0; i < count; ++i) {
    const TensorArgType tag = member.tags[i];
    if (static_cast<uint8_t>(tag) >= static_cast<uint8_t>(TensorArgType::kNoDep)) [[unlikely]] {
      if (!is_known(tag)) return invalid_argument("tensor " + std::to_string(i) + " has an unknown tag");
      SIMPLER_RETURN_IF_ERROR(map_.check(member.tensors[i]));
      *traits |= kHasNoDep;
      entries[i] = nullptr;
      continue;
    }
    Status why;
    graph::Entry* entry = map_.find(member.tensors[i], &why);
    entries[i] = entry;
    if (entry == nullptr) [[unlikely]] {
      if (!why.is_ok()) return std::move(why).context("tensor " + std::to_string(i));
      continue;
    }
    const graph::TagRule& rule = graph::rule_of(tag);
    if ((rule.needs & ~entry->access) != 0) [[unlikely]] {
      return invalid_argument("tensor " + std::to_string(i) + " is tagged " + std::string(simpler::name_of(tag)) +
                              " but its buffer does not grant that access");
    }
    const uint32_t writes = rule.writes ? 1 : 0;
    if (((entry->mark ^ mark) & ~1U) == 0) [[unlikely]] {
      if (((entry->mark | writes) & 1) != 0) return overlap_error(member, i);
      continue;
    }
    entry->mark = mark | writes;
    *traits |= entry->flags;
  }
  return Status::ok();
}

Status Engine::overlap_error(const MemberArgs& member, size_t at) const {
  for (size_t i = 0; i < member.tensors.size(); ++i) {
    if (i != at && map_.may_overlap(member.tensors[i], member.tensors[at])) {
      return invalid_argument("tensors " + std::to_string(std::min(i, at)) + " and " + std::to_string(std::max(i, at)) +
                              " of one task overlap and one of them is written");
    }
  }
  return internal_error("a view overlaps itself");
}

Status Engine::check_overlaps(const MemberArgs& member) const {
  for (size_t i = 0; i < member.tensors.size(); ++i) {
    if (!writes(member.tags[i])) continue;
    for (size_t k = 0; k < member.tensors.size(); ++k) {
      if (k != i && map_.may_overlap(member.tensors[i], member.tensors[k])) return overlap_error(member, i);
    }
  }
  return Status::ok();
}

void Engine::spill_successor(uint32_t producer, uint32_t consumer) {
  Slot& from = slots_[producer];
  SlotDetails& details = slots_.details(producer);
  if (from.spill == kNoChunk || slots_.chunk(details.spill_tail).count == IdChunk::kIds) {
    const uint32_t fresh = slots_.take_chunk();
    (from.spill == kNoChunk ? from.spill : slots_.chunk(details.spill_tail).next) = fresh;
    details.spill_tail = fresh;
  }
  IdChunk& chunk = slots_.chunk(details.spill_tail);
  chunk.ids[chunk.count++] = consumer;
}

inline void Engine::add_edge(graph::TaskRef producer, uint32_t index, Slot& slot, graph::TaskRef self) {
  const uint32_t from_index = slots_.index_of(producer);
  Slot& from = slots_[from_index];
  if (!slots_.unfinished(producer) || from.mark == self) return;  // a task carries its own mark: no self-edge
  from.mark = self;
  ++slot.pending;
  const uint32_t count = from.successor_count++;
  if (count < Slot::kInlineSuccessors) [[likely]] {
    from.successors[count] = index;
  } else {
    spill_successor(from_index, index);
  }
  if (from.state == TaskState::kRunning && from.lane == slot.lane && slot.lane < kGroupLane && lanes_[slot.lane].early)
      [[unlikely]] {
    ++slot.on_lane;
    slot.after_mask |= 1U << from.position;
  }
}

inline void Engine::link_tensors(const MemberArgs& member, graph::Entry* const* entries, uint32_t index, Slot& slot,
                                 graph::TaskRef self) {
  const auto edge = [&](graph::TaskRef producer) { add_edge(producer, index, slot, self); };
  const size_t count = member.tensors.size();
  for (size_t i = 0; i < count; ++i) {
    if (entries[i] == nullptr) continue;
    const graph::TagRule& rule = graph::rule_of(member.tags[i]);
    if (rule.writes) {
      map_.write(*entries[i], self, options_.inference, rule.waits_for_writer, edge);
    } else {
      map_.read(*entries[i], self, options_.inference, edge);
    }
  }
}

void Engine::retain(uint32_t producer, uint32_t index, Slot& slot) {
  Slot& from = slots_[producer];
  SlotDetails& kept = slots_.details(producer);
  if ((from.flags & kSlotRetained) == 0) {
    from.flags |= kSlotRetained;
    kept.retained_by = 0;
  }
  ++kept.retained_by;
  SlotDetails& details = slots_.details(index);
  if ((slot.flags & kSlotRetains) == 0) {
    slot.flags |= kSlotRetains;
    details.retains = kNoChunk;
  }
  if (details.retains == kNoChunk || slots_.chunk(details.retains).count == IdChunk::kIds) {
    const uint32_t fresh = slots_.take_chunk();
    slots_.chunk(fresh).next = details.retains;
    details.retains = fresh;
  }
  IdChunk& chunk = slots_.chunk(details.retains);
  chunk.ids[chunk.count++] = producer;
}

void Engine::add_explicit(const TaskRequest& request, uint32_t index, Slot& slot, graph::TaskRef self) {
  for (const Dependency& dependency : request.dependencies) {
    const uint32_t producer = dependency.producer.slot;
    const Slot& from = slots_[producer];
    if (producer == index) continue;
    const bool unfinished = from.generation == dependency.producer.generation;
    const bool terminal = from.generation == dependency.producer.generation + 1 && from.state == TaskState::kCompleted;
    if (dependency.retain && (unfinished || terminal)) retain(producer, index, slot);
    if (unfinished) add_edge(slots_.ref(producer), index, slot, self);
  }
}

void Engine::note_named_buffers(ActiveRun& active) {
  const auto& named = map_.buffers_named();
  for (; named_seen_ < named.size(); ++named_seen_) {
    if (tables_.name_buffer(named[named_seen_].index, active.record->id)) {
      active.named_buffers.push_back(named[named_seen_].index);
    }
  }
}

inline Slot& Engine::open_slot(ActiveRun& active, const TaskRequest& request, uint32_t* index) {
  *index = slots_.take();
  Slot& slot = slots_[*index];
  slot.pending = 0;
  slot.successor_count = 0;
  slot.spill = kNoChunk;
  slot.after_mask = 0;
  slot.callable = request.callable;
  slot.config = request.config;
  slot.run = active.record->active;
  slot.state = TaskState::kBuilding;
  slot.on_lane = 0;
  slot.flags = 0;
  slot.position = 0;
  slot.timed = false;
  slot.mark = slots_.ref(*index);
  if (request.timeout > 0) {
    slot.timed = true;
    slots_.details(*index).timeout_ms = static_cast<uint32_t>(
        std::min<Nanos>((request.timeout + kMillisecond - 1) / kMillisecond, std::numeric_limits<uint32_t>::max()));
    ++timed_tasks_;
  }
  ++active.live_tasks;
  active.submitted = true;
  ++counters_.submitted;
  return slot;
}

inline void Engine::publish(ActiveRun& active, uint32_t index, Slot& slot) {
  if (map_.buffers_named().size() != named_seen_) note_named_buffers(active);
  if (slot.pending == 0) {
    make_ready(index, slot);
    if (any_wanted_ || subs_wanted_ || groups_wanted_) dispatch_wanted();
    return;
  }
  slot.state = TaskState::kPending;
  if (slot.on_lane == slot.pending) [[unlikely]] {
    consider_early(index, slot);
    if (any_wanted_) dispatch_wanted();
  }
}

Status Engine::submit(const RunRef& run, const TaskRequest& request, TaskId* task) {
  ActiveRun* const active = building_;
  if (active == nullptr || active->record != run.record || run.record->id != run.id || active->failed) [[unlikely]] {
    return check_run(run);
  }
  if (request.members.size() != 1) [[unlikely]]
    return submit_group(run, *active, request, task);
  const MemberArgs& member = request.members[0];
  uint16_t lane = 0;
  SIMPLER_RETURN_IF_ERROR(check_member(request, member, &lane));
  if (!request.dependencies.empty()) SIMPLER_RETURN_IF_ERROR(check_dependencies(run, request));
  const auto count = static_cast<uint32_t>(member.tensors.size());
  map_.make_room(count);
  if (entries_.size() < count) entries_.resize(count);
  graph::Entry** const entries = entries_.data();
  uint32_t traits = 0;
  SIMPLER_RETURN_IF_ERROR(check_tensors(member, entries, &traits));
  if ((traits & (kHasMixed | kHasNoDep)) != 0) [[unlikely]]
    SIMPLER_RETURN_IF_ERROR(check_overlaps(member));

  if (slots_.full()) [[unlikely]]
    return would_block("all slots of the window are taken");
  const uint64_t bytes = block_bytes(member);
  const bool is_inline = fits_inline(member);
  uint32_t large = 0;
  if (bytes > memory::kSlotBlockBytes) [[unlikely]] {
    large = arena_.alloc(static_cast<uint32_t>(bytes));
    if (large == 0) return arena_.why_exhausted();
  }
  uint32_t index = 0;
  Slot& slot = open_slot(*active, request, &index);
  slot.lane = lane;
  slot.tensors = static_cast<uint16_t>(count);
  slot.scalars = static_cast<uint16_t>(member.scalars.size());
  if (is_inline) {
    slot.flags = kSlotInline;
    slots_.details(index).tensor = member.tensors[0];
  } else if (large != 0) [[unlikely]] {
    slot.flags = kSlotLarge;
    slots_.details(index).args = large;
    write_block(arena_.at(large), member);
  } else if (bytes != 0) {
    write_block(arena_.at(arena_.slot_block(index)), member);
  }
  const graph::TaskRef self = slot.mark;
  link_tensors(member, entries, index, slot, self);
  if (!request.dependencies.empty()) [[unlikely]]
    add_explicit(request, index, slot, self);
  if ((traits & (kHasPinned | kHasNoDep)) != 0) [[unlikely]] {
    slot.flags |= kSlotPins;
    pin_tensors(member.tensors);
  }
  counters_.edges += slot.pending;
  *task = {run.id, index, slot.generation};
  publish(*active, index, slot);
  return Status::ok();
}

Status Engine::check_group(const RunRef& run, const TaskRequest& request, uint32_t* traits) {
  const size_t members = request.members.size();
  if (members == 0) return invalid_argument("a task without members");
  member_lanes_.assign(members, 0);
  size_t tensors = 0;
  for (size_t i = 0; i < members; ++i) {
    SIMPLER_RETURN_IF_ERROR(member_prefix(check_member(request, request.members[i], &member_lanes_[i]), request, i));
    tensors += request.members[i].tensors.size();
    for (size_t k = 0; k < i && request.type == WorkerType::kNextLevel; ++k) {
      if (member_lanes_[k] == member_lanes_[i]) {
        return invalid_argument("members " + std::to_string(k) + " and " + std::to_string(i) +
                                " of a group name worker " + std::to_string(request.members[i].worker) + " twice");
      }
    }
  }
  SIMPLER_RETURN_IF_ERROR(check_dependencies(run, request));
  map_.make_room(static_cast<uint32_t>(tensors));
  if (entries_.size() < tensors) entries_.resize(tensors);
  size_t first = 0;
  for (size_t i = 0; i < members; ++i) {
    uint32_t member_traits = 0;
    SIMPLER_RETURN_IF_ERROR(
        member_prefix(check_tensors(request.members[i], entries_.data() + first, &member_traits), request, i));
    if ((member_traits & (kHasMixed | kHasNoDep)) != 0) {
      SIMPLER_RETURN_IF_ERROR(member_prefix(check_overlaps(request.members[i]), request, i));
    }
    *traits |= member_traits;
    first += request.members[i].tensors.size();
  }
  return Status::ok();
}

Status Engine::submit_group(const RunRef& run, ActiveRun& active, const TaskRequest& request, TaskId* task) {
  uint32_t traits = 0;
  SIMPLER_RETURN_IF_ERROR(check_group(run, request, &traits));
  if (slots_.full()) return would_block("all slots of the window are taken");
  const auto members = static_cast<uint32_t>(request.members.size());
  const uint32_t group_index = groups_.take(members);
  Group& group = groups_[group_index];
  for (uint32_t i = 0; i < members; ++i) {
    const auto bytes = static_cast<uint32_t>(block_bytes(request.members[i]));
    GroupMember& member = group.members[i];
    member = {0, static_cast<uint16_t>(request.members[i].tensors.size()),
              static_cast<uint16_t>(request.members[i].scalars.size()), member_lanes_[i],
              GroupMemberState::kNotDispatched};
    if (bytes == 0) continue;
    // Every block of a group is the arena's: the slot's own one serves single tasks only.
    member.args = arena_.alloc(bytes);
    if (member.args == 0) {
      Status why = arena_.why_exhausted();
      for (uint32_t k = 0; k < i; ++k) {
        if (group.members[k].args != 0) {
          arena_.free(group.members[k].args, static_cast<uint32_t>(block_bytes(request.members[k])));
        }
      }
      groups_.put_back(group_index);
      return why;
    }
    write_block(arena_.at(member.args), request.members[i]);
  }
  uint32_t index = 0;
  Slot& slot = open_slot(active, request, &index);
  slot.lane = request.type == WorkerType::kSub ? kAnySub : kGroupLane;
  slot.flags = kSlotGroup;
  slot.tensors = slot.scalars = 0;
  slots_.details(index).group = group_index;
  size_t first = 0;
  for (const MemberArgs& member : request.members) {
    link_tensors(member, entries_.data() + first, index, slot, slots_.ref(index));
    first += member.tensors.size();
  }
  add_explicit(request, index, slot, slots_.ref(index));
  if ((traits & (kHasPinned | kHasNoDep)) != 0) {
    slot.flags |= kSlotPins;
    for (const MemberArgs& member : request.members) pin_tensors(member.tensors);
  }
  counters_.edges += slot.pending;
  *task = {run.id, index, slot.generation};
  publish(active, index, slot);
  return Status::ok();
}

}  // namespace simpler::engine
