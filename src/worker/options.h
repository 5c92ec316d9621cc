// Checks of WorkerOptions: everything that can be refused before a process or a byte of shared memory exists.
#pragma once

#include "simpler/status.h"
#include "simpler/worker.h"

namespace simpler::worker {

// kInvalidArgument naming the option, its value and what would be right.
Status validate(const WorkerOptions& options);

}  // namespace simpler::worker
