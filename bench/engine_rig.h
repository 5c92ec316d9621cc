// An engine with lanes that answer at once, and the standard workloads in the form that it takes.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "harness/harness.h"
#include "memory/args_arena.h"
#include "memory/tables.h"
#include "sol/sol.h"
#include "sol/workloads.h"

namespace simpler::bench {

inline void require(const Status& status) {
  if (status.is_ok()) return;
  std::fprintf(stderr, "%s\n", status.describe().c_str());
  std::abort();
}
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

// Answers every line at the next poll, in order; or never, when stopped. `body` is called for each.
class InstantLane final : public lane::Lane {
 public:
  InstantLane(WorkerType type, uint32_t worker) {
    info_.type = type;
    info_.worker_id = worker;
  }
  const lane::LaneInfo& info() const override { return info_; }
  uint32_t free_lines() const override { return info_.queue_depth - (pushed_ - answered_); }
  void push_line(const wire::LineWords& line) override { lines_[pushed_++ % lane::kMaxQueueDepth] = wire::parse(line); }
  uint32_t poll(std::span<lane::Completion> out) override {
    uint32_t count = 0;
    while (!stopped && answered_ != pushed_ && count < out.size()) {
      const wire::Dispatch& dispatch = lines_[answered_ % lane::kMaxQueueDepth];
      if (body) body(dispatch);
      out[count++] = {answered_ % lane::kMaxQueueDepth, dispatch.slot, dispatch.slot_generation,
                      lane::Outcome::kSuccess};
      ++answered_;
    }
    return count;
  }
  Status take_failure(const lane::Completion&) override { return internal_error("an instant lane never fails"); }
  void cancel(uint32_t) override {}
  void lose(Status) override {}
  Status health() const override { return Status::ok(); }

  bool stopped = false;
  std::function<void(const wire::Dispatch&)> body;

 private:
  lane::LaneInfo info_;
  uint32_t pushed_ = 0;
  uint32_t answered_ = 0;
  std::array<wire::Dispatch, lane::kMaxQueueDepth> lines_;
};

// The arguments of every task of a workload, made once.
struct Prepared {
  std::vector<std::vector<wire::TensorRef>> tensors;
  std::vector<std::vector<TensorArgType>> tags;
  std::vector<std::vector<sol::TensorArg>> sol;
};

class EngineRig {
 public:
  explicit EngineRig(uint32_t window = 16384, uint64_t buffer_bytes = uint64_t{1} << 24)
      : tables_(require(memory::SharedTables::create())),
        arena_(require(memory::ArgsArena::create({.slots = window}))),
        lane_(WorkerType::kNextLevel, 0),
        blocker_(WorkerType::kNextLevel, 1),
        engine_({.window = window}, *tables_, *arena_, nullptr) {
    require(engine_.add_lane(lane_));
    require(engine_.add_lane(blocker_));
    for (auto& buffer : buffers_) {
      BufferDescriptor descriptor;
      descriptor.identity = tables_->mint_identity();
      descriptor.nbytes = buffer_bytes;
      set_body_address(descriptor, 0x1000);
      buffer = require(tables_->put_buffer(descriptor));
      descriptors_.push_back(descriptor);
    }
    cell_ = layout({1}, {1});
    blocker_.stopped = true;
  }

  uint32_t layout(std::vector<uint32_t> shape, std::vector<uint32_t> strides) {
    return tables_->intern_layout(require(make_tensor(descriptors_[0], shape, DataType::kInt64, strides, 0)));
  }
  wire::TensorRef view(uint32_t buffer, uint32_t layout_index, uint64_t offset) const {
    return {buffers_[buffer].index, buffers_[buffer].generation, layout_index, 0, offset};
  }
  wire::TensorRef cell(uint32_t buffer, uint64_t index) const { return view(buffer, cell_, index * 8); }

