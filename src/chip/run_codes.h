// The documented codes with which a run fails: name, meaning, what to do about it.
//
// The text form is stable: "run code 2 HEAP_RING_DEADLOCK: <detail>; <meaning>; hint: <hint>". Status::run_code() holds
// the number.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "simpler/status.h"

namespace simpler::chip {

enum class RunCode : int {
  kNone = 0,
  kHeapExhausted = 2,
  kWindowExhausted = 3,
  kTooManyProducers = 4,
  kInvalidArgs = 5,
  kExplicitFatal = 9,
  kTensorMapOverflow = 11,
  kSchedulerTimeout = 100,
  kReadyQueueOverflow = 104,
};

struct RunCodeInfo {
  RunCode code;
  StatusCode status;
  std::string_view name;
  std::string_view meaning;
  std::string_view hint;
};

std::span<const RunCodeInfo> run_codes();
const RunCodeInfo& info_of(RunCode code);
Status run_failure(RunCode code, std::string_view detail);

}  // namespace simpler::chip
