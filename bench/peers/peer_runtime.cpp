// What every peer needs: quiet threads between batches, and edges for those that infer nothing.
#include "peers/peer_runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <string>
#include <unistd.h>

#include "harness/harness.h"

namespace simpler::bench {
namespace {

constexpr double kPatienceNs = 5e9;

// The state letter behind the parenthesised name; a thread that has just ended counts as asleep.
bool is_awake(const std::filesystem::path& thread) {
  std::ifstream file(thread / "stat");
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t name_end = line.rfind(')');
  return name_end != std::string::npos && name_end + 2 < line.size() && line[name_end + 2] == 'R';
}

bool others_sleep() {
  const std::string self = std::to_string(::gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() != self && is_awake(thread.path())) return false;
  }
  return true;
}

}  // namespace

void wait_until_other_threads_sleep() {
  const double begin = now_ns();
  while (!others_sleep()) {
    if (now_ns() - begin > kPatienceNs) {
      std::fprintf(stderr, "a peer's threads do not go to sleep\n");
      std::abort();
    }
    ::sched_yield();
  }
}

std::vector<Edge> edges_of(const sol::Workload& workload) {
  constexpr uint32_t kNobody = 0xFFFFFFFF;
  struct Cell {
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers;
  };
  std::vector<Cell> cells(uint64_t{2} * workload.cells_per_buffer);
  std::vector<Edge> edges;
  std::vector<uint32_t> producers;
  for (uint32_t t = 0; t < workload.task_count(); ++t) {
    producers.clear();
    for (const sol::CellAccess& access : workload.task(t)) {
      Cell& cell = cells[uint64_t{access.buffer} * workload.cells_per_buffer + access.cell];
      const bool after_writer = access.reads || cell.readers.empty();
      if (after_writer && cell.writer != kNobody) producers.push_back(cell.writer);
      if (!access.writes) {
        cell.readers.push_back(t);
        continue;
      }
      producers.insert(producers.end(), cell.readers.begin(), cell.readers.end());
      cell.readers.clear();
      cell.writer = t;
    }
    std::sort(producers.begin(), producers.end());
    producers.erase(std::unique(producers.begin(), producers.end()), producers.end());
    for (const uint32_t producer : producers) {
      if (producer != t) edges.emplace_back(producer, t);
    }
  }
  return edges;
}

}  // namespace simpler::bench
