// One level's whole graph as a single-threaded value: slots, edges, readiness, runs, dispatch and completion.
//
// It does no I/O but pushing to and polling lanes, reads no clock and takes no lock; time comes in through `tick`. The
// Driver feeds it in production and a seeded world feeds it in tests. Every loop over tasks is bounded by `pump`'s
// limit or by what one submit brings; what is left over waits in a list, never on the call stack. Invariants: a task
// reaches a lane only when each producer is terminal and succeeded, or is pushed earlier on the same in-order lane and
// named in the after-mask; a poisoned task reaches none; a consumed slot is named by nobody.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "engine/group_progress.h"
#include "engine/run_queue.h"
#include "engine/slot_table.h"
#include "engine/task_request.h"
#include "graph/dependencies.h"
#include "graph/scope_stack.h"
#include "graph/tensor_map.h"
#include "lane/lane.h"
#include "memory/args_arena.h"
#include "memory/heap.h"
#include "memory/tables.h"
#include "simpler/status.h"

namespace simpler::engine {

struct EngineOptions {
  uint32_t window = 16384;  // unconsumed tasks, a power of two
  uint32_t max_runs = 16;   // runs that are not terminal, at most 64
  graph::Inference inference = graph::Inference::kFull;
  bool early_push = true;
  uint32_t tensor_map_entries = 4096;  // views known at first; the map grows with need
  // A submit does not push to a lane that owes at least so many answers; the next pump does, together with others. Each
  // push that is followed by a lock operation costs a hand-over of its line.
  uint32_t defer_from = lane::kMaxQueueDepth + 1;
  bool refill_in_batches = true;      // a deep queue takes no more before it owes half as many answers as it could
  Nanos stall_warning = 5 * kSecond;  // a group that waits for its lanes while others have work
};

// A tensor-map entry together with what a task does to it.
using EntryWord = uint64_t;

// What the checks learnt about a member. None: the common path.
enum Traits : uint32_t {
  kTraitMixed = graph::EntryFlags::kEntryMixed,  // several views of one buffer may overlap: compare them in pairs
  kTraitPinned = graph::EntryFlags::kEntryPinned,
  kTraitNoDep = 4,
  kTraitNothing = 8,  // a tensor without an entry
  kTraitWeakRules = 16,
  kTraitDependencies = 32,
};

// What the engine tells its driver after a call; the driver empties it outside of the lock.
struct EngineNews {
  struct Finished {
    RunRecord* record;  // null: its owner is gone
    std::vector<std::function<void()>> callbacks;
  };
  struct Overdue {
    LaneId lane;
    TaskId task;
  };
  struct Condemned {
    LaneId lane;
    Status why;
  };

  RunRecord* run = nullptr;        // one that ended and wants no call; further ones stand in `finished`
  bool more = false;               // one of the lists is not empty
  std::vector<Finished> finished;  // in order of their ends, all of them after `run`
  std::vector<std::string> warnings;
  std::vector<Overdue> overdue;      // running longer than their timeout; their run is cancelled, the child still works
  std::vector<Condemned> condemned;  // its child answered what cannot be true: the owner ends the child

  bool empty() const { return run == nullptr && !more; }

  void tell_end(RunRecord& record) {
    if (run == nullptr && !more) {
      run = &record;
    } else {
      tell(finished, Finished{&record, {}});
    }
  }
  template <class News>
  void tell(std::vector<News>& list, News news) {
    list.push_back(std::move(news));
    more = true;
  }
  void clear() {
    run = nullptr;
    if (!more) return;
    more = false;
    finished.clear();
    warnings.clear();
    overdue.clear();
    condemned.clear();
  }
  // Adds what happened later.
  void append(EngineNews later) {
    if (later.run != nullptr) tell_end(*later.run);
    std::move(later.finished.begin(), later.finished.end(), std::back_inserter(finished));
    std::move(later.warnings.begin(), later.warnings.end(), std::back_inserter(warnings));
    std::move(later.overdue.begin(), later.overdue.end(), std::back_inserter(overdue));
    std::move(later.condemned.begin(), later.condemned.end(), std::back_inserter(condemned));
    more = more || later.more;
  }
};

struct EngineCounters {
  uint64_t submitted = 0;
  uint64_t pushed = 0;
  uint64_t pushed_early = 0;
  uint64_t completed = 0;
  uint64_t failed = 0;  // by itself or by propagation
  uint64_t edges = 0;
};

class Engine {
 public:
  // `heap` may be null: then `alloc` fails. The arena has at least `window` slot blocks.
  Engine(const EngineOptions& options, memory::SharedTables& tables, memory::ArgsArena& arena, memory::Heap* heap);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- lanes -----------------------------------------------------------------------------------------------------
  // A lane of the same type and worker id as a lost one replaces it. kAlreadyExists while that one is alive.
  Result<LaneId> add_lane(lane::Lane& lane);
  // The child is dead. Its unanswered tasks fail with `why`; SUB work waits for healthy lanes; a NEXT_LEVEL child's
  // waiting work fails, as does SUB work when no lane is left.
  void lane_lost(LaneId lane, Status why);
  uint32_t lane_count() const { return static_cast<uint32_t>(lanes_.size()); }
  uint32_t healthy_subs() const { return healthy_subs_; }
  const lane::Lane& lane(LaneId id) const { return *lanes_[id.value].lane; }

