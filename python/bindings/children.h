// Python callables in the children of a worker.
//
// In the parent a callable is a borrowed pointer: the Python worker keeps every registered object alive, and the child
// inherits that worker with the fork. Nothing of Python is owned by C++ here, so no reference cycle can hide from the
// garbage collector.
#pragma once

#include <span>

#include <nanobind/nanobind.h>

#include "simpler/callable.h"
#include "simpler/status.h"
#include "worker/host_language.h"

namespace simpler::python {

namespace nb = nanobind;

// What a callable receives: valid until it returns, afterwards every access raises.
struct CallArgs {
  const MappedArgs* args = nullptr;
};

// `function` runs in children as it is at the fork; with `payload` it is made from these bytes at its first call.
HostFunction inherited_function(PyObject* function);
HostFunction deferred_function(CallableKind kind, std::vector<std::byte> payload);

// In a child: HostLanguage::load and leave_serving.
Result<HostFunction> load_function(CallableKind kind, std::span<const std::byte> payload);
void flush_streams();

}  // namespace simpler::python
