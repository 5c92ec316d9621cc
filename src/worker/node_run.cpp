#include "worker/node_run.h"

#include <utility>

namespace simpler::worker {

NodeRun::~NodeRun() {
  if (const std::shared_ptr<Tree> tree = tree_.lock()) {
    tree->driver().release(run_);
  }
}

std::optional<Status> NodeRun::kept() const {
  MutexLock lock(mutex_);
  return outcome_;
}

void NodeRun::keep(Tree& tree, const Status& outcome) {
  std::vector<Status> errors = tree.driver().errors(run_);
  MutexLock lock(mutex_);
  if (!outcome_) {
    outcome_ = outcome;
    errors_ = std::move(errors);
  }
}

bool NodeRun::done() {
  if (kept()) {
    return true;
  }
  const std::shared_ptr<Tree> tree = tree_.lock();
  return tree == nullptr || tree->driver().done(run_);
}

Status NodeRun::wait(Deadline deadline) {
  if (std::optional<Status> outcome = kept()) {
    return *std::move(outcome);
  }
  const std::shared_ptr<Tree> tree = tree_.lock();
  if (tree == nullptr) {
    // The tree's owner settles every handle before it lets go, so only the instant in between gets here.
    return kept().value_or(failed_precondition("wait: the worker of this run is closed"));
  }
  Status outcome = tree->driver().wait(run_, deadline);
  if (!tree->driver().done(run_)) {
    return outcome;
  }
  keep(*tree, outcome);
  return kept().value_or(outcome);
}

std::vector<Status> NodeRun::errors() {
  const std::shared_ptr<Tree> tree = tree_.lock();
  if (tree != nullptr && !kept() && tree->driver().done(run_)) {
    keep(*tree, tree->driver().wait(run_, Deadline::never()));
  }
  MutexLock lock(mutex_);
  return errors_;
}

void NodeRun::cancel(Status why) {
  if (const std::shared_ptr<Tree> tree = tree_.lock(); tree != nullptr && !kept()) {
    tree->driver().cancel(run_, std::move(why));
  }
}

void NodeRun::on_done(std::function<void()> callback) {
  const std::shared_ptr<Tree> tree = tree_.lock();
  if (tree == nullptr || kept()) {
    callback();
    return;
  }
  tree->driver().on_done(run_, std::move(callback));
}

void NodeRun::settle(Tree& tree, const Status& why) {
  if (kept()) {
    return;
  }
  keep(tree, tree.driver().done(run_) ? tree.driver().wait(run_, Deadline::never()) : why);
}

}  // namespace simpler::worker
