// Checks and times the yardstick alone: final cells against a serial computation, in several completion orders.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>

#include "sol/sol.h"
#include "sol/workloads.h"

namespace simpler::sol {
namespace {

std::vector<std::vector<TensorArg>> arguments_of(const Workload& workload) {
  std::vector<std::vector<TensorArg>> all(workload.task_count());
  for (uint32_t t = 0; t < workload.task_count(); ++t) {
    for (const CellAccess& access : workload.task(t)) {
      const Mode mode = access.reads ? (access.writes ? Mode::kInOut : Mode::kIn) : Mode::kOut;
      all[t].push_back({(uint64_t{access.buffer} << 32) | access.cell, access.cell * 8, mode, 1});
    }
  }
  return all;
}

bool check(const Workload& workload, uint64_t seed) {
  Graph graph(1 << 15, 1 << 16, 8 << 20);
  const auto arguments = arguments_of(workload);
  for (const auto& tensors : arguments) graph.submit(1, tensors);
  std::vector<uint64_t> cells(uint64_t{2} * workload.cells_per_buffer);
  std::vector<uint32_t> ready;
  std::mt19937_64 random(seed);
  uint32_t id = 0;
  uint32_t finished = 0;
  for (;;) {
    while (graph.pop_ready(&id)) ready.push_back(id);
    if (ready.empty()) break;
    std::swap(ready[random() % ready.size()], ready.back());
    id = ready.back();
    ready.pop_back();
    body(workload.task(id), id, cells, workload.cells_per_buffer);
    graph.complete(id);
    ++finished;
  }
  return finished == workload.task_count() && cells == serial_cells(workload);
}

double submit_ns(const Workload& workload, uint32_t rounds) {
  Graph graph(1 << 15, 1 << 16, 8 << 20);
  const auto arguments = arguments_of(workload);
  std::vector<double> samples;
  for (uint32_t round = 0; round < rounds; ++round) {
    graph.reset();
    const auto begin = std::chrono::steady_clock::now();
    for (const auto& tensors : arguments) graph.submit(1, tensors);
    const auto end = std::chrono::steady_clock::now();
    samples.push_back(std::chrono::duration<double, std::nano>(end - begin).count() / workload.task_count());
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

}  // namespace
}  // namespace simpler::sol

int main(int argc, char** argv) {
  bool good = true;
  for (const auto& workload : simpler::sol::standard_workloads()) {
    if (argc > 2 && workload.name != argv[2]) continue;
    for (uint64_t seed = 1; seed <= 3; ++seed) good = simpler::sol::check(workload, seed) && good;
    std::printf("sol submit %-8s %s %.1f ns\n", workload.name.c_str(), good ? "checked" : "WRONG",
                simpler::sol::submit_ns(workload, 101));
  }
  return good ? 0 : 1;
}