  // --- runs ------------------------------------------------------------------------------------------------------
  // One run builds at a time: the caller holds the submission turn. kWouldBlock while max_runs are not terminal.
  Result<RunRef> begin_run(const RunOptions& options = {});
  // Checks everything before anything is allocated. kWouldBlock: no slot or argument space now, a task will free it.
  // After an error of the run: that error.
  Status submit(const RunRef& run, const TaskRequest& request, TaskId* task);
  // kWouldBlock: running tasks can free the space. kResourceExhausted: waiting cannot help, and why.
  Result<Allocation> alloc(const RunRef& run, uint64_t bytes);
  Status scope_begin(const RunRef& run);
  Status scope_end(const RunRef& run);
  // Ends the submission. Unbalanced scopes are an error of the run, which is then cancelled.
  Status close_run(const RunRef& run);
  // The callback failed: ends the submission and cancels what has not started.
  void fail_run(const RunRef& run, Status why);
  void cancel(const RunRef& run, Status why);
  // The owner needs the record no longer; a run that is not terminal goes on.
  void release(const RunRef& run);
  bool is_head(const RunRef& run) const;
  uint32_t unfinished_runs() const { return static_cast<uint32_t>(order_.size()); }

  // --- progress --------------------------------------------------------------------------------------------------
  // Takes completions from the lanes and dispatches what they release, about `limit` tasks; returns how many it
  // handled. 0: nothing to do now.
  uint32_t pump(uint32_t limit);
  // Work that needs no completion is left over: pump again.
  bool has_backlog() const { return !doomed_.empty(); }
  // A submit would find no free slot: pump first.
  bool full() const { return slots_.full(); }
  // True while `tick` has something to watch.
  bool timed() const { return timed_tasks_ != 0 || timed_runs_ != 0 || waiting_groups_ != 0; }
  // True while a lane owes an answer.
  bool lines_unanswered() const { return unanswered_ != 0; }
  // Moves time on; returns when it wants to be called again at the latest, or never (the largest value).
  Nanos tick(Nanos now);
  EngineNews& news() { return news_; }

  // --- observers -------------------------------------------------------------------------------------------------
  const EngineCounters& counters() const { return counters_; }
  SlotTable& slots() { return slots_; }
  const graph::TensorMap& tensor_map() const { return map_; }
  uint32_t live_allocations() const { return live_allocations_; }
  uint32_t live_groups() const { return groups_.live(); }
  TaskState state_of(const TaskId& task) const;
  // Walks everything: lists, counts and accounting agree. For tests.
  Status check_consistency() const;

