// The program that a world runs: it begins runs, submits tasks with random views and tags, allocates, opens and ends
// scopes, and closes each run or fails it.
//
// It looks at the scene to know what it may name and tells the Judge what was accepted. A refusal is judged here,
// because only the builder knows whether it asked for something impossible.
#pragma once

#include <cstdint>
#include <vector>

#include "simulation/sim_judge.h"
#include "simulation/sim_scene.h"

namespace simpler::simulation {

class Builder {
 public:
  Builder(Scene& scene, Judge& judge) : scene_(scene), judge_(judge) {}

  // One step of the program; false when it had to wait or had nothing to do.
  bool step();
  bool finished() const { return scene_.runs.size() == scene_.plan.runs && (!building_ || scene_.runs.back().closed); }

 private:
  struct Draft;

  bool begin();
  bool close(SimRun& run);
  bool fail(SimRun& run);
  bool begin_scope(SimRun& run);
  bool end_scope(SimRun& run);
  bool alloc(SimRun& run);
  bool submit(SimRun& run);
  bool draw_members(const SimRun& run, Draft& draft);
  View draw_view(const SimRun& run);
  uint64_t draw_origin(size_t kind);
  void draw_rest(const SimRun& run, Draft& draft);
  bool hand_in(SimRun& run, Draft& draft);
  bool refused(SimRun& run, const SimTask& task, const Status& status);

  Scene& scene_;
  Judge& judge_;
  bool building_ = false;
};

}  // namespace simpler::simulation
