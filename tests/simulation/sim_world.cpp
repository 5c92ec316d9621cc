// Steps a world: draws what moves next, and lets children start, end and die.
#include "simulation/sim_world.h"

#include <memory>
#include <unordered_map>
#include <vector>

#include "simulation/sim_builder.h"
#include "simulation/sim_judge.h"
#include "simulation/sim_lane.h"
#include "simulation/sim_scene.h"

namespace simpler::simulation {

namespace {

class World {
 public:
  World(Ground& ground, uint64_t seed, bool trace)
      : scene_(ground, seed, trace), judge_(scene_), builder_(scene_, judge_) {
    for (uint32_t i = 0; i < scene_.plan.next_levels; ++i) add_lane(WorkerType::kNextLevel, i, 0);
    for (uint32_t i = 0; i < scene_.plan.subs; ++i) add_lane(WorkerType::kSub, i, 0);
  }

  WorldResult run() {
    WorldResult& result = scene_.result;
    uint32_t quiet = 0;
    for (uint32_t step = 0; result.problem.empty(); ++step) {
      if (builder_.finished() && scene_.engine->unfinished_runs() == 0) break;
      const bool moved = one_step();
      quiet = moved ? 0 : quiet + 1;
      if (quiet > 400 && !force_progress()) {
        scene_.complain("nothing moves any more");
        break;
      }
      if (step > 400'000) scene_.complain("the world does not end");
    }
    if (result.problem.empty()) judge_.close();
    result.tasks = static_cast<uint32_t>(scene_.tasks.size());
    result.pushed_early = static_cast<uint32_t>(scene_.engine->counters().pushed_early);
    return result;
  }

 private:
  void add_lane(WorkerType type, uint32_t worker, uint32_t incarnation) {
    lane::LaneInfo info;
    info.type = type;
    info.worker_id = worker;
    info.queue_depth = static_cast<uint32_t>(1 + scene_.random.below(scene_.random.below(3) == 0 ? 32 : 4));
    info.in_order = !scene_.chance(20);
    info.incarnation = incarnation;
    lanes_.push_back(std::make_unique<SimLane>(info, info.in_order ? 1 : 2));
    lanes_.back()->member_of = [this](const wire::Dispatch& dispatch) {
      return pushes_[uint64_t{dispatch.slot} << 32 | dispatch.slot_generation]++;
    };
    const auto id = scene_.engine->add_lane(*lanes_.back());
    if (!id.ok()) {
      scene_.complain("add_lane: " + id.status().describe());
      return;
    }
    if (id->value >= lane_of_id_.size()) lane_of_id_.resize(id->value + 1);
    lane_of_id_[id->value] = lanes_.back().get();
  }

  bool one_step() {
    const uint64_t what = scene_.random.below(100);
    if (what < 35) return builder_.step();
    if (what < 70) return child_step();
    if (what < 95) return pump();
    if (what < 97) return tick();
    if (what < 98 && scene_.plan.may_lose) return lose();
    if (what < 99 && scene_.plan.may_cancel && scene_.chance(10)) return cancel();
    return pump();
  }

  // Everything that could move, once: what still does not move is stuck.
  bool force_progress() {
    bool moved = scene_.engine->pump(64) != 0;
    judge_.hear_news();
    for (SimLane* lane : lane_of_id_) {
      if (!lane->alive()) continue;
      for (const size_t at : lane->running()) {
        end(*lane, at);
        moved = true;
      }
      if (const std::vector<size_t> startable = lane->startable(); !startable.empty()) {
        start(*lane, startable.front());
        moved = true;
      }
    }
    for (int i = 0; i < 20; ++i) moved = builder_.step() || moved;
    return moved;
  }

  bool pump() {
    const uint32_t handled = scene_.engine->pump(static_cast<uint32_t>(1 + scene_.random.below(8)));
    judge_.hear_news();
    return handled != 0;
  }

  bool tick() {
    now_ += static_cast<Nanos>(scene_.random.below(20)) * kMillisecond;
    scene_.engine->tick(now_);
    judge_.hear_news();
    return false;
  }

  // --- children ----------------------------------------------------------------------------------------------------

  bool child_step() {
    SimLane& lane = *lane_of_id_[scene_.random.below(lane_of_id_.size())];
    if (scene_.plan.slow_child && &lane == lane_of_id_[0] && !scene_.chance(10)) return false;
    if (!lane.alive()) return false;
    const std::vector<size_t> running = lane.running();
    if (!running.empty() && scene_.chance(60)) {
      end(lane, running[scene_.random.below(running.size())]);
      return true;
    }
    const std::vector<size_t> startable = lane.startable();
    if (startable.empty()) return false;
    start(lane, startable[scene_.random.below(startable.size())]);
    return true;
  }

  void start(SimLane& lane, size_t at) {
    const SimLane::Line& line = lane.lines()[at];
    SimTask& task = scene_.task_of(line.dispatch);
    scene_.mix(task.number * 2 + 1);
    if (!lane.start(at)) {
      scene_.note("skip  %u\n", task.number);
      judge_.skipped(task);
      return;
    }
    scene_.note("start %u on %u\n", task.number, lane.info().worker_id);
    judge_.starts(task, line.member, line.dispatch);
  }

  void end(SimLane& lane, size_t at) {
    const SimLane::Line& line = lane.lines()[at];
    SimTask& task = scene_.task_of(line.dispatch);
    scene_.mix(task.number * 2);
    scene_.note("end   %u %s\n", task.number, task.will_fail ? "failing" : "");
    judge_.ends(task, line.member);
    lane.end(at, task.will_fail ? lane::Outcome::kTaskFailure : lane::Outcome::kSuccess);
  }

  // --- trouble -----------------------------------------------------------------------------------------------------

  bool lose() {
    if (!scene_.chance(15)) return false;
    const auto id = static_cast<uint32_t>(scene_.random.below(lane_of_id_.size()));
    SimLane& lane = *lane_of_id_[id];
    if (!lane.alive()) {
      if (scene_.engine->lane(LaneId{id}).info().worker_id != lane.info().worker_id) return false;
      scene_.note("new child %u\n", id);
      add_lane(lane.info().type, lane.info().worker_id, lane.info().incarnation + 1);
      return true;
    }
    scene_.note("lose  lane %u\n", id);
    ++scene_.result.lost_lanes;
    for (const SimLane::Line& line : lane.lines()) {
      if (line.stage != SimLane::Stage::kEnded) judge_.lost(scene_.task_of(line.dispatch));
    }
    // Any run that is not finished may have work for the lost lane.
    for (SimRun& run : scene_.runs) run.disturbed = true;
    scene_.engine->lane_lost(LaneId{id}, peer_lost("simulated loss of a child"));
    judge_.hear_news();
    return true;
  }

  bool cancel() {
    if (scene_.runs.empty()) return false;
    SimRun& run = scene_.runs[scene_.random.below(scene_.runs.size())];
    if (run.ref.record->id != run.id) return false;
    scene_.note("cancel run %u\n", static_cast<uint32_t>(run.id));
    if (!run.ref.record->is_done()) Scene::disturb(run, true);
    scene_.engine->cancel(run.ref, cancelled("simulated cancel"));
    judge_.hear_news();
    return true;
  }

  Scene scene_;
  Judge judge_;
  Builder builder_;
  std::vector<std::unique_ptr<SimLane>> lanes_;
  std::vector<SimLane*> lane_of_id_;
  std::unordered_map<uint64_t, uint32_t> pushes_;  // lines pushed for each name: the n-th is member n
  Nanos now_ = 1;
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
