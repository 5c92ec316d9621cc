#include "simulation/sim_world.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/seeded_random.h"
#include "engine/engine.h"
#include "simpler/tensor.h"
#include "simulation/sim_lane.h"

namespace simpler::simulation {

using engine::Allocation;
using engine::RunRef;
using engine::TaskId;

namespace {

constexpr uint32_t kSide = 8;  // buffers are kSide x kSide cells of 8 bytes
constexpr uint32_t kCells = kSide * kSide;
constexpr uint32_t kBuffers = 3;
constexpr uint32_t kMaxWindow = 256;

struct ViewKind {
  std::vector<uint32_t> shape;
  std::vector<uint32_t> strides;
};

struct View {
  wire::TensorRef ref;
  uint32_t space = 0;  // which cells: buffers first, then allocations
  std::vector<uint8_t> cells;
};

}  // namespace

class Ground {
 public:
  Ground()
      : tables(std::move(*memory::SharedTables::create())),
        arena(std::move(*memory::ArgsArena::create({.slots = kMaxWindow, .large_bytes = 1 << 20}))),
        heap(std::move(*memory::Heap::create({.region_bytes = 2 << 20}))) {
    for (auto& buffer : buffers) {
      BufferDescriptor descriptor = describe();
      buffer = *tables->put_buffer(descriptor);
    }
    kinds = {{{kSide, kSide}, {kSide, 1}},
             {{1, kSide}, {kSide, 1}},
             {{kSide, 1}, {kSide, 1}},
             {{2, 2}, {kSide, 1}},
             {{4}, {1}},
             {{kCells}, {1}},
             {{kCells / 2}, {2}},
             {{kSide, kSide}, {1, kSide}},
             {{3}, {1}}};
    for (const ViewKind& kind : kinds) {
      layouts.push_back(tables->intern_layout(*make_tensor(describe(), kind.shape, DataType::kInt64, kind.strides, 0)));
    }
  }
  BufferDescriptor describe() {
    BufferDescriptor descriptor;
    descriptor.identity = tables->mint_identity();
    descriptor.nbytes = kCells * 8;
    set_body_address(descriptor, 0x1000);
    return descriptor;
  }

  std::unique_ptr<memory::SharedTables> tables;
  std::unique_ptr<memory::ArgsArena> arena;
  std::unique_ptr<memory::Heap> heap;
  std::array<memory::BufferRef, kBuffers> buffers;
  std::vector<ViewKind> kinds;
  std::vector<uint32_t> layouts;
};

namespace {

enum class Fate : uint8_t { kWaiting, kRunning, kSucceeded, kFailed };

struct SimTask {
  uint32_t number = 0;
  uint32_t run = 0;  // index into runs
  TaskId id;
  std::vector<std::vector<View>> views;  // by member
  std::vector<std::vector<TensorArgType>> tags;
  std::set<uint32_t> after;     // tasks that a byte or an explicit edge demands
  std::vector<uint32_t> lanes;  // where each member runs
  uint32_t members_left = 0;
  bool will_fail = false;
  bool early_ended = false;
  Fate fate = Fate::kWaiting;
  std::vector<uint64_t> digests;  // by member, made of what it read at its start
};

struct Cell {
  uint64_t value = 0;
  uint32_t writer = UINT32_MAX;
  std::vector<uint32_t> readers;
};
using Space = std::array<Cell, kCells>;

struct SimRun {
  RunRef ref;
  uint64_t id = 0;
  uint32_t first_task = 0;
  uint32_t planned = 0;
  uint32_t scopes = 0;
  bool disturbed = false;  // cancelled, failed, or a task of it failed
  bool unbalanced = false;
  bool closed = false;
  std::vector<uint32_t> spaces;        // allocations that can be named
  std::vector<uint32_t> scope_spaces;  // how many of them at each scope_begin
};

class World {
 public:
  World(Ground& ground, uint64_t seed, bool trace) : ground_(ground), random_(seed), trace_(trace) {
    options_.window = 64U << random_.below(3);
    options_.max_runs = static_cast<uint32_t>(1 + random_.below(3));
    options_.early_push = random_.below(5) != 0;
    options_.tensor_map_entries = 64;
    if (random_.below(2) == 0) options_.defer_from = static_cast<uint32_t>(random_.below(6));
    engine_.emplace(options_, *ground.tables, *ground.arena, ground.heap.get());
    next_levels_ = static_cast<uint32_t>(1 + random_.below(4));
    subs_ = static_cast<uint32_t>(random_.below(4));
    may_fail_ = random_.below(3) == 0;
    may_lose_ = random_.below(6) == 0;
    may_cancel_ = random_.below(5) == 0;
    slow_child_ = random_.below(3) == 0;
    big_allocations_ = random_.below(3) == 0;
    planned_runs_ = static_cast<uint32_t>(1 + random_.below(4));
    for (uint32_t i = 0; i < next_levels_ + subs_; ++i) {
      const bool sub = i >= next_levels_;
      add_lane(sub ? WorkerType::kSub : WorkerType::kNextLevel, sub ? i - next_levels_ : i, 0);
    }
    spaces_.resize(kBuffers);
    serial_.resize(kBuffers);
    refs_.assign(ground.buffers.begin(), ground.buffers.end());
  }

