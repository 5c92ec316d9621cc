// The handle's side of a run of a node: asks the driver while the tree lives, and keeps the outcome for afterwards.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "engine/task_request.h"
#include "worker/run_state.h"
#include "worker/tree.h"

namespace simpler::worker {

class NodeRun final : public RunHandle::State {
 public:
  NodeRun(const std::shared_ptr<Tree>& tree, const engine::RunRef& run) : tree_(tree), run_(run) {}
  ~NodeRun() override;

  std::uint64_t id() const override { return run_.id; }
  bool done() override;
  Status wait(Deadline deadline) override;
  std::vector<Status> errors() override;
  void cancel(Status why) override;
  void on_done(std::function<void()> callback) override;
  // Before the tree goes: takes the outcome of a run that has ended, or `why` for one that has not.
  void settle(Tree& tree, const Status& why);

 private:
  void keep(Tree& tree, const Status& outcome);
  std::optional<Status> kept() const;

  std::weak_ptr<Tree> tree_;
  engine::RunRef run_;
  mutable Mutex mutex_;
  std::optional<Status> outcome_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<Status> errors_ SIMPLER_GUARDED_BY(mutex_);
};

}  // namespace simpler::worker
