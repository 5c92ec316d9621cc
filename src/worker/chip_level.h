// A chip in this process: runs are queued and executed one after the other by a thread of the worker's.
//
// The queue owns its runs until they end, so a run that nobody waits for is finished all the same. The chip takes
// runs and registrations from one thread at a time, under `serving_`, and memory commands from any; the queue has a
// lock of its own, never held over a call to the chip.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "chip/chip_worker.h"
#include "kernels/catalog.h"
#include "memory/host_backing.h"
#include "worker/level.h"

namespace simpler::worker {

class ChipRun;

class ChipLevel final : public Level {
 public:
  ChipLevel(const WorkerOptions& options, const HostLanguage& language, const callable::Registry& registry);
  ~ChipLevel() override;

  Status check_eligible(CallableKind kind) const override;
  Status start(LevelStart start, Deadline deadline) override;
  Status add_callable(const Registered& callable, bool& undone) override;
  bool idle() override;
  Status remove_callable(const Registered& callable) override;
  Status drain(Deadline deadline) override;
  void give_up(const Status& why) override;
  Status stop(Deadline deadline, bool kill) override;

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
  std::uint64_t peak_heap_bytes() const override { return 0; }
  BufferList& buffers() override { return buffers_; }

  // Host memory that somebody else owns, kept by `keep`; tasks of this process can name it.
  Result<BufferState> wrap(std::byte* data, std::uint64_t nbytes, AccessMode access, std::shared_ptr<const void> keep);

 private:
  void serve();
  // Marks the buffer released unless a run that is not over names it.
  Status take_away(const BufferState& buffer, const char* call);
  CanonicalIdentity mint_identity();

  const WorkerOptions options_;
  const HostLanguage& language_;
  const callable::Registry& registry_;
  memory::HostStore store_;
  BufferList buffers_;
  std::unique_ptr<kernels::Catalog> kernels_;
  Logger logger_;

  mutable Mutex serving_;
  std::unique_ptr<chip::ChipWorker> chip_;  // set by start, before any other thread knows of it
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<ChipRun>> queue_ SIMPLER_GUARDED_BY(mutex_);  // the front one may be running
  bool stopping_ SIMPLER_GUARDED_BY(mutex_) = false;
  std::uint64_t last_run_ SIMPLER_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_buffer_ SIMPLER_GUARDED_BY(mutex_) = 0;
  OwnerInstanceId owner_{};
};

}  // namespace simpler::worker