 private:
  struct LaneState {
    lane::Lane* lane = nullptr;
    lane::LaneInfo info;
    bool lost = false;
    bool condemned = false;  // told to the owner, who ends the child; `lost` follows
    Status why;
    uint32_t refill_from = 0;  // a deep queue is refilled in batches, when it owes no more answers than this
    uint32_t unanswered = 0;
    uint32_t pushed = 0;                                 // lines ever pushed
    std::array<uint32_t, lane::kMaxQueueDepth> lines{};  // slot of each unanswered line by ring position
    bool early = false;                                  // successors may be pushed before their producers ended
    uint64_t reported_run = 0;                           // run that already holds `why`
    uint32_t watched = 0;                                // the line whose time is measured: its push count
    Nanos watched_since = 0;
    bool watching = false;
    bool overdue = false;
  };
  struct AllocationRecord {
    memory::HeapSpan span;
    memory::BufferRef buffer;
    uint32_t pins = 0;
    uint8_t run = 0;
    bool held = false;  // by an open scope
    uint32_t next_free = kNoSlot;
  };
  // submit.cpp
  Status check_run(const RunRef& run) const;
  Status check_member(const TaskRequest& request, const MemberArgs& member, uint32_t* lane) const;
  static Status gone(const LaneState& state);
  std::string worker_ids() const;
  Status check_dependencies(const RunRef& run, const TaskRequest& request) const;
  Status check_tensor(const MemberArgs& member, size_t at, uint32_t mark, EntryWord* entry, uint32_t* traits);
  Status check_rest(const MemberArgs& member, size_t first, EntryWord* entries, uint32_t* traits);
  size_t check_known(const MemberArgs& member, EntryWord* entries, uint32_t* traits);
  Status check_overlaps(const MemberArgs& member) const;
  Status overlap_error(const MemberArgs& member, size_t at) const;
  Status submit_group(const RunRef& run, ActiveRun& active, const TaskRequest& request, TaskId* task);
  Status check_group(const RunRef& run, const TaskRequest& request, uint32_t* traits);
  Slot& open_slot(ActiveRun& active, const TaskRequest& request, uint32_t* index);
  void set_timeout(uint32_t index, Slot& slot, Nanos timeout);
  void publish(uint32_t index, Slot& slot);
  void add_explicit(const TaskRequest& request, uint32_t index, Slot& slot, graph::TaskRef self);
  void retain(uint32_t producer, uint32_t index, Slot& slot);
  void add_edge(graph::TaskRef producer, uint32_t index, Slot& slot, graph::TaskRef self);
  void count_running(const Slot& from, Slot& slot);
  template <graph::Inference kInference, bool kCommon>
  void link_with(const EntryWord* entries, size_t count, uint32_t index, Slot& slot, graph::TaskRef self);
  void finish_links(const TaskRequest& request, uint32_t traits, uint32_t index, Slot& slot);
  void link_unusual(const EntryWord* entries, size_t count, uint32_t index, Slot& slot, graph::TaskRef self);
  void spill_successor(uint32_t producer, uint32_t consumer);
  void pin_tensors(std::span<const wire::TensorRef> tensors);
  void note_named_buffers(ActiveRun& active);

  // allocations.cpp
  Status why_no_space(ActiveRun& active, uint32_t region, uint64_t bytes, Status refused);
  void unhold(uint32_t allocation);
  void release_pins(std::span<const wire::TensorRef> tensors);
  void free_allocation(uint32_t allocation);

  // dispatch.cpp
  void make_ready(uint32_t index, Slot& slot);
  // Every unfinished producer is pushed on this task's own lane.
  void consider_early(uint32_t index, Slot& slot) {
    if ((slot.flags & (kSlotEarly | kSlotPoisoned)) != 0) return;
    slot.flags |= kSlotEarly;
    append(active_[slot.run].lanes[slot.lane].early, index);
    want(slot.lane);
  }
  bool takes(const LaneState& state) const;
  bool defers(const LaneState& state) const { return state.unanswered >= options_.defer_from; }
  bool reserved(uint32_t lane) const { return (reserved_[lane / 64] >> (lane % 64) & 1) != 0; }
  void push_single(uint32_t lane, uint32_t index, Slot& slot);
  void push_line(uint32_t lane, uint32_t index, const Slot& slot, wire::Dispatch& dispatch);
  void note_pushed(uint32_t lane, const Slot& slot);
  void note_successor(uint32_t lane, uint32_t bit, uint32_t successor);
  void note_spilled(uint32_t lane, uint32_t bit, uint32_t chunk);
  void dispatch_lane(uint32_t lane);
  void dispatch_wanted();
  void dispatch_run(ActiveRun& active);
  bool group_can_start(uint32_t index) const;
  void dispatch_groups();
  void start_groups(ActiveRun& active);
  void want_lanes(const ActiveRun& active);
  // Something waits in the queues of a run that executes.
  bool has_waiting(uint32_t lane) const {
    for (const uint8_t place : order_) {
      const ActiveRun& active = active_[place];
      if (!active.executing) break;
      if (!active.lanes[lane].ready.empty() || !active.lanes[lane].early.empty()) return true;
    }
    return false;
  }
  void want(uint32_t lane) {
    wanted_[lane / 64] |= uint64_t{1} << (lane % 64);
    any_wanted_ = true;
  }
  void dispatch_subs(ActiveRun& active);
  bool idle(uint32_t lane) const;
  void launch_group(uint32_t index, Slot& slot);
  bool refuse_if_undeliverable(uint32_t index, Slot& slot);
  void doom_undeliverable(ActiveRun& active, uint32_t lane);

  // complete.cpp
  uint32_t take_completions(uint32_t lane, uint32_t limit);
  void complete_line(uint32_t lane, const lane::Completion& completion);
  void complete_member(uint32_t lane, uint32_t index, Slot& slot, lane::Outcome outcome);
  void finish(uint32_t index, Slot& slot, bool success);
  void end_task(uint32_t index, Slot& slot, bool success);
  void release_successor(uint32_t index, const Slot& producer, uint32_t bit, bool success);
  void consume(uint32_t index, Slot& slot);
  void consume_arguments(uint32_t index, Slot& slot);
  void release_retained(uint32_t index);
  std::span<const wire::TensorRef> tensors_at(uint32_t place, uint32_t count) const;

