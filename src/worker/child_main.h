// The life of one child of a level-3 worker, from the fork to its exit status.
//
// Runs in the child only, with the parent's memory as it was at the fork. Readiness or the reason of a failure is left
// in the mailbox's start-up record before the signal is raised. Never returns into the parent's frames.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fault_point.h"
#include "process/child_process.h"
#include "simpler/kernel.h"
#include "simpler/worker.h"
#include "worker/host_language.h"
#include "worker/host_table.h"
#include "worker/level_memory.h"
#include "worker/settings.h"
#include "worker/task_trace.h"

namespace simpler::worker {

enum class ChildKind : std::uint8_t { kHost, kChip };

struct ChipRegistration {
  std::uint16_t index = 0;
  std::string name;
  std::vector<std::byte> bytes;
};

// What every child inherits.
struct ChildPlan {
  const WorkerOptions* options = nullptr;
  const Settings* settings = nullptr;
  const Logger* logger = nullptr;
  const HostLanguage* language = nullptr;
  LevelMemory* memory = nullptr;
  HostTable host_table;
  std::vector<ChipRegistration> chip_callables;
  const kernel::KernelSource* kernels = nullptr;  // for chips; loaded before the fork
  TaskTrace trace;
  std::uint32_t chip_threads = 1;      // OS threads of each chip
  std::uint32_t runnable_threads = 2;  // of the whole tree, for the waiting policy
  FaultPlan* faults = nullptr;         // null in production
};

int child_main(const ChildPlan& plan, ChildKind kind, std::uint32_t index, std::size_t mailbox,
               process::ChildContext& context);

// The parent's look at a start-up record: empty while the child is not done, ok, or why it failed.
std::optional<Status> startup_outcome(const wire::StartupRecord& record);

}  // namespace simpler::worker
