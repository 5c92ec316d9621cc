// Task runtimes of others, each running one standard workload in this process beside ours.
//
// A peer owns its threads from its construction to its destruction and keeps them asleep between batches, so that the
// arm that follows has the machine to itself. It leaves the caller's affinity and signal handlers as they were. Which
// makers return a peer is decided when the program is linked: where a package is missing, X_absent.cpp takes the place
// of X_runtime.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sol/workloads.h"

namespace simpler::bench {

class PeerRuntime {
 public:
  PeerRuntime() = default;
  virtual ~PeerRuntime() = default;
  PeerRuntime(const PeerRuntime&) = delete;
  PeerRuntime& operator=(const PeerRuntime&) = delete;

  // Runs the workload once with bodies that compute; the final cells.
  virtual std::vector<uint64_t> execute() = 0;
  // ns for one task, with empty bodies: only the submission, while nothing executes.
  virtual double submit() = 0;
  // ns for one task, with empty bodies: from an empty graph until everything has ended and is freed.
  virtual double run() = 0;
};

// Null where the package is not installed. A peer may refer to `workload` as long as it lives.
std::unique_ptr<PeerRuntime> make_starpu(const sol::Workload& workload);
std::unique_ptr<PeerRuntime> make_tbb(const sol::Workload& workload);

// Returns once no other thread of this process is running or ready; ends the program when that takes seconds.
void wait_until_other_threads_sleep();

// Producer and consumer of each dependency (RAW, WAR, WAW), each pair once, for peers that infer nothing.
using Edge = std::pair<uint32_t, uint32_t>;
std::vector<Edge> edges_of(const sol::Workload& workload);

}  // namespace simpler::bench
