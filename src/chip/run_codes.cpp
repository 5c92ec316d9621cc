#include "chip/run_codes.h"

#include "base/check.h"

namespace simpler::chip {
namespace {

constexpr RunCodeInfo kCodes[] = {
    {RunCode::kHeapExhausted, StatusCode::kResourceExhausted, "HEAP_RING_DEADLOCK",
     "the heap of the run cannot hold the next output",
     "raise runtime_env.ring_heap or split the graph into more runs"},
    {RunCode::kWindowExhausted, StatusCode::kResourceExhausted, "FLOW_CONTROL_DEADLOCK",
     "the graph has more tasks than its window", "raise runtime_env.ring_task_window (a power of two)"},
    {RunCode::kTooManyProducers, StatusCode::kResourceExhausted, "DEP_POOL_OVERFLOW",
     "a task waits for more producers than it may have", "join the producers through a task in between"},
    {RunCode::kInvalidArgs, StatusCode::kInvalidArgument, "INVALID_ARGS",
     "the orchestration or its arguments break a rule of the author API", ""},
    {RunCode::kExplicitFatal, StatusCode::kTaskFailed, "EXPLICIT_ORCH_FATAL", "the orchestration ended the run itself",
     ""},
    {RunCode::kTensorMapOverflow, StatusCode::kResourceExhausted, "TENSORMAP_OVERFLOW",
     "the table of written tensor regions is full", "write fewer distinct views in one run, or use MANUAL scopes"},
    {RunCode::kSchedulerTimeout, StatusCode::kTaskFailed, "SCHEDULER_TIMEOUT", "the run made no progress",
     "look for an endless loop in the named kernel; a long kernel needs a larger watchdog_s"},
    {RunCode::kReadyQueueOverflow, StatusCode::kResourceExhausted, "READY_QUEUE_OVERFLOW",
     "more tasks were ready at once than the ready queue holds", "raise the chip option ready_queue_entries"},
};

}  // namespace

std::span<const RunCodeInfo> run_codes() {
  return kCodes;
}

const RunCodeInfo& info_of(RunCode code) {
  for (const RunCodeInfo& info : kCodes) {
    if (info.code == code) return info;
  }
  SIMPLER_UNREACHABLE(static_cast<int>(code));
}

Status run_failure(RunCode code, std::string_view detail) {
  const RunCodeInfo& info = info_of(code);
  std::string text = "run code " + std::to_string(static_cast<int>(code)) + " " + std::string(info.name) + ": ";
  text.append(detail).append("; ").append(info.meaning);
  if (!std::string_view(info.hint).empty()) text.append("; hint: ").append(info.hint);
  return Status(info.status, std::move(text)).with_run_code(static_cast<int>(code));
}

}  // namespace simpler::chip
