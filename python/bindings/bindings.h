// The parts of the extension module, and the records that they share.
#pragma once

#include <memory>
#include <optional>
#include <thread>

#include <nanobind/nanobind.h>

#include "simpler/simpler.h"

namespace simpler::python {

namespace nb = nanobind;

void bind_values(nb::module_& module);
void bind_args(nb::module_& module);
void bind_buffers(nb::module_& module);
void bind_callables(nb::module_& module);
void bind_children(nb::module_& module);
void bind_orchestrator(nb::module_& module);
void bind_worker(nb::module_& module);

// The object that a graph function receives. `live` is null once the function returned.
struct GraphBuilder {
  Orchestrator* live = nullptr;
  std::thread::id thread;
  PyObject* worker = nullptr;  // borrowed from the submit that made this

  // Throws Error unless called inside the graph function and on its thread.
  Orchestrator& use(const char* call) const;
};

// Bytes of an object of another library, kept alive by `keep`.
struct HostMemory {
  std::byte* data = nullptr;
  std::uint64_t nbytes = 0;
  bool writable = false;
  std::shared_ptr<const void> keep;
};
// By the buffer protocol or DLPack; throws a Python error when the object has neither.
HostMemory memory_of(nb::handle object, bool need_write);

nb::object memory_view(const std::byte* data, std::uint64_t nbytes, bool writable);

}  // namespace simpler::python
