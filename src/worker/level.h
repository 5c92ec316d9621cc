// What differs between the levels behind one Worker: a chip in this process, or a node with children.
//
// The facade (worker.cpp) checks state, process and handles, then calls one of these. Methods return Status; nothing
// throws. Callables are registered under an index that the facade keeps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fault_point.h"
#include "callable/registry.h"
#include "simpler/worker.h"
#include "worker/buffer_state.h"
#include "worker/host_language.h"
#include "worker/run_state.h"

namespace simpler::worker {

// One registered callable as the levels need it.
struct Registered {
  callable::Handle handle;
  std::vector<std::byte> chip_bytes;  // chip callables
  HostCallable host;                  // host callables
};

struct LevelStart {
  std::vector<Registered> callables;
  std::function<bool()> cancelled;  // true: somebody closes the worker while it starts
  FaultPlan* faults = nullptr;      // null in production
};

class Level {
 public:
  virtual ~Level() = default;

  // Why a callable of this kind could not run anywhere here, or ok.
  virtual Status check_eligible(CallableKind kind) const = 0;
  virtual Status start(LevelStart start, Deadline deadline) = 0;
  // After start: makes the callable known to everybody that may run it, or to nobody. `undone` is false when somebody
  // may know a refused one nevertheless.
  virtual Status add_callable(const Registered& callable, bool& undone) = 0;
  // No run is unfinished, so no task names a callable.
  virtual bool idle() = 0;
  // Best effort; a child's refusal is returned for a warning.
  virtual Status remove_callable(const Registered& callable) = 0;
  // Until no run is unfinished.
  virtual Status drain(Deadline deadline) = 0;
  // Fails what has not started and kills children that are inside something. Safe beside calls of other threads.
  virtual void give_up(const Status& why) = 0;
  virtual Status stop(Deadline deadline, bool kill) = 0;

  virtual Result<std::shared_ptr<RunHandle::State>> submit_graph(const Worker::GraphFunction& graph,
                                                                 const TaskArgs* args, const CallConfig& config) = 0;
  virtual Result<std::shared_ptr<RunHandle::State>> submit_task(const callable::HandleState& callable,
                                                                const TaskArgs& args, const CallConfig& config) = 0;

  virtual Result<BufferState> create_buffer(std::uint64_t nbytes) = 0;
  virtual Status release_buffer(const BufferState& buffer) = 0;
  virtual Result<BufferState> device_malloc(int worker, std::uint64_t nbytes) = 0;
  virtual Status device_free(const BufferState& buffer) = 0;
  virtual Status copy(const Buffer& device, const Buffer& host, const CopyRange& range, bool to_device) = 0;
  virtual Result<std::uint64_t> committed_device_memory(int worker) = 0;
  virtual std::vector<Worker::ChildStatistics> statistics() const = 0;
  virtual std::uint64_t peak_heap_bytes() const = 0;
  virtual BufferList& buffers() = 0;
};

}  // namespace simpler::worker
