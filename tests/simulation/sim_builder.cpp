#include "simulation/sim_builder.h"

#include <algorithm>
#include <string>

namespace simpler::simulation {

struct Builder::Draft {
  SimTask task;
  bool sub = false;
  bool bad = false;  // one tensor overlaps what another of the same member writes
  uint32_t first_worker = 0;
  std::vector<uint64_t> scalars;
  std::vector<engine::Dependency> dependencies;
  Nanos timeout = 0;
};

namespace {

// Whether two tensors of one member share a cell that one of them writes.
bool overlaps_badly(const std::vector<View>& views, const std::vector<TensorArgType>& tags) {
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
bool members_collide(const SimTask& task) {
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

}  // namespace

bool Builder::step() {
  if (!building_) {
    if (scene_.runs.size() == scene_.plan.runs) return false;
    return begin();
  }
  SimRun& run = scene_.runs.back();
  if (scene_.tasks.size() - run.first_task >= run.planned) return close(run);
  const uint64_t what = scene_.random.below(100);
  if (what < 80) return submit(run);
  if (what < 86) return alloc(run);
  if (what < 92) return begin_scope(run);
  if (what < 99 && run.scopes > 0) return end_scope(run);
  if (scene_.plan.may_fail && scene_.chance(3)) return fail(run);
  return false;
}

// --- runs and scopes -----------------------------------------------------------------------------------------------

bool Builder::begin() {
  engine::RunOptions options;
  if (scene_.chance(5)) options.timeout = static_cast<Nanos>(1 + scene_.random.below(1000)) * kMillisecond;
  auto ref = scene_.engine->begin_run(options);
  if (scene_.engine->unfinished_runs() > scene_.plan.options.max_runs) scene_.complain("a run too many was admitted");
  if (!ref.ok()) {
    const bool full = scene_.engine->unfinished_runs() == scene_.plan.options.max_runs;
    if (!full || ref.status().code() != StatusCode::kWouldBlock) {
      scene_.complain("begin_run: " + ref.status().describe());
    }
    return false;
  }
  SimRun run;
  run.ref = *ref;
  run.id = ref->id;
  run.first_task = static_cast<uint32_t>(scene_.tasks.size());
  run.planned = static_cast<uint32_t>(scene_.random.below(scene_.chance(8) ? 300 : 30));
  run.disturbed = options.timeout != 0;
  scene_.runs.push_back(run);
  building_ = true;
  judge_.run_begins();
  return true;
}

bool Builder::close(SimRun& run) {
  const bool leave_open = run.scopes > 0 && scene_.chance(3);
  while (run.scopes > 0 && !leave_open) end_scope(run);
  run.closed = true;
  building_ = false;
  if (leave_open) Scene::disturb(run, true);
  const Status status = scene_.engine->close_run(run.ref);
  if (leave_open == status.is_ok()) scene_.complain("close_run with unbalanced scopes: " + status.describe());
  judge_.hear_news();
  return true;
}

bool Builder::fail(SimRun& run) {
  scene_.note("callback of run %u fails\n", static_cast<uint32_t>(run.id));
  Scene::disturb(run, true);
  run.closed = true;
  building_ = false;
  scene_.engine->fail_run(run.ref, task_failed("simulated failure of the callback"));
  judge_.hear_news();
  return true;
}

bool Builder::begin_scope(SimRun& run) {
  if (run.scopes >= 5 || !scene_.engine->scope_begin(run.ref).is_ok()) return false;
  ++run.scopes;
  run.scope_spaces.push_back(static_cast<uint32_t>(run.spaces.size()));
  return true;
}

bool Builder::end_scope(SimRun& run) {
  const Status status = scene_.engine->scope_end(run.ref);
  if (!status.is_ok()) scene_.complain("scope_end: " + status.describe());
  --run.scopes;
  run.spaces.resize(run.scope_spaces.back());
  run.scope_spaces.pop_back();
  return true;
}

bool Builder::alloc(SimRun& run) {
  const uint64_t bytes =
      scene_.plan.big_allocations ? (uint64_t{1} << 18) * (1 + scene_.random.below(4)) : uint64_t{kCells * 8};
  auto allocation = scene_.engine->alloc(run.ref, bytes);
  if (!allocation.ok()) {
    const StatusCode code = allocation.status().code();
    if (code == StatusCode::kWouldBlock) {
      ++scene_.result.blocked;
    } else if (code != StatusCode::kResourceExhausted && !run.disturbed) {
      scene_.complain("alloc: " + allocation.status().describe());
    }
    return false;
  }
  run.spaces.push_back(static_cast<uint32_t>(scene_.refs.size()));
  scene_.refs.push_back(allocation->buffer);
  judge_.space_added();
  return true;
}

// --- tasks ---------------------------------------------------------------------------------------------------------

bool Builder::submit(SimRun& run) {
  // Most builders look before they ask; some find out by being refused.
  if (scene_.engine->full() && scene_.chance(95)) {
    ++scene_.result.blocked;
    return false;
  }
  Draft draft;
  draft.task.number = static_cast<uint32_t>(scene_.tasks.size());
  draft.task.run = static_cast<uint32_t>(scene_.runs.size() - 1);
  if (!draw_members(run, draft)) return false;
  draw_rest(run, draft);
  return hand_in(run, draft);
}

// Views and tags of each member; false for a group whose members have no serial order.
bool Builder::draw_members(const SimRun& run, Draft& draft) {
  SeededRandom& random = scene_.random;
  draft.sub = scene_.plan.subs > 0 && scene_.chance(25);
  const uint32_t most = draft.sub ? scene_.engine->healthy_subs() : scene_.plan.next_levels;
  uint32_t members = 1;
  if (most > 1 && scene_.chance(15)) members = static_cast<uint32_t>(2 + random.below(most - 1));
  for (uint32_t m = 0; m < members; ++m) {
    auto& views = draft.task.views.emplace_back();
    auto& tags = draft.task.tags.emplace_back();
    const uint64_t count = scene_.chance(5) ? random.below(10) : random.below(4);
    for (uint64_t i = 0; i < count; ++i) {
      views.push_back(draw_view(run));
      tags.push_back(scene_.chance(3) ? TensorArgType::kNoDep : static_cast<TensorArgType>(random.below(4)));
      // A group's members run side by side: what two of them write is theirs to order.
      if (members > 1) tags.back() = TensorArgType::kInput;
      if (tags.back() == TensorArgType::kNoDep) views.back().cells.clear();
    }
    if (members > 1 && !views.empty() && scene_.chance(60)) {
      views.resize(1);
      tags.assign(1, TensorArgType::kInout);
    }
    draft.bad = draft.bad || overlaps_badly(views, tags);
  }
  return members == 1 || (!draft.bad && !members_collide(draft.task));
}

View Builder::draw_view(const SimRun& run) {
  SeededRandom& random = scene_.random;
  const Ground& ground = scene_.ground;
  View view;
  view.space = static_cast<uint32_t>(random.below(kBuffers));
  if (!run.spaces.empty() && scene_.chance(40)) view.space = run.spaces[random.below(run.spaces.size())];
  const size_t kind = scene_.chance(70) ? 1 + random.below(3) : random.below(ground.kinds.size());
  const uint64_t origin = draw_origin(kind);
  const memory::BufferRef& buffer = scene_.refs[view.space];
  view.ref = {buffer.index, buffer.generation, ground.layouts[kind], 0, origin * 8};
  const ViewKind& shape = ground.kinds[kind];
  const uint32_t columns = shape.shape.size() > 1 ? shape.shape[1] : 1;
  const uint32_t step = shape.shape.size() > 1 ? shape.strides[1] : 0;
  for (uint32_t i = 0; i < shape.shape[0]; ++i) {
    for (uint32_t k = 0; k < columns; ++k) {
      view.cells.push_back(static_cast<uint8_t>(origin + i * shape.strides[0] + k * step));
    }
  }
  return view;
}

// The first cell of a view of this kind.
uint64_t Builder::draw_origin(size_t kind) {
  SeededRandom& random = scene_.random;
  switch (kind) {
    case 1:
      return random.below(kSide) * kSide;
    case 2:
      return random.below(kSide);
    case 3: {
      const uint64_t row = random.below(kSide / 2);
      const uint64_t column = random.below(kSide / 2);
      return row * 2 * kSide + column * 2;
    }
    case 4:
      return random.below(kCells / 4) * 4;
    case 6:
      return random.below(2);
    case 8:
      return random.below(kCells - 3);
    default:
      return 0;
  }
}

void Builder::draw_rest(const SimRun& run, Draft& draft) {
  SeededRandom& random = scene_.random;
  draft.scalars.assign(random.below(4), 77);
  draft.first_worker = static_cast<uint32_t>(random.below(scene_.plan.next_levels));
  if (scene_.chance(10) && draft.task.number > run.first_task) {
    const auto producer = static_cast<uint32_t>(run.first_task + random.below(draft.task.number - run.first_task));
    draft.dependencies.push_back({scene_.tasks[producer].id, scene_.chance(50)});
    draft.task.after.push_back(producer);
  }
  if (scene_.chance(1)) draft.timeout = 50 * kMillisecond;
  judge_.demand(draft.task);
  if (!scene_.plan.adds_edges) return;
  for (const uint32_t earlier : draft.task.beside) {
    draft.dependencies.push_back({scene_.tasks[earlier].id, scene_.chance(50)});
    draft.task.after.push_back(earlier);
  }
  draft.task.beside.clear();
}

bool Builder::hand_in(SimRun& run, Draft& draft) {
  SimTask& task = draft.task;
  const auto members = static_cast<uint32_t>(task.views.size());
  std::vector<std::vector<wire::TensorRef>> refs(members);
  std::vector<engine::MemberArgs> args(members);
  for (uint32_t m = 0; m < members; ++m) {
    for (const View& view : task.views[m]) refs[m].push_back(view.ref);
    args[m] = {refs[m], task.tags[m], draft.scalars, (draft.first_worker + m) % scene_.plan.next_levels};
  }
  engine::TaskRequest request;
  request.type = draft.sub ? WorkerType::kSub : WorkerType::kNextLevel;
  request.callable = 1;
  request.members = args;
  request.dependencies = draft.dependencies;
  request.timeout = draft.timeout;
  const uint32_t live = scene_.engine->slots().live();
  const uint64_t blocks = scene_.ground.arena->live_blocks();
  const Status status = scene_.engine->submit(run.ref, request, &task.id);
  judge_.hear_news();
  if (!status.is_ok()) {
    if (scene_.engine->slots().live() != live || scene_.ground.arena->live_blocks() != blocks) {
      scene_.complain("a refused submit left a trace");
    }
    return refused(run, task, status);
  }
  if (draft.bad) {
    scene_.complain("task " + std::to_string(task.number) + " writes what it also names elsewhere, and was accepted");
  }
  scene_.note("submit %u\n", task.number);
  task.members_left = members;
  task.digests.resize(members);
  task.ended.resize(members);
  task.will_fail = scene_.plan.may_fail && scene_.chance(4);
  scene_.name_task(task);
  judge_.accepted(task);
  scene_.tasks.push_back(std::move(task));
  scene_.mix(scene_.tasks.size());
  return true;
}

bool Builder::refused(SimRun& run, const SimTask& task, const Status& status) {
  if (status.code() == StatusCode::kWouldBlock) {
    ++scene_.result.blocked;
    return false;
  }
  if (run.disturbed || !run.ref.record->errors.empty() || status.code() == StatusCode::kPeerLost) {
    run.planned = static_cast<uint32_t>(scene_.tasks.size()) - run.first_task;
    return true;
  }
  if (status.code() != StatusCode::kInvalidArgument || task.views[0].size() < 2) {
    scene_.complain("submit: " + status.describe());
  }
  return true;
}

}  // namespace simpler::simulation
