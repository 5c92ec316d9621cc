#include "bindings/errors.h"

#include <string>
#include <utility>

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include "bindings/gil.h"

namespace simpler::python {
namespace {

// UTF-8 from another process may have been cut; what does not decode is shown, not raised.
nb::object text(std::string_view bytes) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (decoded == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(decoded);
}

}  // namespace

nb::object exception_of(const Status& status) {
  return nb::module_::import_("simpler.errors")
      .attr("_from_status")(text(to_string(status.code())), text(status.message()), text(status.worker_path()),
                            text(status.callable()), text(status.task()), text(status.type_name()),
                            text(status.traceback()), status.run_code(), status.pid(), status.exit_status(),
                            status.signal());
}

void set_error(const Status& status) noexcept {
  try {
    const nb::object exception = exception_of(status);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  } catch (nb::python_error& error) {
    error.restore();
  }
}

void raise(const Status& status) {
  set_error(status);
  throw nb::python_error();
}

void register_error_translation() {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Error& error) {
      if (!restore_interrupt()) {
        set_error(error.status());
      }
    }
  });
}

Status status_of(nb::python_error& error) noexcept {
  try {
    const auto [type, message, traceback] = nb::cast<std::tuple<std::string, std::string, std::string>>(
        nb::module_::import_("simpler.errors").attr("_describe")(error.value()));
    return task_failed(message).with_type_name(type).with_traceback(traceback);
  } catch (const std::exception& second) {
    return task_failed("an exception that could not be described").with_type_name("BaseException");
  }
}

}  // namespace simpler::python