  WorldResult run() {
    uint32_t quiet = 0;
    for (uint32_t step = 0; result_.problem.empty(); ++step) {
      if (done()) break;
      const bool moved = one_step();
      quiet = moved ? 0 : quiet + 1;
      if (quiet > 400 && !force_progress()) {
        complain("nothing moves any more");
        break;
      }
      if (step > 400'000) complain("the world does not end");
    }
    if (result_.problem.empty()) check_end();
    result_.tasks = static_cast<uint32_t>(tasks_.size());
    result_.pushed_early = static_cast<uint32_t>(engine_->counters().pushed_early);
    return result_;
  }

 private:
  template <class... Ts>
  void note(const char* format, Ts... values) {
    if (trace_) std::printf(format, values...);
  }
  void mix(uint64_t value) { result_.digest = (result_.digest ^ value) * 0x9E3779B97F4A7C15U + 0x1234567; }
  void complain(const std::string& problem) {
    if (result_.problem.empty()) result_.problem = problem;
  }
  bool chance(uint32_t percent) { return random_.below(100) < percent; }

  void add_lane(WorkerType type, uint32_t worker, uint32_t incarnation) {
    lane::LaneInfo info;
    info.type = type;
    info.worker_id = worker;
    info.queue_depth = static_cast<uint32_t>(1 + random_.below(random_.below(3) == 0 ? 32 : 4));
    info.in_order = !chance(20);
    info.incarnation = incarnation;
    lanes_.push_back(std::make_unique<SimLane>(info, info.in_order ? 1 : 2));
    lanes_.back()->member_of = [this](const wire::Dispatch& dispatch) {
      return pushes_[uint64_t{dispatch.slot} << 32 | dispatch.slot_generation]++;
    };
    const auto id = engine_->add_lane(*lanes_.back());
    if (!id.ok()) {
      complain("add_lane: " + id.status().describe());
      return;
    }
    if (id->value >= lane_of_id_.size()) lane_of_id_.resize(id->value + 1);
    lane_of_id_[id->value] = lanes_.back().get();
  }

  bool done() const {
    return runs_.size() == planned_runs_ && (!building_ || runs_.back().closed) && engine_->unfinished_runs() == 0;
  }

  bool one_step() {
    const uint64_t what = random_.below(100);
    if (what < 35) return build();
    if (what < 70) return child_step();
    if (what < 95) return pump();
    if (what < 97) return tick();
    if (what < 98 && may_lose_) return lose();
    if (what < 99 && may_cancel_ && chance(10)) return cancel();
    return pump();
  }

  // Everything that could move, once: what still does not move is stuck.
  bool force_progress() {
    bool moved = engine_->pump(64) != 0;
    drain_news();
    for (SimLane* lane : lane_of_id_) {
      if (!lane->alive()) continue;
      for (const size_t at : lane->running()) {
        end(*lane, at);
        moved = true;
      }
      for (const size_t at : lane->startable()) {
        start(*lane, at);
        moved = true;
        break;
      }
    }
    for (int i = 0; i < 20; ++i) moved = build() || moved;
    return moved;
  }

  bool pump() {
    const uint32_t handled = engine_->pump(static_cast<uint32_t>(1 + random_.below(8)));
    drain_news();
    return handled != 0;
  }

  bool tick() {
    now_ += static_cast<Nanos>(random_.below(20)) * kMillisecond;
    engine_->tick(now_);
    drain_news();
    return false;
  }

  void drain_news() {
    for (const auto& finished : engine_->news().finished) {
      for (SimRun& run : runs_) {
        if (run.ref.record == finished.record && run.id == finished.record->id) check_run_end(run);
      }
    }
    for (const auto& overdue : engine_->news().overdue) {
      for (SimRun& run : runs_) {
        if (run.id == overdue.task.run) run.disturbed = true;
      }
    }
    engine_->news() = {};
  }

  // --- children ----------------------------------------------------------------------------------------------------

  bool child_step() {
    SimLane& lane = *lane_of_id_[random_.below(lane_of_id_.size())];
    if (slow_child_ && &lane == lane_of_id_[0] && !chance(10)) return false;
    if (!lane.alive()) return false;
    const std::vector<size_t> running = lane.running();
    if (!running.empty() && chance(60)) {
      end(lane, running[random_.below(running.size())]);
      return true;
    }
    const std::vector<size_t> startable = lane.startable();
    if (startable.empty()) return false;
    start(lane, startable[random_.below(startable.size())]);
    return true;
  }

  SimTask& task_of(const wire::Dispatch& dispatch) {
    const auto found = by_name_.find(uint64_t{dispatch.slot} << 32 | dispatch.slot_generation);
    SIMPLER_CHECK(found != by_name_.end(), dispatch.slot, dispatch.slot_generation);
    return tasks_[found->second];
  }
  void start(SimLane& lane, size_t at) {
    const wire::Dispatch dispatch = lane.lines()[at].dispatch;
    SimTask& task = task_of(dispatch);
    mix(task.number * 2 + 1);
    if (!lane.start(at)) {
      note("skip  %u\n", task.number);
      if (--task.members_left == 0 || task.fate != Fate::kFailed) task.fate = Fate::kFailed;
      runs_[task.run].disturbed = true;
      return;
    }
    note("start %u on %u\n", task.number, lane.info().worker_id);
    if (task.fate == Fate::kSucceeded) complain("task " + std::to_string(task.number) + " runs twice");
    if (task.fate == Fate::kWaiting) task.fate = Fate::kRunning;
    for (const uint32_t earlier : task.after) {
      if (tasks_[earlier].fate != Fate::kSucceeded) {
        complain("task " + std::to_string(task.number) + " starts before its producer " + std::to_string(earlier) +
                 " has succeeded");
      }
    }
    if (task.run != executing_run())
      complain("task " + std::to_string(task.number) + " starts in a run that is not the head");
    const size_t member = lane.lines()[at].member;
    read(task, member, dispatch);
  }

  uint32_t executing_run() const {
    for (uint32_t i = 0; i < runs_.size(); ++i) {
      if (!runs_[i].ref.record->is_done() || runs_[i].ref.record->id != runs_[i].id) {
        if (runs_[i].ref.record->id == runs_[i].id) return i;
      }
    }
    return UINT32_MAX;
  }

  void read(SimTask& task, size_t member, const wire::Dispatch& dispatch) {
    if (dispatch.tensors != task.views[member].size()) complain("wrong number of tensors in a line");
    uint64_t digest = task.number + 1;
    for (size_t i = 0; i < task.views[member].size(); ++i) {
      const View& view = task.views[member][i];
      if (!ground_.tables->buffer_live(view.ref.buffer, view.ref.generation)) {
        complain("task " + std::to_string(task.number) + " names memory that was given back");
      }
      if (reads(task.tags[member][i])) {
        for (const uint8_t cell : view.cells) digest = digest * 31 + spaces_[view.space][cell].value;
      }
    }
    check_arguments(task, member, dispatch);
    task.digests[member] = digest;
  }

  void check_arguments(const SimTask& task, size_t member, const wire::Dispatch& dispatch) {
    if (dispatch.tensors == 0) return;
    if ((dispatch.flags & wire::kFlagInlineTensor) != 0) {
      if (!(dispatch.inline_tensor == task.views[member][0].ref)) complain("wrong inline tensor");
      return;
    }
    const auto* refs = reinterpret_cast<const wire::TensorRef*>(ground_.arena->at(dispatch.args));
    for (size_t i = 0; i < task.views[member].size(); ++i) {
      if (!(refs[i] == task.views[member][i].ref)) complain("wrong tensor in an argument block");
    }
  }

  void end(SimLane& lane, size_t at) {
    SimTask& task = task_of(lane.lines()[at].dispatch);
    mix(task.number * 2);
    const size_t member = lane.lines()[at].member;
    const bool fails = task.will_fail;
    note("end   %u %s\n", task.number, fails ? "failing" : "");
    if (fails) {
      task.fate = Fate::kFailed;
      runs_[task.run].disturbed = true;
    } else {
      for (size_t i = 0; i < task.views[member].size(); ++i) {
        if (!writes(task.tags[member][i])) continue;
        write(spaces_, task, member, i);
      }
    }
    if (--task.members_left == 0 && task.fate == Fate::kRunning) task.fate = Fate::kSucceeded;
    if (task.views.size() > 1 && !fails) group_writes_.insert({task.number, static_cast<uint32_t>(member)});
    lane.end(at, fails ? lane::Outcome::kTaskFailure : lane::Outcome::kSuccess);
  }

  void write(std::vector<Space>& spaces, const SimTask& task, size_t member, size_t tensor) {
    const View& view = task.views[member][tensor];
    for (size_t k = 0; k < view.cells.size(); ++k) {
      spaces[view.space][view.cells[k]].value = task.digests[member] * 7 + tensor * 1000 + k;
    }
  }

  // --- trouble -----------------------------------------------------------------------------------------------------

  bool lose() {
    if (!chance(15)) return false;
    const auto id = static_cast<uint32_t>(random_.below(lane_of_id_.size()));
    SimLane& lane = *lane_of_id_[id];
    if (!lane.alive()) {
      if (engine_->lane(LaneId{id}).info().worker_id != lane.info().worker_id) return false;
      note("new child %u\n", id);
      add_lane(lane.info().type, lane.info().worker_id, lane.info().incarnation + 1);
      return true;
    }
    note("lose  lane %u\n", id);
    ++result_.lost_lanes;
    for (const SimLane::Line& line : lane.lines()) {
      SimTask& task = task_of(line.dispatch);
      if (line.stage != SimLane::Stage::kEnded) {
        --task.members_left;
        task.fate = Fate::kFailed;
      }
    }
    // Any run that is not finished may have work for the lost lane.
    for (SimRun& run : runs_) run.disturbed = true;
    engine_->lane_lost(LaneId{id}, peer_lost("simulated loss of a child"));
    drain_news();
    return true;
  }

  bool cancel() {
    if (runs_.empty()) return false;
    SimRun& run = runs_[random_.below(runs_.size())];
    if (run.ref.record->id != run.id) return false;
    note("cancel run %u\n", static_cast<uint32_t>(run.id));
    if (!run.ref.record->is_done()) run.disturbed = true;
    engine_->cancel(run.ref, cancelled("simulated cancel"));
    drain_news();
    return true;
  }

  // --- building ----------------------------------------------------------------------------------------------------

  bool build() {
    if (!building_) {
      if (runs_.size() == planned_runs_) return false;
      return begin();
    }
    SimRun& run = runs_.back();
    if (tasks_.size() - run.first_task >= run.planned) return close(run);
    const uint64_t what = random_.below(100);
    if (what < 80) return submit(run);
    if (what < 86) return alloc(run);
    if (what < 92) {
      if (run.scopes >= 5 || !engine_->scope_begin(run.ref).is_ok()) return false;
      ++run.scopes;
      run.scope_spaces.push_back(static_cast<uint32_t>(run.spaces.size()));
      return true;
    }
    if (what < 99 && run.scopes > 0) return end_scope(run);
    if (may_fail_ && chance(3)) {
      note("callback of run %u fails\n", static_cast<uint32_t>(run.id));
      run.disturbed = run.closed = true;
      building_ = false;
      engine_->fail_run(run.ref, task_failed("simulated failure of the callback"));
      drain_news();
      return true;
    }
    return false;
  }

  bool begin() {
    engine::RunOptions options;
    if (chance(5)) options.timeout = static_cast<Nanos>(1 + random_.below(1000)) * kMillisecond;
    if (engine_->unfinished_runs() == options_.max_runs) {
      const auto refused = engine_->begin_run(options);
      if (refused.ok() || refused.status().code() != StatusCode::kWouldBlock) complain("a run too many was admitted");
      return false;
    }
    auto ref = engine_->begin_run(options);
    if (!ref.ok()) {
      complain("begin_run: " + ref.status().describe());
      return false;
    }
    SimRun run;
    run.ref = *ref;
    run.id = ref->id;
    run.first_task = static_cast<uint32_t>(tasks_.size());
    run.planned = static_cast<uint32_t>(random_.below(chance(8) ? 300 : 30));
    if (options.timeout != 0) run.disturbed = true;
    runs_.push_back(run);
    building_ = true;
    for (Space& space : serial_) {
      for (Cell& cell : space) {
        cell.writer = UINT32_MAX;
        cell.readers.clear();
      }
    }
    return true;
  }

  bool close(SimRun& run) {
    const bool leave_open = run.scopes > 0 && chance(3);
    while (run.scopes > 0 && !leave_open) end_scope(run);
    run.closed = true;
    building_ = false;
    if (leave_open) run.disturbed = run.unbalanced = true;
    const Status status = engine_->close_run(run.ref);
    if (leave_open == status.is_ok()) complain("close_run with unbalanced scopes: " + status.describe());
    drain_news();
    return true;
  }

  bool end_scope(SimRun& run) {
    const Status status = engine_->scope_end(run.ref);
    if (!status.is_ok()) complain("scope_end: " + status.describe());
    --run.scopes;
    run.spaces.resize(run.scope_spaces.back());
    run.scope_spaces.pop_back();
    return true;
  }

  bool alloc(SimRun& run) {
    const uint64_t bytes = big_allocations_ ? (uint64_t{1} << 18) * (1 + random_.below(4)) : kCells * 8;
    auto allocation = engine_->alloc(run.ref, bytes);
    if (!allocation.ok()) {
      const StatusCode code = allocation.status().code();
      if (code == StatusCode::kWouldBlock) {
        ++result_.blocked;
        return false;
      }
      if (code != StatusCode::kResourceExhausted && !run.disturbed)
        complain("alloc: " + allocation.status().describe());
      return false;
    }
    run.spaces.push_back(static_cast<uint32_t>(spaces_.size()));
    spaces_.emplace_back();
    serial_.emplace_back();
    refs_.push_back(allocation->buffer);
    return true;
  }

  View random_view(SimRun& run) {
    View view;
    view.space = static_cast<uint32_t>(random_.below(kBuffers));
    if (!run.spaces.empty() && chance(40)) view.space = run.spaces[random_.below(run.spaces.size())];
    const size_t kind = chance(70) ? 1 + random_.below(3) : random_.below(ground_.kinds.size());
    const ViewKind& shape = ground_.kinds[kind];
    uint64_t origin = 0;
    switch (kind) {
      case 1:
        origin = random_.below(kSide) * kSide;
        break;
      case 2:
        origin = random_.below(kSide);
        break;
      case 3:
        origin = random_.below(kSide / 2) * 2 * kSide + random_.below(kSide / 2) * 2;
        break;
      case 4:
        origin = random_.below(kCells / 4) * 4;
        break;
      case 6:
        origin = random_.below(2);
        break;
      case 8:
        origin = random_.below(kCells - 3);
        break;
      default:
        break;
    }
    view.ref = {refs_[view.space].index, refs_[view.space].generation, ground_.layouts[kind], 0, origin * 8};
    for (uint32_t i = 0; i < shape.shape[0]; ++i) {
      const uint32_t columns = shape.shape.size() > 1 ? shape.shape[1] : 1;
      for (uint32_t k = 0; k < columns; ++k) {
        const uint64_t step = shape.shape.size() > 1 ? uint64_t{k} * shape.strides[1] : 0;
        view.cells.push_back(static_cast<uint8_t>(origin + uint64_t{i} * shape.strides[0] + step));
      }
    }
    return view;
  }

  static bool overlaps_badly(const std::vector<View>& views, const std::vector<TensorArgType>& tags) {
    for (size_t i = 0; i < views.size(); ++i) {
      for (size_t k = 0; k < views.size(); ++k) {
        if (i == k || !writes(tags[i]) || views[i].space != views[k].space) continue;
        for (const uint8_t cell : views[i].cells) {
          if (std::find(views[k].cells.begin(), views[k].cells.end(), cell) != views[k].cells.end()) return true;
        }
      }
    }
    return false;
  }

  // Members run side by side: a group in which one writes what another names has no serial order.
  static bool members_collide(const SimTask& task) {
    for (size_t m = 0; m < task.views.size(); ++m) {
      for (size_t other = 0; other < task.views.size(); ++other) {
        if (m == other) continue;
        for (size_t i = 0; i < task.views[m].size(); ++i) {
          if (!writes(task.tags[m][i])) continue;
          for (const View& view : task.views[other]) {
            if (view.space == task.views[m][i].space) return true;
          }
        }
      }
    }
    return false;
  }

  bool submit(SimRun& run) {
    // Most builders look before they ask; some find out by being refused.
    if (engine_->full() && chance(95)) {
      ++result_.blocked;
      return false;
    }
    SimTask task;
    task.number = static_cast<uint32_t>(tasks_.size());
    task.run = static_cast<uint32_t>(runs_.size() - 1);
    const bool sub = subs_ > 0 && chance(25);
    const uint32_t most = sub ? engine_->healthy_subs() : next_levels_;
    uint32_t members = 1;
    if (most > 1 && chance(15)) members = static_cast<uint32_t>(2 + random_.below(most - 1));
    bool bad = false;
    for (uint32_t m = 0; m < members; ++m) {
      auto& views = task.views.emplace_back();
      auto& tags = task.tags.emplace_back();
      const uint32_t count = static_cast<uint32_t>(chance(5) ? random_.below(10) : random_.below(4));
      for (uint32_t i = 0; i < count; ++i) {
        views.push_back(random_view(run));
        tags.push_back(chance(3) ? TensorArgType::kNoDep : static_cast<TensorArgType>(random_.below(4)));
        // A group's members run side by side: what two of them write is theirs to order.
        if (members > 1) tags.back() = TensorArgType::kInput;
        if (tags.back() == TensorArgType::kNoDep) views.back().cells.clear();
      }
      if (members > 1 && !views.empty() && chance(60)) {
        views.resize(1);
        tags.assign(1, TensorArgType::kInout);
      }
      bad = bad || overlaps_badly(views, tags);
    }
    if (members > 1 && (bad || members_collide(task))) return false;
    return hand_in(run, task, sub, bad);
  }

  bool hand_in(SimRun& run, SimTask& task, bool sub, bool bad) {
    const auto members = static_cast<uint32_t>(task.views.size());
    std::vector<std::vector<wire::TensorRef>> refs(members);
    std::vector<engine::MemberArgs> args(members);
    std::vector<uint64_t> scalars(random_.below(4), 77);
    const auto first_worker = static_cast<uint32_t>(random_.below(next_levels_));
    for (uint32_t m = 0; m < members; ++m) {
      for (const View& view : task.views[m]) refs[m].push_back(view.ref);
      task.lanes.push_back((first_worker + m) % next_levels_);
      args[m] = {refs[m], task.tags[m], scalars, task.lanes[m]};
    }
    std::vector<engine::Dependency> dependencies;
    if (chance(10) && task.number > run.first_task) {
      const auto producer = static_cast<uint32_t>(run.first_task + random_.below(task.number - run.first_task));
      dependencies.push_back({tasks_[producer].id, chance(50)});
      task.after.insert(producer);
    }
    engine::TaskRequest request;
    request.type = sub ? WorkerType::kSub : WorkerType::kNextLevel;
    request.callable = 1;
    request.members = args;
    request.dependencies = dependencies;
    if (chance(1)) request.timeout = 50 * kMillisecond;
    const uint32_t live = engine_->slots().live();
    const uint64_t blocks = ground_.arena->live_blocks();
    TaskId id;
    const Status status = engine_->submit(run.ref, request, &id);
    drain_news();
    if (!status.is_ok()) {
      if (engine_->slots().live() != live || ground_.arena->live_blocks() != blocks)
        complain("a refused submit left a trace");
      return refused(run, task, status);
    }
    if (bad) complain("task " + std::to_string(task.number) + " writes what it also names elsewhere, and was accepted");
    note("submit %u\n", task.number);
    task.id = id;
    task.members_left = members;
    task.digests.resize(members);
    task.will_fail = may_fail_ && chance(4);
    by_name_[uint64_t{id.slot} << 32 | id.generation] = task.number;
    for (uint32_t m = 0; m < members; ++m) demand(task, m);
    tasks_.push_back(std::move(task));
    mix(tasks_.size());
    return true;
  }

  bool refused(SimRun& run, const SimTask& task, const Status& status) {
    if (status.code() == StatusCode::kWouldBlock) {
      ++result_.blocked;
      return false;
    }
    if (run.disturbed || !run.ref.record->errors.empty() || status.code() == StatusCode::kPeerLost) {
      run.planned = static_cast<uint32_t>(tasks_.size()) - run.first_task;
      return true;
    }
    if (status.code() != StatusCode::kInvalidArgument || task.views[0].size() < 2)
      complain("submit: " + status.describe());
    return true;
  }

  // Edges that the bytes demand of an accepted task, and the oracle's picture afterwards.
  void demand(SimTask& task, uint32_t member) {
    for (size_t i = 0; i < task.views[member].size(); ++i) {
      const View& view = task.views[member][i];
      for (const uint8_t at : view.cells) {
        Cell& cell = serial_[view.space][at];
        if (cell.writer != UINT32_MAX && cell.writer != task.number) task.after.insert(cell.writer);
        if (!writes(task.tags[member][i])) {
          if (cell.readers.empty() || cell.readers.back() != task.number) cell.readers.push_back(task.number);
          continue;
        }
        for (const uint32_t reader : cell.readers) {
          if (reader != task.number) task.after.insert(reader);
        }
        cell.readers.clear();
        cell.writer = task.number;
      }
    }
  }

  // --- the end -----------------------------------------------------------------------------------------------------

  void check_run_end(const SimRun& run) {
    const engine::RunRecord& record = *run.ref.record;
    if (!run.disturbed && !record.errors.empty()) complain("a quiet run failed: " + record.errors.front().describe());
    if (run.unbalanced && record.errors.empty()) complain("unbalanced scopes went unnoticed");
    if (record.errors.empty() != (record.phase == RunPhase::kCompleted)) complain("phase and errors disagree");
    if (!record.errors.empty()) ++result_.failed_runs;
  }

  void check_end() {
    const Status consistent = engine_->check_consistency();
    if (!consistent.is_ok()) complain(consistent.describe());
    if (ground_.arena->live_blocks() != 0) complain("argument blocks are left");
    for (uint32_t region = 0; region < memory::kHeapRegions; ++region) {
      if (ground_.heap->live_bytes(region) != 0) complain("heap spans are left");
    }
    for (const memory::BufferRef& buffer : ground_.buffers) {
      if (ground_.tables->runs_naming(buffer.index) != 0) complain("a finished run still names a buffer");
    }
    for (SimRun& run : runs_) {
      if (!run.ref.record->is_done()) complain("a run is not terminal");
      for (uint32_t i = run.first_task; i < tasks_.size() && tasks_[i].run + runs_.data() == &run; ++i) {
        if (!run.disturbed && tasks_[i].fate != Fate::kSucceeded) complain("a task of a quiet run did not run");
      }
      engine_->release(run.ref);
    }
    compare_with_serial();
  }

  void compare_with_serial() {
    for (Space& space : serial_) {
      for (Cell& cell : space) cell.value = 0;
    }
    for (SimTask& task : tasks_) {
      for (uint32_t m = 0; m < task.views.size(); ++m) {
        const bool ran =
            task.views.size() == 1 ? task.fate == Fate::kSucceeded : group_writes_.contains({task.number, m});
        if (!ran) continue;
        uint64_t digest = task.number + 1;
        for (size_t i = 0; i < task.views[m].size(); ++i) {
          if (!reads(task.tags[m][i])) continue;
          for (const uint8_t cell : task.views[m][i].cells) {
            digest = digest * 31 + serial_[task.views[m][i].space][cell].value;
          }
        }
        if (digest != task.digests[m])
          complain("task " + std::to_string(task.number) + " read other bytes than in a serial execution");
        for (size_t i = 0; i < task.views[m].size(); ++i) {
          if (writes(task.tags[m][i])) write(serial_, task, m, i);
        }
      }
    }
    for (size_t space = 0; space < spaces_.size(); ++space) {
      for (uint32_t cell = 0; cell < kCells; ++cell) {
        mix(spaces_[space][cell].value);
        if (spaces_[space][cell].value != serial_[space][cell].value)
          complain("the bytes differ from a serial execution");
      }
    }
  }

  Ground& ground_;
  SeededRandom random_;
  bool trace_;
  engine::EngineOptions options_;
  uint32_t next_levels_ = 0, subs_ = 0, planned_runs_ = 0;
  bool may_fail_ = false, may_lose_ = false, may_cancel_ = false, slow_child_ = false, big_allocations_ = false;
  std::vector<std::unique_ptr<SimLane>> lanes_;
  std::vector<SimLane*> lane_of_id_;
  std::optional<engine::Engine> engine_;
  std::vector<SimTask> tasks_;
  std::unordered_map<uint64_t, uint32_t> by_name_;
  std::unordered_map<uint64_t, uint32_t> pushes_;  // lines pushed for each name: the n-th is member n
  std::set<std::pair<uint32_t, uint32_t>> group_writes_;
  std::vector<SimRun> runs_;
  bool building_ = false;
  std::vector<Space> spaces_;  // what the children see
  std::vector<Space> serial_;  // the oracle: first who used each cell, at the end the values
  std::vector<memory::BufferRef> refs_;
  Nanos now_ = 1;
  WorldResult result_;
};

}  // namespace

Worlds::Worlds() : ground_(std::make_unique<Ground>()) {}
Worlds::~Worlds() = default;

WorldResult Worlds::run(uint64_t seed, bool trace) {
  WorldResult result = World(*ground_, seed, trace).run();
  // What a broken world leaves behind would disturb the next one.
  if (!result.problem.empty()) ground_ = std::make_unique<Ground>();
  return result;
}

}  // namespace simpler::simulation
