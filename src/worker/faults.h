// Steps of a worker's start-up and close at which a test lets something happen; production passes no plan.
//
// A step is named "start" or "close", who is there, and what comes next: "start.parent.fork" is reached in the parent
// before each fork, "start.child.announced" in a child between the word that says it is ready and the signal. README.md
// lists them in their order. A child has a copy of the plan as it was at the fork. Level 3 only.
#pragma once

#include "base/fault_point.h"
#include "simpler/worker.h"

namespace simpler::worker {

// Only before init(); the plan outlives the worker.
void set_fault_plan(Worker& worker, FaultPlan* plan);

}  // namespace simpler::worker
