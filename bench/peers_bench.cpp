// Ours beside the task runtimes that Debian packages: entries 1 and 11 of docs/performance.md where they name a peer.
//
// All arms run in one process, in turn, the same number of untimed and of timed runs each. A peer that is not installed
// is named and left out. The engine's child is forked before a peer starts its threads.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "e2e_rig.h"
#include "engine_rig.h"
#include "harness/harness.h"
#include "peers/peer_runtime.h"

namespace simpler::bench {
namespace {

struct PeerKind {
  const char* suffix;
  const char* title;
  std::unique_ptr<PeerRuntime> (*make)(const sol::Workload&);
};
constexpr PeerKind kStarpu{"starpu", "StarPU", make_starpu};
constexpr PeerKind kTbb{"tbb", "oneTBB", make_tbb};

using Run = std::function<double()>;

// The other arm has had the caches meanwhile, and our window takes more than one run to be touched everywhere: the
// median of some runs after others that are not timed.
double warm(const Run& run) {
  constexpr int kUntimed = 3;
  constexpr int kTimed = 3;
  for (int i = 0; i < kUntimed; ++i) run();
  std::vector<double> spent;
  for (int i = 0; i < kTimed; ++i) spent.push_back(run());
  return median(spent);
}

// Checks ours and the peer's, then compares them; `of_peer` is what is timed of the peer.
void beside(Harness& harness, const PeerKind& kind, const sol::Workload& workload, const std::string& name,
            double target, const std::function<bool()>& ours_is_right, const Run& ours,
            double (PeerRuntime::*of_peer)()) {
  if (!harness.wants(name)) return;
  const std::unique_ptr<PeerRuntime> peer = kind.make(workload);
  if (peer == nullptr) {
    std::printf("%-28s not measured: %s is not installed\n", name.c_str(), kind.title);
    return;
  }
  harness.check(name, [&] { return ours_is_right() && peer->execute() == sol::serial_cells(workload); });
  harness.compare({.name = name,
                   .subject = {"engine", [&] { return warm(ours); }},
                   .yardsticks = {{kind.title, [&] { return warm([&] { return (peer.get()->*of_peer)(); }); }}},
                   .target = target,
                   .batches = 5});
}

std::string name_of(const char* entry, const sol::Workload& workload, const PeerKind& kind) {
  return std::string(entry) + "/" + workload.name + "." + kind.suffix;
}

void e2e_entries(Harness& harness) {
  const sol::Workload stencil = sol::make_stencil(64, 200);
  if (!harness.wants(name_of("e2e", stencil, kTbb)) && !harness.wants(name_of("e2e", stencil, kStarpu))) return;
  harness.check("e2e/stencil.tbb edges", [&] { return edges_of(stencil).size() == 37'810; });
  E2eRig rig;
  const Prepared prepared = rig.prepare(stencil);
  const auto is_right = [&] {
    std::fill_n(rig.cells(), 2 * sol::Child::kCellsPerBuffer, 0);
    rig.run(prepared, checking_body(stencil.name));
    return cells_match(stencil, rig.cells());
  };
  const auto ours = [&] {
    Pinned near(0);
    const double begin = now_ns();
    rig.run(prepared, kEmptyBody);
    return (now_ns() - begin) / stencil.task_count();
  };
  beside(harness, kTbb, stencil, name_of("e2e", stencil, kTbb), 1.0, is_right, ours, &PeerRuntime::run);
  beside(harness, kStarpu, stencil, name_of("e2e", stencil, kStarpu), 1.0 / 20, is_right, ours, &PeerRuntime::run);
}

// The bar of 1/25 is the stencil's. The other graphs have none, so theirs is to be faster than the peer.
void submit_entries(Harness& harness) {
  for (const sol::Workload& workload : sol::standard_workloads()) {
    const std::string name = name_of("submit", workload, kStarpu);
    if (!harness.wants(name)) continue;
    EngineRig rig;
    const Prepared prepared = rig.prepare(workload);
    const double target = workload.name == "stencil" ? 1.0 / 25 : 1.0;
    beside(
        harness, kStarpu, workload, name, target, [&] { return executes_right(workload); },
        [&] { return submit_engine(rig, prepared); }, &PeerRuntime::submit);
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::e2e_entries(harness);
  simpler::bench::submit_entries(harness);
  return harness.finish();
}
