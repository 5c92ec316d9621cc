// The four graphs that every submit and end-to-end figure is taken on, as plain data, and their serial answers.
//
// A cell is one unit of a buffer. `body` says what a task computes in checking mode: s = 1, then s = 31*s + input for
// each input in argument order; a task without inputs writes its own number. The final cells must equal `serial_cells`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace simpler::sol {

struct CellAccess {
  uint32_t buffer;  // 0 or 1
  uint32_t cell;
  bool reads;
  bool writes;
};

struct Workload {
  std::string name;
  uint32_t cells_per_buffer = 0;
  std::vector<uint32_t> first;  // accesses of task t are [first[t], first[t + 1])
  std::vector<CellAccess> accesses;

  uint32_t task_count() const { return static_cast<uint32_t>(first.size()) - 1; }
  std::span<const CellAccess> task(uint32_t index) const {
    return {accesses.data() + first[index], accesses.data() + first[index + 1]};
  }
  void end_task() { first.push_back(static_cast<uint32_t>(accesses.size())); }
};

inline uint64_t body(std::span<const CellAccess> task, uint32_t number, std::vector<uint64_t>& cells,
                     uint32_t per_buffer) {
  uint64_t value = 1;
  bool any = false;
  for (const CellAccess& access : task) {
    if (!access.reads) continue;
    any = true;
    value = 31 * value + cells[uint64_t{access.buffer} * per_buffer + access.cell];
  }
  if (!any) value = number;
  for (const CellAccess& access : task) {
    if (access.writes) cells[uint64_t{access.buffer} * per_buffer + access.cell] = value;
  }
  return value;
}

inline std::vector<uint64_t> serial_cells(const Workload& workload) {
  std::vector<uint64_t> cells(uint64_t{2} * workload.cells_per_buffer);
  for (uint32_t t = 0; t < workload.task_count(); ++t) body(workload.task(t), t, cells, workload.cells_per_buffer);
  return cells;
}

inline Workload make_indep(uint32_t tasks) {
  Workload w{"indep", tasks, {0}, {}};
  for (uint32_t t = 0; t < tasks; ++t) {
    w.accesses.push_back({0, t, false, true});
    w.end_task();
  }
  return w;
}

inline Workload make_chain(uint32_t tasks) {
  Workload w{"chain", 1, {0}, {}};
  for (uint32_t t = 0; t < tasks; ++t) {
    w.accesses.push_back({0, 0, true, true});
    w.end_task();
  }
  return w;
}

inline Workload make_stencil(uint32_t width, uint32_t steps) {
  Workload w{"stencil", width, {0}, {}};
  for (uint32_t t = 0; t < steps; ++t) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t from = x == 0 ? 0 : x - 1; from <= x + 1 && from < width; ++from) {
        w.accesses.push_back({(t + 1) % 2, from, true, false});
      }
      w.accesses.push_back({t % 2, x, false, true});
      w.end_task();
    }
  }
  return w;
}

inline Workload make_tree(uint32_t nodes) {
  Workload w{"tree", nodes + 1, {0}, {}};
  for (uint32_t i = 1; i <= nodes; ++i) {
    w.accesses.push_back({0, i / 2, true, false});
    w.accesses.push_back({0, i, false, true});
    w.end_task();
  }
  return w;
}

inline std::vector<Workload> standard_workloads() {
  return {make_indep(10'000), make_chain(10'000), make_stencil(64, 200), make_tree(16'383)};
}

}  // namespace simpler::sol
