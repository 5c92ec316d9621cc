// One run: a graph that was built by one submit, or one task of a level-2 worker.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "simpler/status.h"

namespace simpler {

class RunHandle {
 public:
  RunHandle() = default;
  bool valid() const { return state_ != nullptr; }

  // True once wait() would not block.
  bool done() const;
  // Returns when the run ended; throws its first error, the same at every call, or Error(kTimeout) on expiry, which
  // does not disturb the run. Throws Error(kInvalidArgument) for a negative timeout. Any number of threads may wait.
  void wait(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;
  // As wait(), but returns the run's outcome instead of throwing it; a timeout is kTimeout.
  Status outcome(std::optional<std::chrono::nanoseconds> timeout = std::nullopt) const;
  // Every error of the ended run in the order of arrival; empty while it runs or when it succeeded.
  std::vector<Status> errors() const;
  // Tasks that have not started never will; running ones end. The run then fails with kCancelled.
  void cancel() const;
  // Number of the run in its worker, from 1.
  std::uint64_t id() const;

  struct State;
  explicit RunHandle(std::shared_ptr<State> state) : state_(std::move(state)) {}
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace simpler
