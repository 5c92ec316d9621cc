// Who holds the interpreter lock around forks, waits and callbacks.
//
// A thread of Python enters the bindings with the lock. Calls that may block give it up; the worker's hooks give it up
// for the waits inside a submit. A fork takes it, so that the child starts with a sound interpreter, and the child
// keeps it until it serves.
#pragma once

#include <functional>
#include <memory>

#include <nanobind/nanobind.h>

#include "worker/host_language.h"

namespace simpler::python {

namespace nb = nanobind;

// The hooks of every worker that Python makes.
HostLanguage host_language();

// True and clears it when a signal handler of Python's raised inside a wait of this thread: the exception is set.
bool restore_interrupt();

// Owns one reference and gives it up under the lock, from whatever thread; after the interpreter ended it is left
// alone.
std::shared_ptr<PyObject> hold(nb::handle object);

// Runs `body` under the lock on any thread, with or without it.
void with_lock(const std::function<void()>& body);

// On the serving thread of a child: takes the lock unless an earlier call kept it. HostLanguage::idle gives it up, and
// after some milliseconds of calls it is offered to the other threads of the child in between.
void keep_serving_lock();

}  // namespace simpler::python
