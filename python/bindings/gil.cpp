#include "bindings/gil.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "bindings/children.h"

namespace simpler::python {
namespace {

// What this thread gave up in before_block, innermost last; null where it did not hold the lock.
thread_local std::vector<PyThreadState*> given_up;
// What a signal handler raised inside a wait of this thread.
thread_local std::optional<nb::python_error> interrupt;

// A fork runs the hooks of every worker that starts at that moment; the outermost pair counts.
struct ForkHold {
  int depth = 0;
  PyGILState_STATE state{};
};
thread_local ForkHold fork_hold;

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() == 0 || Py_IsFinalizing() != 0;
#else
  return Py_IsInitialized() == 0 || _Py_IsFinalizing() != 0;
#endif
}

void before_block() {
  given_up.push_back(PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr);
}

void after_block() {
  PyThreadState* const state = given_up.back();
  given_up.pop_back();
  if (state != nullptr) {
    PyEval_RestoreThread(state);
  }
}

void before_fork() {
  if (fork_hold.depth++ == 0) {
    fork_hold.state = PyGILState_Ensure();
    PyOS_BeforeFork();
  }
}

void after_fork_parent() {
  if (--fork_hold.depth == 0) {
    PyOS_AfterFork_Parent();
    PyGILState_Release(fork_hold.state);
  }
}

void after_fork_child() {
  if (--fork_hold.depth == 0) {
    PyOS_AfterFork_Child();
  }
}

// Looks for signals; what their handlers raise waits in `interrupt` until the wait has been given up.
bool interrupted() {
  if (interpreter_is_ending() || interrupt.has_value()) {
    return true;
  }
  const nb::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() == 0) {
    return false;
  }
  interrupt.emplace();
  return true;
}

// The serving thread of a child while it does not hold the lock; null while it does.
thread_local PyThreadState* resting = nullptr;
thread_local Nanos taken_at = 0;
constexpr Nanos kLongestHold = 5 * kMillisecond;  // functions that are not written in Python never offer the lock

void enter_serving() {
  resting = PyEval_SaveThread();
}

void idle() {
  if (resting == nullptr) {
    resting = PyEval_SaveThread();
  }
}

}  // namespace

HostLanguage host_language() {
  HostLanguage language;
  language.before_fork = &before_fork;
  language.after_fork_parent = &after_fork_parent;
  language.after_fork_child = &after_fork_child;
  language.enter_serving = &enter_serving;
  language.idle = &idle;
  language.leave_serving = &flush_streams;
  language.load = &load_function;
  language.before_block = &before_block;
  language.after_block = &after_block;
  language.interrupted = &interrupted;
  return language;
}

bool restore_interrupt() {
  if (!interrupt.has_value()) {
    return false;
  }
  interrupt->restore();
  interrupt.reset();
  return true;
}

std::shared_ptr<PyObject> hold(nb::handle object) {
  Py_XINCREF(object.ptr());
  return {object.ptr(), [](PyObject* owned) {
            if (owned == nullptr || interpreter_is_ending()) {
              return;
            }
            const PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(owned);
            PyGILState_Release(state);
          }};
}

void keep_serving_lock() {
  if (resting == nullptr && monotonic_now() - taken_at >= kLongestHold) {
    idle();
  }
  if (resting != nullptr) {
    PyEval_RestoreThread(std::exchange(resting, nullptr));
    taken_at = monotonic_now();
  }
}

void with_lock(const std::function<void()>& body) {
  if (interpreter_is_ending()) {
    return;
  }
  const nb::gil_scoped_acquire lock;
  body();
}

}  // namespace simpler::python