  Prepared prepare(const sol::Workload& workload) const {
    Prepared prepared;
    for (uint32_t t = 0; t < workload.task_count(); ++t) {
      auto& tensors = prepared.tensors.emplace_back();
      auto& tags = prepared.tags.emplace_back();
      auto& yard = prepared.sol.emplace_back();
      for (const sol::CellAccess& access : workload.task(t)) {
        tensors.push_back(cell(access.buffer, access.cell));
        tags.push_back(access.reads ? (access.writes ? TensorArgType::kInout : TensorArgType::kInput)
                                    : TensorArgType::kOutput);
        yard.push_back({(uint64_t{access.buffer} << 32) | access.cell, uint64_t{access.cell} * 8,
                        access.reads ? (access.writes ? sol::Mode::kInOut : sol::Mode::kIn) : sol::Mode::kOut, cell_});
      }
    }
    return prepared;
  }

  void submit(const engine::RunRef& run, std::span<const wire::TensorRef> tensors, std::span<const TensorArgType> tags,
              uint32_t worker = 0) {
    const engine::MemberArgs member{tensors, tags, {}, worker};
    engine::TaskRequest request;
    request.callable = 1;
    request.members = {&member, 1};
    engine::TaskId task;
    require(engine_.submit(run, request, &task));
  }

  // Keeps later runs from executing until `unblock`.
  void block() {
    const engine::RunRef run = require(engine_.begin_run());
    submit(run, {}, {}, 1);
    require(engine_.close_run(run));
    engine_.release(run);
  }
  // Ends everything that is unfinished.
  void unblock() {
    blocker_.stopped = false;
    drain();
    blocker_.stopped = true;
  }
  void drain() {
    while (engine_.unfinished_runs() != 0) engine_.pump(64);
    engine_.news().clear();
  }

  engine::Engine& engine() { return engine_; }
  InstantLane& lane() { return lane_; }
  memory::ArgsArena& arena() { return *arena_; }

 private:
  std::unique_ptr<memory::SharedTables> tables_;
  std::unique_ptr<memory::ArgsArena> arena_;
  InstantLane lane_;
  InstantLane blocker_;
  engine::Engine engine_;
  std::array<memory::BufferRef, 2> buffers_;
  std::vector<BufferDescriptor> descriptors_;
  uint32_t cell_ = 0;
};

// Whether a workload, executed through the engine, leaves the cells of the serial computation.
inline bool executes_right(const sol::Workload& workload) {
  EngineRig rig;
  const Prepared prepared = rig.prepare(workload);
  std::vector<uint64_t> cells(uint64_t{2} * workload.cells_per_buffer);
  std::vector<uint32_t> task_of_slot(16384);
  rig.lane().body = [&](const wire::Dispatch& dispatch) {
    const uint32_t task = task_of_slot[dispatch.slot];
    sol::body(workload.task(task), task, cells, workload.cells_per_buffer);
  };
  const engine::RunRef run = require(rig.engine().begin_run());
  for (uint32_t t = 0; t < workload.task_count(); ++t) {
    const engine::MemberArgs member{prepared.tensors[t], prepared.tags[t], {}, 0};
    engine::TaskRequest request;
    request.callable = 1;
    request.members = {&member, 1};
    engine::TaskId task;
    require(rig.engine().submit(run, request, &task));
    task_of_slot[task.slot] = t;
    if (t % 4 == 3) rig.engine().pump(3);
  }
  require(rig.engine().close_run(run));
  rig.drain();
  require(rig.engine().check_consistency());
  return cells == sol::serial_cells(workload);
}

// ns for one task: the submission of the whole workload, while nothing executes.
inline double submit_engine(EngineRig& rig, const Prepared& prepared) {
  rig.block();
  const engine::RunRef run = require(rig.engine().begin_run());
  const size_t count = prepared.tensors.size();
  const double begin = now_ns();
  for (size_t t = 0; t < count; ++t) rig.submit(run, prepared.tensors[t], prepared.tags[t]);
  const double end = now_ns();
  require(rig.engine().close_run(run));
  rig.unblock();
  rig.engine().release(run);
  return (end - begin) / static_cast<double>(count);
}

}  // namespace simpler::bench
