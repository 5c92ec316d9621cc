// What the engine costs without a child: entries 1, 4, 5, 20 and 26 of docs/performance.md.
//
// submit/*: nothing executes while the graph is built, as in the yardstick. Every workload is first executed and its
// final cells compared with a serial computation.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

#include "engine_rig.h"
#include "harness/harness.h"

// Counts what the program allocates; nothing else about it is changed.
static std::atomic<uint64_t> allocation_count{0};
void* operator new(size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  void* const memory = std::malloc(bytes);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace simpler::bench {
namespace {

uint64_t allocations_so_far() {
  return allocation_count.load(std::memory_order_relaxed);
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

// --- entry 4: many views of one buffer
// --------------------------------------------------------------------------------

constexpr uint32_t kMostViews = 16384;

struct Views {
  std::string name;
  double target;
  std::vector<wire::TensorRef> views;
};

// The same matrix at every N, so that only the number of views differs.
std::vector<Views> many_views(EngineRig& rig) {
  std::vector<Views> all{{"slices", 2.0, {}}, {"tiles", 2.0, {}}, {"columns", 4.0, {}}, {"strided", 4.0, {}}};
  const uint32_t slice = rig.layout({64}, {1});
  const uint32_t tile = rig.layout({8, 8}, {1024, 1});
  const uint32_t column = rig.layout({64, 1}, {kMostViews, 1});
  const uint32_t strided = rig.layout({64}, {kMostViews});
  for (uint32_t i = 0; i < kMostViews; ++i) {
    all[0].views.push_back(rig.view(0, slice, uint64_t{i} * 64 * 8));
    all[1].views.push_back(rig.view(0, tile, (uint64_t{i / 128} * 8 * 1024 + i % 128 * 8) * 8));
    all[2].views.push_back(rig.view(0, column, uint64_t{i} * 8));
    all[3].views.push_back(rig.view(0, strided, uint64_t{i} * 8));
  }
  return all;
}

// ns for one submit: all views are written, then all are read.
double submit_views(EngineRig& rig, const std::vector<wire::TensorRef>& views, uint32_t count, bool* exact = nullptr) {
  const TensorArgType out = TensorArgType::kOutput;
  const TensorArgType in = TensorArgType::kInput;
  const uint32_t rounds = std::max(1U, 2048 / count);
  double spent = 0;
  rig.block();
  for (uint32_t round = 0; round < rounds; ++round) {
    const engine::RunRef run = require(rig.engine().begin_run());
    const uint64_t edges = rig.engine().counters().edges;
    const double begin = now_ns();
    for (uint32_t i = 0; i < count; ++i) rig.submit(run, {&views[i], 1}, {&out, 1});
    for (uint32_t i = 0; i < count; ++i) rig.submit(run, {&views[i], 1}, {&in, 1});
    spent += now_ns() - begin;
    if (exact != nullptr) *exact = rig.engine().counters().edges - edges == count;
    require(rig.engine().close_run(run));
    rig.unblock();
    rig.engine().release(run);
    if (round + 1 < rounds) rig.block();
  }
  return spent / (2.0 * count * rounds);
}

void slice_entries(Harness& harness) {
  if (!harness.wants("submit/slices") && !harness.wants("submit/tiles") && !harness.wants("submit/columns") &&
      !harness.wants("submit/strided")) {
    return;
  }
  EngineRig rig(65536);
  for (const Views& views : many_views(rig)) {
    const std::string name = "submit/" + views.name;
    harness.check(name, [&] {
      bool exact = false;
      submit_views(rig, views.views, kMostViews, &exact);
      return exact;  // one edge for each reader, none between views
    });
    harness.compare({.name = name,
                     .subject = {"N=16384", [&] { return submit_views(rig, views.views, kMostViews); }},
                     .yardsticks = {{"N=64", [&] { return submit_views(rig, views.views, 64); }}},
                     .target = views.target,
                     .batches = 12});
  }
}

// --- entry 5: one writer, many readers, one writer
// ----------------------------------------------------------------------

double fan_engine(EngineRig& rig, uint32_t readers, uint64_t* edges) {
  const wire::TensorRef cell = rig.cell(0, 0);
  const TensorArgType out = TensorArgType::kOutput;
  const TensorArgType in = TensorArgType::kInput;
  rig.block();
  const engine::RunRef run = require(rig.engine().begin_run());
  const uint64_t before = rig.engine().counters().edges;
  const double begin = now_ns();
  rig.submit(run, {&cell, 1}, {&out, 1});
  for (uint32_t i = 0; i < readers; ++i) rig.submit(run, {&cell, 1}, {&in, 1});
  rig.submit(run, {&cell, 1}, {&out, 1});
  const double end = now_ns();
  *edges = rig.engine().counters().edges - before;
  require(rig.engine().close_run(run));
  rig.unblock();
  rig.engine().release(run);
  return (end - begin) / (2.0 * readers);
}

double fan_sol(sol::Graph& graph, uint32_t readers) {
  const sol::TensorArg in{7, 0, sol::Mode::kIn, 1};
  const sol::TensorArg out{7, 0, sol::Mode::kOut, 1};
  graph.reset();
  const double begin = now_ns();
  graph.submit(1, {&out, 1});
  for (uint32_t i = 0; i < readers; ++i) graph.submit(1, {&in, 1});
  graph.submit(1, {&out, 1});
  return (now_ns() - begin) / (2.0 * readers);
}

void fan_entries(Harness& harness) {
  if (!harness.wants("edges/fan")) return;
  EngineRig rig;
  sol::Graph graph(1 << 15, 1 << 16, 8 << 20);
  uint64_t edges = 0;
  harness.check("edges/fan", [&] {
    fan_engine(rig, 10'000, &edges);
    return edges == 20'000;
  });
  harness.compare({.name = "edges/fan.sol",
                   .unit = "ns/e",
                   .subject = {"engine", [&] { return fan_engine(rig, 10'000, &edges); }},
                   .yardsticks = {{"SOL", [&] { return fan_sol(graph, 10'000); }}},
                   .target = 2.0,
                   .batches = 30});
  harness.compare({.name = "edges/fan.flat",
                   .unit = "ns/e",
                   .subject = {"N=16000", [&] { return fan_engine(rig, 16'000, &edges); }},
                   .yardsticks = {{"N=1000", [&] { return fan_engine(rig, 1'000, &edges); }}},
                   .target = 1.5,
                   .batches = 30});
}

// --- entries 20 and 26: memory, and a window that is full
// ---------------------------------------------------------------

// Submits and executes through a window; ns for one task.
double execute(EngineRig& rig, const Prepared& prepared, size_t tasks) {
  const engine::RunRef run = require(rig.engine().begin_run());
  const size_t count = prepared.tensors.size();
  const double begin = now_ns();
  for (size_t t = 0; t < tasks; ++t) {
    while (rig.engine().full()) rig.engine().pump(64);
    rig.submit(run, prepared.tensors[t % count], prepared.tags[t % count]);
    if (t % 4 == 3) rig.engine().pump(64);
  }
  require(rig.engine().close_run(run));
  rig.drain();
  const double end = now_ns();
  rig.engine().release(run);
  return (end - begin) / static_cast<double>(tasks);
}

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long long size = 0, resident = 0;
  if (file == nullptr || std::fscanf(file, "%llu %llu", &size, &resident) != 2) std::abort();
  std::fclose(file);
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

uint64_t page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_minflt);
}

void memory_entries(Harness& harness) {
  const sol::Workload stencil = sol::make_stencil(64, 200);
  harness.measure("mem/task", "B", 288, [&] {
    EngineRig rig;
    const Prepared prepared = rig.prepare(stencil);
    rig.block();
    const engine::RunRef run = require(rig.engine().begin_run());
    const size_t few = 640;
    for (size_t t = 0; t < few; ++t) rig.submit(run, prepared.tensors[t], prepared.tags[t]);
    const uint64_t before = resident_bytes();
    const size_t count = prepared.tensors.size();
    for (size_t t = few; t < count; ++t) rig.submit(run, prepared.tensors[t], prepared.tags[t]);
    const double grown = static_cast<double>(resident_bytes() - before) / static_cast<double>(count - few);
    require(rig.engine().close_run(run));
    rig.unblock();
    // The lines and the argument block of every slot may be resident from the start: count them in any case.
    return grown + sizeof(engine::Slot) + sizeof(engine::SlotDetails) + memory::kSlotBlockBytes;
  });
  if (!harness.wants("mem/steady")) return;
  EngineRig rig(4096);
  const Prepared prepared = rig.prepare(stencil);
  execute(rig, prepared, 200'000);
  const uint64_t allocations = allocations_so_far();
  const uint64_t faults = page_faults();
  const uint64_t resident = resident_bytes();
  execute(rig, prepared, 10'000'000);
  const uint64_t new_allocations = allocations_so_far() - allocations;
  const uint64_t new_faults = page_faults() - faults;
  const uint64_t growth = resident_bytes() - resident;
  harness.measure("mem/steady.allocations", "", 0, [&] { return static_cast<double>(new_allocations); });
  harness.measure("mem/steady.faults", "", 0, [&] { return static_cast<double>(new_faults); });
  harness.measure("mem/steady.growth", "B", 0, [&] { return static_cast<double>(growth); });
}

void backpressure_entries(Harness& harness) {
  const sol::Workload stencil = sol::make_stencil(64, 200);
  for (const uint32_t window : {64U, 256U, 4096U}) {
    const std::string name = "backpressure/" + std::to_string(window);
    if (!harness.wants(name)) continue;
    EngineRig narrow(window);
    EngineRig wide(16384);
    const Prepared here = narrow.prepare(stencil);
    const Prepared there = wide.prepare(stencil);
    harness.compare({.name = name,
                     .subject = {"window", [&] { return execute(narrow, here, here.tensors.size()); }},
                     .yardsticks = {{"unbounded", [&] { return execute(wide, there, there.tensors.size()); }}},
                     .target = 1.1,
                     .batches = 20});
  }
}

}  // namespace
}  // namespace simpler::bench

int main(int argc, char** argv) {
  simpler::bench::Harness harness(argc, argv);
  simpler::bench::submit_entries(harness);
  simpler::bench::slice_entries(harness);
  simpler::bench::fan_entries(harness);
  simpler::bench::memory_entries(harness);
  simpler::bench::backpressure_entries(harness);
  return harness.finish();
}
