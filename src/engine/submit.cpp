// Submit: every check, then the slot, its arguments and its edges. A refused submit leaves no trace.
#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/check.h"
#include "base/status_macros.h"
#include "engine/engine.h"

namespace simpler::engine {

namespace {

// An entry and what its argument does to it, in one word: entries lie on 64-byte lines.
graph::Entry* entry_of(EntryWord word) {
  return reinterpret_cast<graph::Entry*>(word & ~uint64_t{63});
}
EntryWord word_of(graph::Entry* entry, uint32_t rule) {
  return reinterpret_cast<EntryWord>(entry) | (rule & (graph::kWrites | graph::kWaitsForWriter));
}

// A copy beside the code that reads it in a loop.
constexpr uint8_t kRules[4] = {graph::kTagRules[0], graph::kTagRules[1], graph::kTagRules[2], graph::kTagRules[3]};

uint64_t block_bytes(const MemberArgs& member) {
  return member.tensors.size() * sizeof(wire::TensorRef) + member.scalars.size() * sizeof(uint64_t);
}

void write_block(std::byte* block, const MemberArgs& member) {
  const size_t bytes = member.tensors.size_bytes();
  if (bytes != 0) std::memcpy(block, member.tensors.data(), bytes);
  auto* scalars = reinterpret_cast<uint64_t*>(block + bytes);
  const size_t count = member.scalars.size();
  for (size_t i = 0; i < count; ++i) scalars[i] = member.scalars[i];
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

// Why a child that was lost earlier takes no more work.
Status Engine::gone(const LaneState& state) {
  Status why = state.why;
  return std::move(why).context("this child takes no more work until the worker is made anew");
}

std::string Engine::worker_ids() const {
  uint32_t chips = 0;
  for (const LaneState& state : lanes_) chips += state.info.type == WorkerType::kNextLevel ? 1 : 0;
  if (chips == 0) return "this node has no chip";
  return "this node has " + std::to_string(chips) + (chips == 1 ? " chip" : " chips") + ", numbered from 0";
}

Status Engine::check_member(const TaskRequest& request, const MemberArgs& member, uint32_t* lane) const {
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
    if (healthy_subs_ == 0) return gone(lanes_[subs_.front()]);
    return invalid_argument("a SUB group of " + std::to_string(request.members.size()) + " members and " +
                            std::to_string(healthy_subs_) + " SUB children");
  }
  const uint32_t at = member.worker < lane_of_worker_.size() ? lane_of_worker_[member.worker] : kNoSlot;
  if (at == kNoSlot) {
    for (const LaneState& state : lanes_) {
      if (state.lost && state.info.type == request.type && state.info.worker_id == member.worker) return gone(state);
    }
    return invalid_argument("worker=" + std::to_string(member.worker) + ": " + worker_ids());
  }
  *lane = at;
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

// One tensor that is not in the common case: a new view, no view at all, or a mistake.
Status Engine::check_tensor(const MemberArgs& member, size_t at, uint32_t mark, EntryWord* entry, uint32_t* traits) {
  const TensorArgType tag = member.tags[at];
  *entry = 0;
  if (static_cast<uint8_t>(tag) >= static_cast<uint8_t>(TensorArgType::kNoDep)) {
    if (!is_known(tag)) return invalid_argument("tensor " + std::to_string(at) + " has an unknown tag");
    *traits |= kTraitNoDep | kTraitNothing;
    return map_.check(member.tensors[at]);
  }
  Status why;
  graph::Entry* const found = map_.find(member.tensors[at], &why);
  if (found == nullptr) {
    *traits |= kTraitNothing;
    return why.is_ok() ? Status::ok() : std::move(why).context("tensor " + std::to_string(at));
  }
  const uint32_t rule = graph::kTagRules[static_cast<uint8_t>(tag)];
  if ((rule & found->denies) != 0) {
    return invalid_argument("tensor " + std::to_string(at) + " is tagged " + std::string(simpler::name_of(tag)) +
                            " but its buffer does not grant that access");
  }
  const uint32_t writes = rule & graph::kWrites;
  if ((found->mark ^ mark) < 2 && ((found->mark | writes) & 1) != 0) return overlap_error(member, at);
  found->mark = mark | writes;
  *traits |= found->flags;
  *entry = word_of(found, rule);
  return Status::ok();
}

// The tensors from `first` on, one of which is not in the common case. New slices come first: every view is new once
// in each run.
Status Engine::check_rest(const MemberArgs& member, size_t first, EntryWord* entries, uint32_t* traits) {
  const uint32_t mark = member_mark_;
  size_t i = first;
  for (; i < member.tensors.size(); ++i) {
    const auto tag = static_cast<uint32_t>(member.tags[i]);
    graph::Entry* const entry = tag < 4 ? map_.find_slice(member.tensors[i]) : nullptr;
    if (entry == nullptr) break;
    const uint32_t rule = kRules[tag];
    if ((rule & entry->denies) != 0 || (entry->mark ^ mark) < 2) break;
    entry->mark = mark | (rule & graph::kWrites);
    *traits |= entry->flags;
    entries[i] = word_of(entry, rule);
  }
  for (; i < member.tensors.size(); ++i) {
    SIMPLER_RETURN_IF_ERROR(check_tensor(member, i, member_mark_, &entries[i], traits));
  }
  return Status::ok();
}

// Views that are known, whose access is granted and that no other tensor of the member names: how many come first, and
// what they have in common. Nothing in this loop makes a call, so that everything stays in registers.
inline size_t Engine::check_known(const MemberArgs& member, EntryWord* entries, uint32_t* traits) {
  const uint32_t mark = member_mark_ += 2;
  const auto prober = map_.prober();
  const wire::TensorRef* const tensors = member.tensors.data();
  const TensorArgType* const tags = member.tags.data();
  const size_t count = member.tensors.size();
  uint32_t all = always_;
  size_t i = 0;
  for (; i < count; ++i) {
    const auto tag = static_cast<uint32_t>(tags[i]);
    graph::Entry* const entry = prober.known(tensors[i]);
    if (entry == nullptr || tag >= 4) [[unlikely]]
      break;
    const uint32_t rule = kRules[tag];
    if ((rule & entry->denies) != 0 || (entry->mark ^ mark) < 2) [[unlikely]]
      break;
    entry->mark = mark | (rule & graph::kWrites);
    all |= entry->flags;
    entries[i] = word_of(entry, rule);
  }
  *traits = all;
  return i;
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
  if (from.mark == self || from.generation != producer) return;  // a task carries its own mark: no self-edge
  from.mark = self;
  ++slot.pending;
  const uint32_t count = from.successor_count++;
  if (count < Slot::kInlineSuccessors) [[likely]] {
    from.successors[count] = index;
  } else {
    spill_successor(from_index, index);
  }
  if (from.state == TaskState::kRunning) [[unlikely]]
    count_running(from, slot);
}

// The producer is pushed already: perhaps on the lane that this task will go to.
void Engine::count_running(const Slot& from, Slot& slot) {
  if (from.lane != slot.lane || slot.lane >= kGroupLane || !lanes_[slot.lane].early) return;
  ++slot.on_lane;
  slot.after_mask |= 1U << from.position;
}

template <graph::Inference kInference, bool kCommon>
inline void Engine::link_with(const EntryWord* entries, size_t count, uint32_t index, Slot& slot, graph::TaskRef self) {
  const auto edge = [&](graph::TaskRef producer) { add_edge(producer, index, slot, self); };
  for (size_t i = 0; i < count; ++i) {
    const EntryWord word = entries[i];
    if (!kCommon && word == 0) continue;
    graph::Entry& entry = *entry_of(word);
    if ((word & graph::kWrites) == 0) {
      map_.read<kInference, !kCommon>(entry, self, edge);
    } else {
      map_.write<kInference, !kCommon>(entry, self, (word & graph::kWaitsForWriter) != 0, edge);
    }
  }
}

void Engine::link_unusual(const EntryWord* entries, size_t count, uint32_t index, Slot& slot, graph::TaskRef self) {
  if (options_.inference == graph::Inference::kFull) {
    link_with<graph::Inference::kFull, false>(entries, count, index, slot, self);
  } else {
    link_with<graph::Inference::kWritersOnly, false>(entries, count, index, slot, self);
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
    const bool terminal =
        slots_.has_ended(producer, dependency.producer.generation) && from.state == TaskState::kCompleted;
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
  slot.mark = slot.generation;
  slot.successor_count = 0;
  slot.spill = kNoChunk;
  slot.after_mask = 0;
  slot.callable = request.callable;
  slot.config = request.config;
  slot.run = active.place;
  slot.state = TaskState::kBuilding;
  slot.on_lane = 0;
  slot.flags = 0;
  slot.position = 0;
  slot.timed = false;
  if (request.timeout > 0) [[unlikely]]
    set_timeout(*index, slot, request.timeout);
  ++active.live_tasks;
  ++counters_.submitted;
  return slot;
}

void Engine::set_timeout(uint32_t index, Slot& slot, Nanos timeout) {
  slot.timed = true;
  slots_.details(index).timeout_ms = static_cast<uint32_t>(
      std::min<Nanos>((timeout + kMillisecond - 1) / kMillisecond, std::numeric_limits<uint32_t>::max()));
  ++timed_tasks_;
}

inline void Engine::publish(uint32_t index, Slot& slot) {
  if (slot.pending == 0) {
    make_ready(index, slot);
    if (subs_wanted_ || groups_wanted_) [[unlikely]]
      dispatch_wanted();
  } else {
    slot.state = TaskState::kPending;
    if (slot.on_lane == slot.pending) [[unlikely]] {
      consider_early(index, slot);
      if (!defers(lanes_[slot.lane])) dispatch_wanted();
    }
  }
}

Status Engine::submit(const RunRef& run, const TaskRequest& request, TaskId* task) {
  if (run.id != open_run_) [[unlikely]]
    return check_run(run);
  ActiveRun& active = *building_;
  if (request.members.size() != 1) [[unlikely]]
    return submit_group(run, active, request, task);
  const MemberArgs& member = request.members[0];
  const size_t count = member.tensors.size();
  const uint64_t bytes = block_bytes(member);
  uint32_t lane = kNoSlot;
  if (request.type == WorkerType::kNextLevel && member.worker < lane_of_worker_.size()) {
    lane = lane_of_worker_[member.worker];
  }
  if (lane == kNoSlot || count != member.tags.size() || bytes > memory::kSlotBlockBytes) [[unlikely]] {
    uint32_t found = kNoSlot;
    SIMPLER_RETURN_IF_ERROR(check_member(request, member, &found));
    lane = found;
    if (entries_.size() < count) entries_.resize(count);
  }
  map_.make_room(static_cast<uint32_t>(count));
  EntryWord* const entries = entries_.data();
  uint32_t traits = 0;
  if (const size_t known = check_known(member, entries, &traits); known != count) [[unlikely]] {
    uint32_t more = traits;
    Status status = check_rest(member, known, entries, &more);
    note_named_buffers(active);  // of a refused submit too: the map knows its views, and nobody looks at them again
    if (!status.is_ok()) return status;
    traits = more;
  }
  if (!request.dependencies.empty()) traits |= kTraitDependencies;
  if ((traits & (kTraitMixed | kTraitNoDep | kTraitDependencies)) != 0) [[unlikely]] {
    SIMPLER_RETURN_IF_ERROR(check_dependencies(run, request));
    if ((traits & (kTraitMixed | kTraitNoDep)) != 0) SIMPLER_RETURN_IF_ERROR(check_overlaps(member));
  }
  if (slots_.full()) [[unlikely]]
    return would_block("all slots of the window are taken");
  uint32_t large = 0;
  if (bytes > memory::kSlotBlockBytes) [[unlikely]] {
    large = arena_.alloc(static_cast<uint32_t>(bytes));
    if (large == 0) return arena_.why_exhausted();
  }

  // Nothing can fail from here on.
  uint32_t index = 0;
  Slot& slot = open_slot(active, request, &index);
  slot.lane = static_cast<uint16_t>(lane);
  slot.tensors = static_cast<uint16_t>(count);
  slot.scalars = static_cast<uint16_t>(member.scalars.size());
  const graph::TaskRef self = slot.generation;
  *task = {run.id, index, self};
  if (count == 1 && member.scalars.empty()) {
    slot.flags = kSlotInline;
    slots_.details(index).tensor = member.tensors[0];
  } else if (large == 0) [[likely]] {
    write_block(blocks_ + uint64_t{index} * memory::kSlotBlockBytes, member);
  } else {
    slot.flags = kSlotLarge;
    slots_.details(index).args = large;
    write_block(arena_.at(large), member);
  }
  if (traits == 0) [[likely]] {
    link_with<graph::Inference::kFull, true>(entries, count, index, slot, self);
  } else {
    link_unusual(entries, count, index, slot, self);
    finish_links(request, traits, index, slot);
  }
  counters_.edges += slot.pending;
  publish(index, slot);
  return Status::ok();
}

// What few tasks have: explicit dependencies and allocations.
void Engine::finish_links(const TaskRequest& request, uint32_t traits, uint32_t index, Slot& slot) {
  add_explicit(request, index, slot, slots_.ref(index));
  if ((traits & (kTraitPinned | kTraitNoDep)) == 0) return;
  slot.flags |= kSlotPins;
  for (const MemberArgs& member : request.members) pin_tensors(member.tensors);
}

Status Engine::check_group(const RunRef& run, const TaskRequest& request, uint32_t* traits) {
  const size_t members = request.members.size();
  if (members == 0) return invalid_argument("a task without members");
  member_lanes_.assign(members, 0);
  size_t tensors = 0;
  for (size_t i = 0; i < members; ++i) {
    uint32_t lane = 0;
    SIMPLER_RETURN_IF_ERROR(member_prefix(check_member(request, request.members[i], &lane), request, i));
    member_lanes_[i] = static_cast<uint16_t>(lane);
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
    const size_t known = check_known(request.members[i], entries_.data() + first, &member_traits);
    SIMPLER_RETURN_IF_ERROR(
        member_prefix(check_rest(request.members[i], known, entries_.data() + first, &member_traits), request, i));
    if ((member_traits & (kTraitMixed | kTraitNoDep)) != 0) {
      SIMPLER_RETURN_IF_ERROR(member_prefix(check_overlaps(request.members[i]), request, i));
    }
    *traits |= member_traits;
    first += request.members[i].tensors.size();
  }
  return Status::ok();
}

Status Engine::submit_group(const RunRef& run, ActiveRun& active, const TaskRequest& request, TaskId* task) {
  uint32_t traits = 0;
  Status status = check_group(run, request, &traits);
  note_named_buffers(active);
  if (!status.is_ok()) return status;
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
    link_unusual(entries_.data() + first, member.tensors.size(), index, slot, slots_.ref(index));
    first += member.tensors.size();
  }
  finish_links(request, traits, index, slot);
  counters_.edges += slot.pending;
  *task = {run.id, index, slot.generation};
  publish(index, slot);
  return Status::ok();
}

}  // namespace simpler::engine
