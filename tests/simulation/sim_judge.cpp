#include "simulation/sim_judge.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace simpler::simulation {

namespace {

std::string name_of(const SimTask& task) {
  return "task " + std::to_string(task.number);
}

void sort_unique(std::vector<uint32_t>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
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

// Who used a cell before decides. A serial order needs the writer, and for a write the readers since then. The weaker
// rules promise only that whoever reads a byte comes after its last writer.
void Judge::demand(SimTask& task) const {
  for (size_t m = 0; m < task.views.size(); ++m) {
    for (size_t i = 0; i < task.views[m].size(); ++i) {
      const TensorArgType tag = task.tags[m][i];
      const bool weak = scene_.plan.weak();
      std::vector<uint32_t>& by_writer = weak && !reads(tag) ? task.beside : task.after;
      std::vector<uint32_t>& by_readers = weak ? task.beside : task.after;
      for (const uint8_t cell : task.views[m][i].cells) {
        const Users& users = usage_[task.views[m][i].space][cell];
        if (users.writer != kNoOne) by_writer.push_back(users.writer);
        if (writes(tag)) by_readers.insert(by_readers.end(), users.readers.begin(), users.readers.end());
      }
    }
  }
  sort_unique(task.after);
  sort_unique(task.beside);
  std::erase_if(task.beside,
                [&](uint32_t other) { return std::binary_search(task.after.begin(), task.after.end(), other); });
}

void Judge::accepted(const SimTask& task) {
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
  if (!scene_.runs[task.run].disturbed) scene_.complain(name_of(task) + " is skipped in a quiet run");
  --task.members_left;
  task.fate = Fate::kFailed;
}

void Judge::starts(SimTask& task, size_t member, const wire::Dispatch& dispatch) {
  check_start(task);
  if (task.fate == Fate::kWaiting) task.fate = Fate::kRunning;
  if (dispatch.tensors != task.views[member].size()) scene_.complain("wrong number of tensors in a line");
  for (const View& view : task.views[member]) {
    if (!scene_.ground.tables->buffer_live(view.ref.buffer, view.ref.generation)) {
      scene_.complain(name_of(task) + " names memory that was given back");
    }
  }
  check_arguments(task, member, dispatch);
  task.digests[member] = digest_of(spaces_, task, member);
}

void Judge::check_start(const SimTask& task) {
  if (task.fate == Fate::kSucceeded) scene_.complain(name_of(task) + " runs twice");
  for (const uint32_t earlier : task.after) {
    if (scene_.tasks[earlier].fate != Fate::kSucceeded) {
      scene_.complain(name_of(task) + " starts before its producer " + std::to_string(earlier) + " has succeeded");
    }
  }
  if (!is_head(task.run)) scene_.complain(name_of(task) + " starts in a run that is not the head");
  if (scene_.runs[task.run].stopped) scene_.complain(name_of(task) + " starts although its run was stopped");
  const bool overtakes = std::any_of(task.beside.begin(), task.beside.end(), [this](uint32_t other) {
    return scene_.tasks[other].fate == Fate::kWaiting || scene_.tasks[other].fate == Fate::kRunning;
  });
  if (overtakes) ++scene_.result.overtaking;
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
    Scene::disturb(scene_.runs[task.run], false);
  } else {
    write(spaces_, task, member);
    task.ended[member] = true;
  }
  if (--task.members_left == 0 && task.fate == Fate::kRunning) task.fate = Fate::kSucceeded;
}

void Judge::lost(SimTask& task) {
  --task.members_left;
  task.fate = Fate::kFailed;
  Scene::disturb(scene_.runs[task.run], false);
}

void Judge::hear_news() {
  engine::EngineNews& news = scene_.engine->news();
  for (SimRun& run : scene_.runs) {
    const engine::RunRecord& record = *run.ref.record;
    // Its own deadline or one of a task: the engine cancels the run by itself.
    if (std::any_of(record.errors.begin(), record.errors.end(),
                    [](const Status& why) { return why.code() == StatusCode::kTimeout; })) {
      Scene::disturb(run, true);
    }
    if (run.ref.record == news.run && run.id == news.run->id) check_run_end(run);
    for (const auto& finished : news.finished) {
      if (run.ref.record == finished.record && run.id == finished.record->id) check_run_end(run);
    }
  }
  for (const auto& overdue : news.overdue) {
    for (const SimRun& run : scene_.runs) {
      if (run.id == overdue.task.run && !run.stopped) scene_.complain("a late task did not stop its run");
    }
  }
  const bool listed =
      !news.finished.empty() || !news.warnings.empty() || !news.overdue.empty() || !news.condemned.empty();
  if (news.more != listed) scene_.complain("news that the driver would not look at");
  news = {};
}

void Judge::check_run_end(SimRun& run) {
  const engine::RunRecord& record = *run.ref.record;
  if (++run.ends > 1) scene_.complain("the end of a run is told twice");
  if (!run.disturbed && !record.errors.empty()) {
    scene_.complain("a quiet run failed: " + record.errors.front().describe());
  }
  if (run.must_fail && record.errors.empty()) scene_.complain("a run that had to fail ended without an error");
  if (record.errors.empty() != (record.phase == RunPhase::kCompleted)) scene_.complain("phase and errors disagree");
  if (!record.errors.empty()) ++scene_.result.failed_runs;
}

void Judge::close() {
  check_leftovers();
  for (const SimRun& run : scene_.runs) {
    if (!run.ref.record->is_done()) scene_.complain("a run is not terminal");
    if (run.ends == 0) scene_.complain("the end of a run was not told");
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
  for (const Bytes& space : spaces_) {
    for (const uint64_t value : space) scene_.mix(value);
  }
  if (!scene_.plan.serial()) return;
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
  if (spaces_ != serial) scene_.complain("the bytes differ from a serial execution");
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
