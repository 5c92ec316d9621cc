// A node: chip and host children under one engine.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "memory/device_space.h"
#include "memory/host_backing.h"
#include "worker/level.h"
#include "worker/tree.h"

namespace simpler::worker {

class NodeRun;

class NodeLevel final : public Level {
 public:
  NodeLevel(const WorkerOptions& options, const HostLanguage& language, const callable::Registry& registry);
  ~NodeLevel() override;

  Status check_eligible(CallableKind kind) const override;
  Status start(LevelStart start, Deadline deadline) override;
  Status add_callable(const Registered& callable, bool& undone) override;
  bool idle() override;
  Status remove_callable(const Registered& callable) override;
  Status drain(Deadline deadline) override;
  void give_up(const Status& why) override;
  Status stop(Deadline deadline, bool kill) override;

  // Lets exceptions of `graph` through, after the run has ended.
  Result<std::shared_ptr<RunHandle::State>> submit_graph(const Worker::GraphFunction& graph, const TaskArgs* args,
                                                         const CallConfig& config) override;
  Result<std::shared_ptr<RunHandle::State>> submit_task(const callable::HandleState& callable, const TaskArgs& args,
                                                        const CallConfig& config) override;

  Result<BufferState> create_buffer(std::uint64_t nbytes) override;
  Status release_buffer(const BufferState& buffer) override;
  Result<BufferState> device_malloc(int worker, std::uint64_t nbytes) override;
  Status device_free(const BufferState& buffer) override;
  Status copy(const Buffer& device, const Buffer& host, const CopyRange& range, bool to_device) override;
  Result<std::uint64_t> committed_device_memory(int worker) override;
  std::vector<Worker::ChildStatistics> statistics() const override;
  std::uint64_t peak_heap_bytes() const override;
  BufferList& buffers() override { return buffers_; }

  // For the orchestrator of a run that is being built.
  Tree& tree() { return *tree_; }
  const callable::Registry& registry() const { return registry_; }
  const HostLanguage& language() const { return language_; }
  // True on the thread whose graph function runs now.
  bool is_building_here() const;
  // The chip that holds a buffer's bytes, -1 for host memory; kNotFound as reference().
  Result<int> owner_of(const BufferDescriptor& descriptor) const;
  // The live reference of a buffer that this worker made; kNotFound names the identity.
  Result<memory::BufferRef> reference(const BufferDescriptor& descriptor) const;

 private:
  struct Untold {
    CanonicalIdentity identity;
    std::size_t child;
  };

  Deadline control_deadline() const;
  Status check_chip(int worker) const;
  Status publish(const Registered& callable);
  Result<BufferState> publish_buffer(const BufferDescriptor& descriptor, int owner_worker);
  void release_configs(const engine::RunRef& run, std::vector<std::uint16_t> configs);
  bool undo_registration(const Registered& callable, const std::vector<Result<lane::ControlAnswer>>& answers);
  Status settle_failed_build(const engine::RunRef& run);
  Result<BufferState> find(const BufferDescriptor& descriptor) const;
  // Takes the submission turn, after the copies that are under way outside of graph functions.
  Result<engine::RunRef> begin_run();
  void publish_building(const Orchestrator::State* state);
  // The graph that this thread builds, or null.
  const Orchestrator::State* building_here() const;
  // A copy inside a graph function waits for its turn; another one keeps runs from starting, or is refused.
  Status begin_copy(const char* call);
  void end_copy();
  void forget_ended_runs();
  void note_handle(const std::shared_ptr<NodeRun>& run);
  void tell_released(const CanonicalIdentity& identity);
  // Chip memory that was got but cannot be named.
  void give_back(std::uint32_t chip, std::uint64_t address);

  const WorkerOptions options_;
  const HostLanguage& language_;
  const callable::Registry& registry_;
  FaultPlan* faults_ = nullptr;
  std::shared_ptr<Tree> tree_;
  memory::HostStore store_;
  BufferList buffers_;

  mutable Mutex mutex_;
  CondVar copies_ended_;
  std::thread::id building_ SIMPLER_GUARDED_BY(mutex_);
  const Orchestrator::State* graph_ SIMPLER_GUARDED_BY(mutex_) = nullptr;  // used by the thread `building_` only
  std::uint32_t copies_ SIMPLER_GUARDED_BY(mutex_) = 0;                    // outside of graph functions
  std::uint32_t starting_ SIMPLER_GUARDED_BY(mutex_) = 0;                  // submits that have no run yet
  std::vector<engine::RunRef> begun_ SIMPLER_GUARDED_BY(mutex_);           // runs that may be unfinished
  std::vector<engine::RunRef> begun_before_;  // room for the next list; used by the holder of the submission turn
  std::vector<std::weak_ptr<NodeRun>> runs_ SIMPLER_GUARDED_BY(mutex_);  // handles that may still ask for an outcome
  std::vector<Untold> untold_ SIMPLER_GUARDED_BY(mutex_);                // releases that a child has yet to hear of
  memory::DevicePointers pointers_ SIMPLER_GUARDED_BY(mutex_);
};

}  // namespace simpler::worker
