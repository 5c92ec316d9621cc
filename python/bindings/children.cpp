#include "bindings/children.h"

#include <utility>
#include <vector>

#include <nanobind/stl/string.h>

#include "bindings/errors.h"
#include "bindings/gil.h"
#include "callable/identity.h"

namespace simpler::python {
namespace {

// Owned for the rest of the process: children end with _exit.
Result<PyObject*> make_function(CallableKind kind, std::span<const std::byte> payload) {
  const auto as_bytes = [](std::span<const std::byte> bytes) {
    return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  std::span<const std::byte> content = payload;
  if (kind == CallableKind::kPythonSerialized) {
    Result<std::span<const std::byte>> inside = callable::unwrap_payload(payload);
    if (!inside.ok()) {
      return inside.status();
    }
    content = *inside;
  }
  try {
    const char* loader = kind == CallableKind::kPythonSerialized ? "load_serialized" : "load_import";
    return nb::module_::import_("simpler._transport").attr(loader)(as_bytes(content)).release().ptr();
  } catch (nb::python_error& error) {
    const Status why = status_of(error);
    return Status(StatusCode::kFailedPrecondition, "the callable cannot be loaded in the child: " +
                                                       std::string(why.type_name()) + ": " + std::string(why.message()))
        .with_type_name(std::string(why.type_name()))
        .with_traceback(std::string(why.traceback()));
  }
}

// The object that the last call gave away, for the next one if nobody kept it. Belongs to the serving thread.
thread_local PyObject* spare_args = nullptr;

nb::object take_args() {
  if (spare_args != nullptr && Py_REFCNT(spare_args) == 1) {
    return nb::steal(std::exchange(spare_args, nullptr));
  }
  Py_CLEAR(spare_args);
  return nb::cast(CallArgs{});
}

Status call(PyObject* function, const MappedArgs& args) {
  try {
    nb::object given = take_args();
    CallArgs* const shown = nb::inst_ptr<CallArgs>(given);
    shown->args = &args;
    PyObject* const result = PyObject_CallOneArg(function, given.ptr());
    shown->args = nullptr;
    Py_XSETREF(spare_args, given.release().ptr());
    if (result == nullptr) {
      throw nb::python_error();
    }
    Py_DECREF(result);
    return Status::ok();
  } catch (nb::python_error& error) {
    return status_of(error);
  }
}

}  // namespace

HostFunction inherited_function(PyObject* function) {
  return [function](const MappedArgs& args) -> Status {
    keep_serving_lock();
    return call(function, args);
  };
}

HostFunction deferred_function(CallableKind kind, std::vector<std::byte> payload) {
  return [kind, payload = std::move(payload),
          made = static_cast<PyObject*>(nullptr)](const MappedArgs& args) mutable -> Status {
    keep_serving_lock();
    if (made == nullptr) {
      Result<PyObject*> loaded = make_function(kind, payload);
      if (!loaded.ok()) {
        return std::move(loaded).status();
      }
      made = *loaded;
    }
    return call(made, args);
  };
}

Result<HostFunction> load_function(CallableKind kind, std::span<const std::byte> payload) {
  const nb::gil_scoped_acquire lock;
  Result<PyObject*> made = make_function(kind, payload);
  if (!made.ok()) {
    return std::move(made).status();
  }
  return inherited_function(*made);
}

void flush_streams() {
  const nb::gil_scoped_acquire lock;
  try {
    nb::module_::import_("simpler._transport").attr("flush_streams")();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("simpler: flushing the streams of a child");
  }
}

}  // namespace simpler::python
