// ChipSpec: everything that one chip generation states as data. Code asks a field, never a name.
//
// A spec is a constant of static storage. Adding a generation: one file like the others here, one line in registry.cpp,
// then the tests of this folder and of tests/integration/chip, which run over every platform.
#pragma once

#include <cstdint>
#include <string_view>

namespace simpler::spec {

// How many blocks a cluster runs at once, and on what.
struct Topology {
  uint32_t clusters;           // the most that a run may use
  uint32_t cores_per_cluster;  // one matrix core and the rest vector cores
  uint32_t cores;              // clusters times cores_per_cluster
};

// Control threads that schedule on the chip.
struct ControlThreads {
  uint32_t active_max;
  uint32_t active_default;
  uint32_t launched;  // of which the active ones survive
};

// Sizes of one run's graph when nothing else is asked for.
struct GraphLimits {
  uint32_t task_window;  // power of two
  uint64_t heap_bytes;
  uint32_t tensor_map_entries;
  uint32_t tensor_map_buckets;  // power of two
  uint32_t fanin_per_task;
};

struct ChipSpec {
  std::string_view name;
  Topology topology;
  ControlThreads control;
  GraphLimits graph;
  uint64_t counter_hz;         // of the device clock
  uint32_t dispatch_register;  // byte offset of the register that starts a task on a core
  uint32_t progress_batch;     // advances between two published watermarks
  uint32_t frames_in_flight;   // runs that may be prepared at once
  uint32_t performance_counters;

  constexpr uint32_t aic_cores(uint32_t clusters) const { return clusters; }
  constexpr uint32_t aiv_cores(uint32_t clusters) const { return clusters * (topology.cores_per_cluster - 1); }
};

constexpr bool is_power_of_two(uint64_t value) {
  return value != 0 && (value & (value - 1)) == 0;
}

// Ties the fields together; every spec asserts it.
constexpr bool is_consistent(const ChipSpec& s) {
  return !s.name.empty() && s.topology.clusters >= 1 && s.topology.cores_per_cluster >= 2 &&
         s.topology.cores == s.topology.clusters * s.topology.cores_per_cluster && s.control.active_default >= 1 &&
         s.control.active_default <= s.control.active_max && s.control.active_max <= s.control.launched &&
         is_power_of_two(s.graph.task_window) && s.graph.task_window >= 4 && s.graph.heap_bytes % 1024 == 0 &&
         is_power_of_two(s.graph.tensor_map_buckets) && s.graph.tensor_map_entries >= 1 &&
         s.graph.fanin_per_task >= 1 && s.counter_hz >= 1 && s.progress_batch >= 1 && s.frames_in_flight >= 1;
}

}  // namespace simpler::spec
