// The extension module simpler._native: everything that Python code of the package builds on.
#include <nanobind/nanobind.h>

#include "bindings/bindings.h"
#include "bindings/errors.h"

NB_MODULE(_native, module) {
  namespace py = simpler::python;
  // Objects that outlive the interpreter (a failed test's traceback holds them) are no news to the user.
  nanobind::set_leak_warnings(false);
  module.doc() = "Workers, graphs and memory of simpler, as the package simpler wraps them.";
  py::register_error_translation();
  py::bind_values(module);
  py::bind_args(module);
  py::bind_buffers(module);
  py::bind_callables(module);
  py::bind_children(module);
  py::bind_orchestrator(module);
  py::bind_worker(module);
}
