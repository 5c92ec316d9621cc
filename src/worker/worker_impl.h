// The facade's own state: lifecycle, callables, and the level behind it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/fault_point.h"
#include "base/mutex.h"
#include "callable/registry.h"
#include "process/fork_point.h"
#include "worker/host_language.h"
#include "worker/level.h"
#include "worker/lifecycle.h"

namespace simpler {

struct Worker::Impl {
  explicit Impl(WorkerOptions given);

  // The lease for a call on the live tree; throws in another process or another state.
  worker::Lifecycle::Lease enter(const char* call);
  void check_process(const char* call) const;
  CallableHandle add(const callable::Identity& identity, TargetNamespace target, std::string name,
                     worker::Registered registered);
  CallableHandle add_held(const callable::Identity& identity, TargetNamespace target, std::string name,
                          worker::Registered registered, bool live) SIMPLER_REQUIRES(registering);
  // What is `dropped` goes when the lock is given up: user code may run then, and may come back here.
  void remove_held(const CallableHandle& handle, std::vector<worker::Registered>& dropped)
      SIMPLER_REQUIRES(registering);
  void finish_removals(std::vector<worker::Registered>& dropped) SIMPLER_REQUIRES(registering);
  void start();
  void abandon_start(const Status& why);
  worker::Lifecycle::Closing begin_terminate(Deadline deadline);

  const WorkerOptions options;
  const process::ProcessMark mark;
  callable::Registry registry;
  HostLanguage language;        // set before init
  FaultPlan* faults = nullptr;  // as `language`; null in production
  worker::Lifecycle lifecycle;
  std::unique_ptr<worker::Level> level;

  Mutex registering;  // one registration or removal at a time, its broadcast included
  std::map<std::uint16_t, worker::Registered> callables SIMPLER_GUARDED_BY(registering);
  // Callables whose last handle is gone but that a task of an unfinished run may still name.
  std::vector<callable::Removal> removals SIMPLER_GUARDED_BY(registering);
  Mutex closing;  // one close at a time; others join it
  bool finished SIMPLER_GUARDED_BY(closing) = false;
};

}  // namespace simpler
