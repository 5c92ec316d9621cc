#include "simulation/sim_judge.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace simpler::simulation {

namespace {

std::string name_of(const SimTask& task) {
  return "task " + std::to_string(task.number);
}

}  // namespace

Judge::Judge(Scene& scene) : scene_(scene), spaces_(kBuffers), usage_(kBuffers) {}

void Judge::run_begins() {
  for (Usage& usage : usage_) {
    for (Users& users : usage) {
      users.writer = kNoOne;
      users.readers.clear();
    }
  }
}

void Judge::space_added() {
  spaces_.emplace_back();
  usage_.emplace_back();
}

// Edges that the bytes demand of an accepted task, and the oracle's picture afterwards.
void Judge::accepted(SimTask& task) {
  for (size_t m = 0; m < task.views.size(); ++m) {
    for (size_t i = 0; i < task.views[m].size(); ++i) {
      const View& view = task.views[m][i];
      for (const uint8_t cell : view.cells) {
        const Users& users = usage_[view.space][cell];
        if (users.writer != kNoOne) task.after.push_back(users.writer);
        if (writes(task.tags[m][i])) task.after.insert(task.after.end(), users.readers.begin(), users.readers.end());
      }
    }
  }
  std::sort(task.after.begin(), task.after.end());
  task.after.erase(std::unique(task.after.begin(), task.after.end()), task.after.end());
  use(task);
}

void Judge::use(const SimTask& task) {
  for (size_t m = 0; m < task.views.size(); ++m) {
    for (size_t i = 0; i < task.views[m].size(); ++i) {
      const View& view = task.views[m][i];
      for (const uint8_t cell : view.cells) {
        Users& users = usage_[view.space][cell];
        if (!writes(task.tags[m][i])) {
          if (users.readers.empty() || users.readers.back() != task.number) users.readers.push_back(task.number);
          continue;
        }
        users.readers.clear();
        users.writer = task.number;
      }
    }
  }
}

void Judge::skipped(SimTask& task) {
  --task.members_left;
  task.fate = Fate::kFailed;
  scene_.runs[task.run].disturbed = true;
}

void Judge::starts(SimTask& task, size_t member, const wire::Dispatch& dispatch) {
  if (task.fate == Fate::kSucceeded) scene_.complain(name_of(task) + " runs twice");
  if (task.fate == Fate::kWaiting) task.fate = Fate::kRunning;
  for (const uint32_t earlier : task.after) {
    if (scene_.tasks[earlier].fate != Fate::kSucceeded) {
      scene_.complain(name_of(task) + " starts before its producer " + std::to_string(earlier) + " has succeeded");
    }
  }
  if (!is_head(task.run)) scene_.complain(name_of(task) + " starts in a run that is not the head");
  if (dispatch.tensors != task.views[member].size()) scene_.complain("wrong number of tensors in a line");
  for (const View& view : task.views[member]) {
    if (!scene_.ground.tables->buffer_live(view.ref.buffer, view.ref.generation)) {
      scene_.complain(name_of(task) + " names memory that was given back");
    }
  }
  check_arguments(task, member, dispatch);
  task.digests[member] = digest_of(spaces_, task, member);
}

// Whether every run before this one is over, and this one is not.
bool Judge::is_head(uint32_t run) const {
  for (uint32_t i = 0; i < run; ++i) {
    const engine::RunRef& ref = scene_.runs[i].ref;
    if (ref.record->id == ref.id && !ref.record->is_done()) return false;
  }
  const engine::RunRef& ref = scene_.runs[run].ref;
  return ref.record->id == ref.id && !ref.record->is_done();
}

void Judge::check_arguments(const SimTask& task, size_t member, const wire::Dispatch& dispatch) {
  if (dispatch.tensors == 0) return;
  if ((dispatch.flags & wire::kFlagInlineTensor) != 0) {
    if (!(dispatch.inline_tensor == task.views[member][0].ref)) scene_.complain("wrong inline tensor");
    return;
  }
  const auto* refs = reinterpret_cast<const wire::TensorRef*>(scene_.ground.arena->at(dispatch.args));
  for (size_t i = 0; i < task.views[member].size(); ++i) {
    if (!(refs[i] == task.views[member][i].ref)) scene_.complain("wrong tensor in an argument block");
  }
}

