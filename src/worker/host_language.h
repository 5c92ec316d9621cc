// What a language binding adds to a worker: callables of its own language, its hooks around a fork, and what to do
// around a call that may block. C++ programs need none of it.
//
// Owner: the binding fills a HostLanguage before init(); the worker copies it and calls the hooks from the threads
// named below. Hooks must not throw.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simpler/buffer.h"
#include "simpler/callable.h"
#include "simpler/run.h"
#include "simpler/status.h"
#include "simpler/worker.h"

namespace simpler {

// Runs one call in a child. A failure carries type name, text and traceback of the user's exception.
using HostFunction = std::function<Status(const MappedArgs&)>;

struct HostLanguage {
  // Around the fork, on the thread that forks: interpreter bookkeeping.
  std::function<void()> before_fork;
  std::function<void()> after_fork_parent;
  std::function<void()> after_fork_child;
  // In the child, once, before it serves: from here on the child's thread holds no interpreter lock while it waits.
  std::function<void()> enter_serving;
  // In the child, when no call came for about a microsecond: gives up the interpreter lock if the last call kept it.
  std::function<void()> idle;
  // In the child, once, when the worker closes in good order: for example to flush standard output.
  std::function<void()> leave_serving;
  // In the child: makes a function from the bytes of a callable that was registered after the fork.
  std::function<Result<HostFunction>(CallableKind kind, std::span<const std::byte> payload)> load;
  // On a caller's thread, around a wait inside a submit: gives up and takes back the interpreter lock.
  std::function<void()> before_block;
  std::function<void()> after_block;
  // On a caller's thread, between the two, at least every 100 ms of init and of a wait inside a submit: true when the
  // caller wants control back (Ctrl-C). Takes the interpreter lock itself.
  std::function<bool()> interrupted;
};

struct HostCallable {
  CallableKind kind = CallableKind::kPythonSerialized;
  std::array<std::uint8_t, 32> digest = {};
  std::string name;
  HostFunction function;           // what a child made after this registration inherits; empty: `payload` is loaded
  std::vector<std::byte> payload;  // what a running child is sent; empty: it cannot be sent
  std::string unsendable;          // why it cannot be sent, for the error; empty when it can
  std::vector<int> keep_fds;       // descriptors that the function uses and a child must inherit
};

void set_host_language(Worker& worker, HostLanguage language);
CallableHandle register_host(Worker& worker, HostCallable callable);

// Calls back once when the run is over, on a thread of the worker's; at once, on this one, when it already is.
void notify_done(const RunHandle& run, std::function<void()> callback);
// The live host buffer of this worker that holds all of [data, data + nbytes); invalid when there is none.
Buffer find_host_buffer(Worker& worker, const std::byte* data, std::uint64_t nbytes);
// Level 2 only: a buffer over memory of this process that `keep` owns. Throws Error.
Buffer wrap_host_memory(Worker& worker, std::byte* data, std::uint64_t nbytes, AccessMode access,
                        std::shared_ptr<const void> keep);

}  // namespace simpler
