// Runs one program to its end: no shell, own process group, all output in memory, a time limit.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "simpler/status.h"

namespace simpler::compile {

struct ProgramResult {
  int exit_status = 0;  // when signal is 0
  int signal = 0;
  std::string output;  // standard output and error as they came, at most 256 KiB
};

// argv[0] is an absolute path. kTimeout when the limit passes: the whole process group is killed and reaped first.
Result<ProgramResult> run_program(const std::vector<std::string>& argv, Deadline deadline);

}  // namespace simpler::compile