void Judge::ends(SimTask& task, size_t member) {
  if (task.will_fail) {
    task.fate = Fate::kFailed;
    scene_.runs[task.run].disturbed = true;
  } else {
    write(spaces_, task, member);
    task.ended[member] = true;
  }
  if (--task.members_left == 0 && task.fate == Fate::kRunning) task.fate = Fate::kSucceeded;
}

void Judge::lost(SimTask& task) {
  --task.members_left;
  task.fate = Fate::kFailed;
}

void Judge::hear_news() {
  engine::EngineNews& news = scene_.engine->news();
  for (const auto& finished : news.finished) {
    for (const SimRun& run : scene_.runs) {
      if (run.ref.record == finished.record && run.id == finished.record->id) check_run_end(run);
    }
  }
  for (const auto& overdue : news.overdue) {
    for (SimRun& run : scene_.runs) {
      if (run.id == overdue.task.run) run.disturbed = true;
    }
  }
  news = {};
}

void Judge::check_run_end(const SimRun& run) {
  const engine::RunRecord& record = *run.ref.record;
  if (!run.disturbed && !record.errors.empty()) {
    scene_.complain("a quiet run failed: " + record.errors.front().describe());
  }
  if (run.unbalanced && record.errors.empty()) scene_.complain("unbalanced scopes went unnoticed");
  if (record.errors.empty() != (record.phase == RunPhase::kCompleted)) scene_.complain("phase and errors disagree");
  if (!record.errors.empty()) ++scene_.result.failed_runs;
}

void Judge::close() {
  check_leftovers();
  for (const SimRun& run : scene_.runs) {
    if (!run.ref.record->is_done()) scene_.complain("a run is not terminal");
    scene_.engine->release(run.ref);
  }
  for (const SimTask& task : scene_.tasks) {
    if (!scene_.runs[task.run].disturbed && task.fate != Fate::kSucceeded) {
      scene_.complain("a task of a quiet run did not run");
    }
  }
  compare_with_serial();
}

void Judge::check_leftovers() {
  const Status consistent = scene_.engine->check_consistency();
  if (!consistent.is_ok()) scene_.complain(consistent.describe());
  const Ground& ground = scene_.ground;
  if (ground.arena->live_blocks() != 0) scene_.complain("argument blocks are left");
  for (uint32_t region = 0; region < memory::kHeapRegions; ++region) {
    if (ground.heap->live_bytes(region) != 0) scene_.complain("heap spans are left");
  }
  for (const memory::BufferRef& buffer : ground.buffers) {
    if (ground.tables->runs_naming(buffer.index) != 0) scene_.complain("a finished run still names a buffer");
  }
}

// Members that ended well, one after the other in the order of their submission, must have read and left the same.
void Judge::compare_with_serial() {
  std::deque<Bytes> serial(spaces_.size());
  for (const SimTask& task : scene_.tasks) {
    for (size_t m = 0; m < task.views.size(); ++m) {
      if (!task.ended[m]) continue;
      if (digest_of(serial, task, m) != task.digests[m]) {
        scene_.complain(name_of(task) + " read other bytes than in a serial execution");
      }
      write(serial, task, m);
    }
  }
  for (size_t space = 0; space < spaces_.size(); ++space) {
    for (const uint64_t value : spaces_[space]) scene_.mix(value);
    if (spaces_[space] != serial[space]) scene_.complain("the bytes differ from a serial execution");
  }
}

uint64_t Judge::digest_of(const std::deque<Bytes>& spaces, const SimTask& task, size_t member) const {
  uint64_t digest = task.number + 1;
  for (size_t i = 0; i < task.views[member].size(); ++i) {
    const View& view = task.views[member][i];
    if (!reads(task.tags[member][i])) continue;
    for (const uint8_t cell : view.cells) digest = digest * 31 + spaces[view.space][cell];
  }
  return digest;
}

void Judge::write(std::deque<Bytes>& spaces, const SimTask& task, size_t member) {
  for (size_t i = 0; i < task.views[member].size(); ++i) {
    if (!writes(task.tags[member][i])) continue;
    const View& view = task.views[member][i];
    for (size_t k = 0; k < view.cells.size(); ++k) {
      spaces[view.space][view.cells[k]] = task.digests[member] * 7 + i * 1000 + k;
    }
  }
}

}  // namespace simpler::simulation
