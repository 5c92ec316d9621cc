// ChipWorker: one simulated chip in this process. Callables are registered once; a run is prepared (arguments staged,
// graph built on the host), launched, waited for and finalized (results copied back).
//
// prepare, launch, finalize, register and unregister belong to one thread at a time, the serving thread. malloc, free,
// copies and committed_memory may be called from any thread, also while runs are in flight. After a successful prepare
// a finalize is mandatory, whatever happened in between. Two runs may be prepared at once; one executes at a time.
// A run that a kernel never leaves is ended by the watchdog: its code, graph and memory are kept for good, its thread
// is never reused, and the worker goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/log.h"
#include "simpler/call_config.h"
#include "simpler/chip_callable.h"
#include "simpler/kernel.h"
#include "simpler/orchestration.h"
#include "simpler/status.h"

namespace simpler::chip {

inline constexpr uint32_t kMaxCallables = 4096;
inline constexpr uint32_t kRunSlots = 2;
inline constexpr uint64_t kMinTaskWindow = 4;  // and a power of two
inline constexpr uint64_t kMaxTaskWindow = uint64_t{1} << 20;
inline constexpr uint64_t kMinHeapBytes = 1024;
inline constexpr uint64_t kMaxHeapBytes = uint64_t{1} << 42;

struct ChipOptions {
  std::string platform;                           // a name of spec::platforms()
  std::string runtime = "host_build_graph";       // the only one offered
  int device_id = 0;                              // names the chip in messages
  uint32_t threads = 0;                           // OS threads that run cores; 0 = min(cores, usable CPUs)
  uint32_t clusters = 0;                          // 0 = the platform's default
  Nanos watchdog = 10 * kSecond;                  // CPU time inside one block; at least 1 ms
  uint64_t memory_limit = 0;                      // bytes of device memory; 0 = no limit of its own
  uint64_t task_window = 0;                       // tasks of one run; a power of two from 4; 0 = the chip's default
  uint64_t heap_bytes = 0;                        // task outputs of one run; 0 = the chip's default
  uint32_t tensor_map_entries = 0;                // 0 = the chip's default
  uint32_t ready_queue_entries = 0;               // 0 = as many as the window has tasks
  const Logger* logger = nullptr;                 // null = warnings to standard error
  const kernel::KernelSource* kernels = nullptr;  // built-in kernels; null = none
  const orchestration::OrchestrationSource* orchestrations = nullptr;  // built-in orchestrations; null = none
};

// Arguments of one run: tensors in the order of the callable's signature, then scalars.
struct ChipArgs {
  std::span<const ChipTensor> tensors;
  std::span<const uint64_t> scalars;
};

// Names one prepared run; becomes invalid with its finalize.
struct RunTicket {
  uint32_t slot = 0;
  uint32_t generation = 0;  // 0 is no run
};

struct ChipStatistics {
  uint64_t runs = 0;
  uint64_t failed_runs = 0;
  uint64_t tasks = 0;
  uint64_t blocks = 0;
  uint64_t kernel_cpu_ns = 0;  // CPU time inside kernels (share of each thread's CPU time that its kernels took)
  uint64_t busy_ns = 0;        // wall time between launch and end of runs
  uint64_t lost_threads = 0;   // threads inside kernels that never returned
  uint64_t quarantined_bytes = 0;
};

class ChipWorker {
 public:
  static Result<std::unique_ptr<ChipWorker>> create(const ChipOptions& options);
  virtual ~ChipWorker() = default;

  // Parses, checks and loads. The bytes are copied. kAlreadyExists when `index` is taken.
  virtual Status register_callable(uint32_t index, std::span<const std::byte> bytes) = 0;
  // kFailedPrecondition while a prepared run uses it.
  virtual Status unregister(uint32_t index) = 0;
  virtual bool registered(uint32_t index) const = 0;

  // prepare, launch, wait and finalize in one.
  virtual Status run(uint32_t index, const ChipArgs& args, const CallConfig& config) = 0;

  virtual Result<RunTicket> prepare(uint32_t index, const ChipArgs& args, const CallConfig& config) = 0;
  virtual Status launch(RunTicket ticket) = 0;
  virtual Result<bool> poll(RunTicket ticket) = 0;
  // kTimeout leaves the run live. A failed run is an ok wait: finalize tells what happened.
  virtual Status wait(RunTicket ticket, Deadline deadline) = 0;
  // The outcome of the run: ok, or the failure with its run_code().
  virtual Status finalize(RunTicket ticket) = 0;

  // Device memory. Addresses are the chip's; copies accept any range inside one allocation.
  virtual Result<uint64_t> malloc(uint64_t bytes) = 0;
  // kFailedPrecondition while a run names the allocation, and for good once a run that names it never ended.
  virtual Status free(uint64_t address) = 0;
  virtual Status copy_to(uint64_t device, const void* host, uint64_t bytes) = 0;
  virtual Status copy_from(void* host, uint64_t device, uint64_t bytes) = 0;
  virtual uint64_t committed_memory() const = 0;

  virtual ChipStatistics statistics() const = 0;
  virtual uint32_t cluster_count() const = 0;
  virtual uint32_t core_count() const = 0;
  virtual uint32_t thread_count() const = 0;
};

}  // namespace simpler::chip