  // runs.cpp
  ActiveRun* active_of(const RunRef& run);
  const ActiveRun* active_of(const RunRef& run) const { return const_cast<Engine*>(this)->active_of(run); }
  void end_submission(ActiveRun& active);
  void cancel_active(ActiveRun& active);
  void want_finish(const ActiveRun& active) { finish_wanted_ |= uint64_t{1} << (&active - active_.data()); }
  void settle_runs();
  void finish_run(ActiveRun& active);
  void activate();
  void record_error(ActiveRun& active, Status why);
  void doom(uint32_t index) { append(doomed_, index); }
  void doom_list(SlotList& list);
  uint32_t settle_doomed(uint32_t limit);
  Nanos watch_lanes(Nanos now);
  Nanos watch_groups(Nanos now);
  std::string name_of(uint32_t index) const;
  Status described(uint32_t index, Status why) const;

  void append(SlotList& list, uint32_t index) {
    SlotDetails& details = slots_.details(index);
    details.next = kNoSlot;
    details.prev = list.tail;
    (list.tail == kNoSlot ? list.head : slots_.details(list.tail).next) = index;
    list.tail = index;
  }
  void remove(SlotList& list, uint32_t index) {
    const SlotDetails& details = slots_.details(index);
    (details.prev == kNoSlot ? list.head : slots_.details(details.prev).next) = details.next;
    (details.next == kNoSlot ? list.tail : slots_.details(details.next).prev) = details.prev;
  }
  uint32_t pop(SlotList& list) {
    const uint32_t index = list.head;
    remove(list, index);
    return index;
  }

  EngineOptions options_;
  memory::SharedTables& tables_;
  memory::ArgsArena& arena_;
  memory::Heap* heap_;
  std::byte* blocks_;  // the slots' own argument blocks
  mutable SlotTable slots_;
  graph::TensorMap map_;
  graph::ScopeStack scopes_;
  uint32_t always_ = 0;       // traits of every member that rules out the common path: not 0 under the weaker rules
  uint32_t member_mark_ = 0;  // stamps the entries that one member names

  std::vector<LaneState> lanes_;
  std::vector<uint32_t> lane_of_worker_;  // NEXT_LEVEL worker id to lane, kNoSlot where there is none
  std::vector<uint32_t> subs_;            // SUB lanes
  uint32_t healthy_subs_ = 0;
  std::vector<uint64_t> busy_;      // lanes with unanswered lines
  std::vector<uint64_t> reserved_;  // lanes that a waiting group claims
  std::vector<uint64_t> wanted_;    // lanes that may have something to push
  bool any_wanted_ = false;
  bool subs_wanted_ = false;    // a SUB lane came free, or SUB work came
  bool groups_wanted_ = false;  // a lane fell idle, or a group became ready
  bool any_reserved_ = false;
  uint32_t waiting_groups_ = 0;
  uint32_t unanswered_ = 0;

  std::vector<ActiveRun> active_;
  std::vector<uint8_t> order_;  // places of active runs in the order of their begin
  uint64_t last_run_ = 0;
  ActiveRun* building_ = nullptr;
  uint64_t open_run_ = 0;       // id of the run that takes submits: it is being built and has no error; 0: none
  uint64_t finish_wanted_ = 0;  // places of active runs that may be terminal
  uint32_t timed_tasks_ = 0;
  uint32_t timed_runs_ = 0;
  std::vector<std::unique_ptr<RunRecord>> records_;
  std::vector<RunRecord*> free_records_;

  SlotList doomed_;
  GroupTable groups_;
  std::vector<AllocationRecord> allocations_;
  uint32_t free_allocation_ = kNoSlot;
  uint32_t live_allocations_ = 0;
  std::array<uint32_t, memory::kHeapRegions> held_spans_{};
  std::vector<uint32_t> allocation_of_buffer_;
  std::vector<EntryWord> entries_;                               // scratch of one submit
  std::vector<uint16_t> member_lanes_;                           // scratch of one group submit
  std::array<lane::Completion, lane::kMaxQueueDepth> answered_;  // scratch of one poll
  size_t named_seen_ = 0;

  uint32_t reservation_head_ = kNoSlot;
  Nanos reservation_since_ = 0;  // 0: no group waits, or no tick since it does
  bool reservation_warned_ = false;

  EngineNews news_;
  EngineCounters counters_;
};

}  // namespace simpler::engine
