// Fault points: named steps that may fail, which a test can make fail.
//
// A component takes a `FaultPlan*` in its options, null in production, and writes
//   SIMPLER_RETURN_IF_ERROR(fault_point(plan, "mapping.secure"));
// before the step. A plan counts every point that is reached, so a sweep fails the first, the second, the third ...
// until a run reaches no more. A process made by a fork has a copy of the plan and counts on its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/thread_annotations.h"
#include "simpler/status.h"

namespace simpler {

class FaultPlan {
 public:
  // The `nth` time (1 is the first) that `point` is reached, it fails with `status`.
  void fail_at(std::string point, uint64_t nth, Status status);
  // The `nth` point reached from now on fails, whatever its name.
  void fail_nth(uint64_t nth, Status status);

  // Calls back at every point, on the thread that is there and under no lock: what else may happen at a step than that
  // it fails. A failure that it returns ends the point like a planned one. Set before the plan is given away.
  using Hook = std::function<Status(std::string_view point)>;
  void on_reach(Hook hook);

  // Called by fault_point: counts, and says how this one ends.
  Status reach(std::string_view point);

  // Points in the order in which they were reached.
  std::vector<std::string> reached() const;
  // True once a planned failure has happened.
  bool fired() const;

 private:
  struct Planned {
    std::string point;  // empty: any
    uint64_t countdown;
    Status status;
  };

  Hook hook_;
  mutable Mutex mutex_;
  std::vector<Planned> planned_ SIMPLER_GUARDED_BY(mutex_);
  std::vector<std::string> reached_ SIMPLER_GUARDED_BY(mutex_);
  bool fired_ SIMPLER_GUARDED_BY(mutex_) = false;
};

inline Status fault_point(FaultPlan* plan, std::string_view point) {
  if (plan == nullptr) [[likely]]
    return Status::ok();
  return plan->reach(point);
}

}  // namespace simpler
