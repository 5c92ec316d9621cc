// Submit, dispatch to one child process, completion: entry 11 of docs/performance.md, and the cost of a run of one task
// and of a chain through the whole engine (entries 7, 8 and 10 with the engine).
//
// The child is a mailbox child with an empty body; in the check it computes the cells and they are compared with a
// serial computation, for the engine and for the yardstick.
#include <cstdint>
#include <string>

#include "e2e_rig.h"
#include "harness/harness.h"
#include "sol/sol_process.h"
#include "yardsticks/exchange.h"

namespace simpler::bench {
namespace {

void workload_entries(Harness& harness) {
  for (const sol::Workload& workload : sol::standard_workloads()) {
    const std::string name = "e2e/" + workload.name;
    if (!harness.wants(name)) continue;
    sol::Graph graph(1 << 15, 1 << 16, 8 << 20);
    E2eRig rig;
    const Prepared prepared = rig.prepare(workload);
    harness.check(name, [&] {
      sol::Child child(true, 1);
      sol::run_through(graph, child, prepared.sol, 64);
      rig.run(prepared, checking_body(workload.name));
      return cells_match(workload, child.cells()) && cells_match(workload, rig.cells());
    });
    const auto tasks = static_cast<double>(prepared.tensors.size());
    // A spinning yardstick child would take the processor from ours: it lives only while its arm runs.
    harness.compare({.name = name,
                     .subject = {"engine",
                                 [&] {
                                   Pinned near(0);
                                   rig.run(prepared, kEmptyBody);
                                   const double begin = now_ns();
                                   rig.run(prepared, kEmptyBody);
                                   return (now_ns() - begin) / tasks;
                                 }},
                     .yardsticks = {{"SOL",
                                     [&] {
                                       Pinned near(0);
                                       sol::Child child(false, 1);
                                       sol::run_through(graph, child, prepared.sol, 64);
                                       const double begin = now_ns();
                                       sol::run_through(graph, child, prepared.sol, 64);
                                       return (now_ns() - begin) / tasks;
                                     }}},
                     .target = 2.0,
                     .batches = 20});
  }
}

void small_entries(Harness& harness) {
  if (!harness.wants("run/one") && !harness.wants("dispatch/lane")) return;
  ExchangeYardstick exchange;
  E2eRig rig;
  const Prepared one = rig.prepare(sol::make_chain(1));
  const Prepared chain = rig.prepare(sol::make_chain(2000));
  constexpr uint32_t kUnits = 500;
  harness.compare({.name = "run/one",
                   .subject = {"driver",
                               [&] {
                                 Pinned near(0);
                                 rig.run(one, kEmptyBody);
                                 const double begin = now_ns();
                                 for (uint32_t i = 0; i < kUnits; ++i) rig.run(one, kEmptyBody);
                                 return (now_ns() - begin) / kUnits;
                               }},
                   .yardsticks = {{"PPF", [&] { return exchange.ppf(kUnits); }}},
                   .target = 2.5});
  harness.compare({.name = "dispatch/lane",
                   .subject = {"driver",
                               [&] {
                                 Pinned near(0);
                                 rig.run(one, kEmptyBody);
                                 const double begin = now_ns();
                                 rig.run(chain, kEmptyBody);
                                 return (now_ns() - begin) / 2000.0;
                               }},
                   .yardsticks = {{"PP1", [&] { return exchange.pp1(kUnits); }}},
                   .target = 0.8});
}

// One task after the other, each pushed when its predecessor's answer was seen.
void round_trip_entries(Harness& harness) {
  if (!harness.wants("dispatch/rtt")) return;
  ExchangeYardstick exchange;
  engine::DriverOptions options;
  options.engine.early_push = false;
  E2eRig rig(options);
  const Prepared chain = rig.prepare(sol::make_chain(4000));
  constexpr uint32_t kUnits = 500;
  harness.compare({.name = "dispatch/rtt",
                   .subject = {"driver",
                               [&] {
                                 Pinned near(0);
                                 return rig.rest_of_run(chain, kEmptyBody);
                               }},
                   .yardsticks = {{"PPF", [&] { return exchange.ppf(kUnits); }}},
                   .target = 1.6,
                   .batches = 40});
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::workload_entries(harness);
  simpler::bench::small_entries(harness);
  simpler::bench::round_trip_entries(harness);
  return harness.finish();
}
