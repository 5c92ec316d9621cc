// What the engine costs without a child: entries 1, 4, 5, 20 and 26 of docs/performance.md.
//
// submit/*: nothing executes while the graph is built, as in the yardstick. Every workload is first executed and its
// final cells compared with a serial computation.
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/resource.h>

#include "engine_rig.h"
#include "harness/harness.h"

namespace simpler::bench {
namespace {

bool executes_right(const sol::Workload& workload) {
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

double submit_engine(EngineRig& rig, const Prepared& prepared) {
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

double submit_sol(sol::Graph& graph, const Prepared& prepared) {
  graph.reset();
  const double begin = now_ns();
  for (const auto& tensors : prepared.sol) graph.submit(1, tensors);
  const double end = now_ns();
  return (end - begin) / static_cast<double>(prepared.sol.size());
}

void submit_entries(Harness& harness) {
  for (const sol::Workload& workload : sol::standard_workloads()) {
    const std::string name = "submit/" + workload.name;
    if (!harness.wants(name)) continue;
    harness.check(name, [&] { return executes_right(workload); });
    EngineRig rig;
    sol::Graph graph(1 << 15, 1 << 16, 8 << 20);
    const Prepared prepared = rig.prepare(workload);
    harness.compare({.name = name,
                     .subject = {"engine", [&] { return submit_engine(rig, prepared); }},
                     .yardsticks = {{"SOL", [&] { return submit_sol(graph, prepared); }}},
                     .target = 2.0,
                     .batches = 60});
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::submit_entries(harness);
  return harness.finish();
}
