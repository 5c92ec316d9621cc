// Failures on their way between the languages.
//
// Outwards a Status becomes an exception of simpler.errors; inwards an exception of a user's callable becomes a Status
// with type name, text and traceback. All of it is called with the interpreter lock held.
#pragma once

#include <nanobind/nanobind.h>

#include "simpler/status.h"

namespace simpler::python {

namespace nb = nanobind;

void register_error_translation();

// The exception object that stands for `status`.
nb::object exception_of(const Status& status);
// Sets it as the current Python error.
void set_error(const Status& status) noexcept;
// Throws it.
[[noreturn]] void raise(const Status& status);
inline void raise_if_error(const Status& status) {
  if (!status.is_ok()) [[unlikely]] {
    raise(status);
  }
}

// Takes over the exception that a callable raised, of any type.
Status status_of(nb::python_error& error) noexcept;

}  // namespace simpler::python
