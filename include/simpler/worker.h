// One level of the tree: a chip in this process (level 2), or a node with chip and host children (level 3).
//
//   simpler::Worker worker({.level = 3, .num_sub_workers = 2});
//   auto add = worker.register_native("add", [](const simpler::MappedArgs& args) { … });
//   worker.init();
//   worker.run([&](simpler::Orchestrator& orch) { orch.submit_sub(add, args); });
//
// Every call is safe from any thread unless it says otherwise. All throw Error. A Worker is closed by close() or by its
// destructor, which never throws.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "simpler/buffer.h"
#include "simpler/call_config.h"
#include "simpler/callable.h"
#include "simpler/chip_callable.h"
#include "simpler/orchestrator.h"
#include "simpler/run.h"
#include "simpler/task_args.h"

namespace simpler {

struct WorkerOptions {
  int level = 3;              // 2 or 3
  std::string platform = {};  // a simulated chip generation; needed with devices
  std::string runtime = "host_build_graph";
  int device_id = 0;                            // level 2
  std::vector<int> device_ids = {};             // level 3: one chip child each
  int num_sub_workers = 0;                      // level 3: host children
  std::optional<std::uint64_t> heap_ring_size;  // bytes of each of the four heaps; 1 GiB of address space by default
  double startup_timeout_s = 300;               // finite, above 0
  std::optional<double> heap_wait_timeout_s;    // no limit by default
  double control_timeout_s = 30;                // of one control command to a child
  double close_timeout_s = 10;                  // total for draining runs in one close()
  std::optional<double> watchdog_s;             // CPU time one kernel block may use; 10 s by default
  int chip_threads = 0;                         // OS threads of one simulated chip, 0 = its share of the CPUs
  std::uint32_t task_window = 16384;            // tasks that may be live at once; rounded up to a power of two from 64
  std::uint32_t max_pending_runs = 16;          // runs that are not terminal; at most 64
  bool full_inference = true;                   // false: only RAW, and WAW through INOUT
  std::string trace_path = {};                  // Chrome trace written by close(); off when empty
  bool measure_user_time = false;               // CPU time inside kernels and callables; two system calls a task
};

enum class WorkerState { kNew, kInitializing, kReady, kFailed, kClosed };

class Worker {
 public:
  // Checks the options before anything is created.
  explicit Worker(WorkerOptions options);
  ~Worker();
  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;

  CallableHandle register_callable(const ChipCallable& callable);
  // Only before init(): the function reaches the children by the fork.
  CallableHandle register_native(std::string name, NativeFunction function, std::uint32_t version = 1);
  void unregister(const CallableHandle& handle);

  // Starts the tree and returns when it is ready, or throws within the start-up deadline and leaves nothing behind.
  void init();
  // Terminal and retryable: waits for accepted runs, then ends the tree. Throws Error(kTimeout) when runs are still
  // going after close_timeout_s; a later call goes on.
  void close();
  // As close(), but unfinished runs are cancelled and children that do not end are killed.
  void terminate();
  WorkerState state() const;

  using GraphFunction = std::function<void(Orchestrator&, const TaskArgs*, const CallConfig&)>;
  // Level 3: calls `graph` on this thread and returns when it is built. An exception of `graph` cancels what has not
  // started, waits for the rest and is thrown from here.
  RunHandle submit(const GraphFunction& graph, const TaskArgs* args = nullptr, const CallConfig& config = {});
  template <class F>
  requires std::is_invocable_v<F&, Orchestrator&> RunHandle submit(F&& graph) {
    return submit(GraphFunction([&](Orchestrator& orch, const TaskArgs*, const CallConfig&) { graph(orch); }));
  }
  template <class F>
  requires std::is_invocable_v<F&, Orchestrator&>
  void run(F&& graph) { submit(std::forward<F>(graph)).wait(); }
  // Level 2: one task of the chip.
  RunHandle submit(const CallableHandle& callable, const TaskArgs& args = {}, const CallConfig& config = {});
  void run(const CallableHandle& callable, const TaskArgs& args = {}, const CallConfig& config = {}) {
    submit(callable, args, config).wait();
  }

  // Host memory shared with the children, also with those that already run. Level 2 and 3; nbytes > 0.
  Buffer create_buffer(std::uint64_t nbytes);
  // Refused with kFailedPrecondition while a run that is not over names the buffer. Idempotent.
  void release_buffer(const Buffer& buffer);

  Buffer malloc(std::uint64_t nbytes);                                                          // level 2
  Buffer alloc_child_tensor(int worker, std::span<const std::uint32_t> shape, DataType dtype);  // level 3
  void free(const Buffer& buffer);
  // `nbytes` defaults to the rest of the host side after its offset.
  void copy_to(const Buffer& device, const Buffer& host, std::uint64_t device_offset = 0, std::uint64_t host_offset = 0,
               std::optional<std::uint64_t> nbytes = std::nullopt);
  void copy_from(const Buffer& host, const Buffer& device, std::uint64_t host_offset = 0,
                 std::uint64_t device_offset = 0, std::optional<std::uint64_t> nbytes = std::nullopt);
  std::uint64_t committed_device_memory(int worker = 0);

  // What each child has done so far; host children first, then chips, each by number.
  struct ChildStatistics {
    std::string name;  // "chip 0", "sub_worker 1"
    int pid = 0;
    bool alive = false;
    std::uint64_t tasks = 0;
    std::uint64_t busy_ns = 0;      // wall time inside callables and chip runs
    std::uint64_t user_cpu_ns = 0;  // CPU time inside kernels and user callables
    std::uint64_t cpu_ns = 0;       // CPU time of the process
  };
  std::vector<ChildStatistics> statistics() const;
  std::uint64_t peak_heap_bytes() const;

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace simpler
