// The native side of simpler.worker.Worker and simpler.run.RunHandle.
//
// Every call that may block gives the interpreter lock up. A wait is cut into slices, so that a signal handler of
// Python runs within one slice; that changes nothing for the run.
#include <chrono>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/children.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "callable/identity.h"
#include "worker/host_language.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

constexpr std::chrono::milliseconds kSlice{50};

// Destroyed without the interpreter lock: ending a tree waits for threads that may need it.
class NativeWorker {
 public:
  explicit NativeWorker(WorkerOptions options) : worker_(std::make_unique<Worker>(std::move(options))) {
    set_host_language(*worker_, host_language());
  }
  NativeWorker(const NativeWorker&) = delete;
  NativeWorker& operator=(const NativeWorker&) = delete;
  ~NativeWorker() {
    const nb::gil_scoped_release unlocked;
    worker_.reset();
  }
  Worker* operator->() const { return worker_.get(); }
  Worker& operator*() const { return *worker_; }

 private:
  std::unique_ptr<Worker> worker_;
};

struct NativeRun {
  RunHandle handle;
};

// Graph functions that this thread is inside.
thread_local int graphs_here = 0;

template <class T>
void read(const nb::kwargs& given, const char* name, T& out) {
  if (given.contains(name)) {
    out = nb::cast<T>(given[name]);
  }
}

WorkerOptions options_of(const nb::kwargs& given) {
  WorkerOptions options;
  read(given, "level", options.level);
  read(given, "platform", options.platform);
  read(given, "runtime", options.runtime);
  read(given, "device_id", options.device_id);
  read(given, "device_ids", options.device_ids);
  read(given, "num_sub_workers", options.num_sub_workers);
  read(given, "heap_ring_size", options.heap_ring_size);
  read(given, "startup_timeout_s", options.startup_timeout_s);
  read(given, "heap_wait_timeout_s", options.heap_wait_timeout_s);
  read(given, "control_timeout_s", options.control_timeout_s);
  read(given, "close_timeout_s", options.close_timeout_s);
  read(given, "watchdog_s", options.watchdog_s);
  read(given, "chip_threads", options.chip_threads);
  read(given, "task_window", options.task_window);
  read(given, "max_pending_runs", options.max_pending_runs);
  read(given, "full_inference", options.full_inference);
  read(given, "trace_path", options.trace_path);
  read(given, "measure_user_time", options.measure_user_time);
  return options;
}

NativeRun submit_graph(const NativeWorker& self, const nb::object& worker, const nb::callable& graph,
                       const nb::object& args, const nb::object& config) {
  static const CallConfig kUnset{};
  const TaskArgs* const native_args = args.is_none() ? nullptr : nb::cast<const TaskArgs*>(args);
  const CallConfig* const native_config = config.is_none() ? &kUnset : nb::cast<const CallConfig*>(config);
  const auto build = [&](Orchestrator& orchestrator, const TaskArgs*, const CallConfig& settings) {
    const nb::object shown = nb::cast(GraphBuilder{&orchestrator, std::this_thread::get_id(), worker.ptr()});
    GraphBuilder* const builder = nb::inst_ptr<GraphBuilder>(shown);
    ++graphs_here;
    struct End {
      GraphBuilder* builder;
      ~End() {
        --graphs_here;
        builder->live = nullptr;
        builder->worker = nullptr;
      }
    } end{builder};
    graph(shown, args, config.is_none() ? nb::cast(settings) : config);
  };
  try {
    return {self->submit(Worker::GraphFunction(build), native_args, *native_config)};
  } catch (const nb::python_error&) {
    // A second interrupt, while what the first one had cancelled was waited for.
    if (restore_interrupt()) {
      throw nb::python_error();
    }
    throw;
  }
}

// True for a success, false when the time is over, or the run's first error.
nb::object outcome_of(const NativeRun& run) {
  const Status outcome = run.handle.outcome();
  return outcome.is_ok() ? nb::object(nb::bool_(true)) : exception_of(outcome);
}

nb::object wait(const NativeRun& run, std::optional<double> seconds) {
  if (run.handle.done()) {
    return outcome_of(run);
  }
  const auto begin = std::chrono::steady_clock::now();
  // Longer than any process lives: the same as no limit, and it fits the clock.
  constexpr double kLong = 1e9;
  const bool limited = seconds && *seconds < kLong;
  const auto limit =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(limited ? *seconds : 0));
  while (true) {
    std::chrono::nanoseconds slice = kSlice;
    if (limited) {
      const auto rest = limit - (std::chrono::steady_clock::now() - begin);
      slice = std::max(std::chrono::nanoseconds(0), std::min<std::chrono::nanoseconds>(slice, rest));
    }
    bool over = false;
    {
      const nb::gil_scoped_release unlocked;
      over = run.handle.done();
      if (!over) {
        (void)run.handle.outcome(slice);
        over = run.handle.done();
      }
    }
    if (over) {
      return outcome_of(run);
    }
    if (PyErr_CheckSignals() != 0) {
      throw nb::python_error();
    }
    if (limited && std::chrono::steady_clock::now() - begin >= limit) {
      return nb::bool_(false);
    }
  }
}

nb::list errors_of(const NativeRun& run) {
  std::vector<Status> errors;
  {
    const nb::gil_scoped_release unlocked;
    errors = run.handle.errors();
  }
  nb::list all;
  for (const Status& error : errors) {
    all.append(exception_of(error));
  }
  return all;
}

void on_done(const NativeRun& run, const nb::callable& callback) {
  const std::shared_ptr<PyObject> held = hold(callback);
  const nb::gil_scoped_release unlocked;
  notify_done(run.handle, [held] {
    with_lock([&] {
      PyObject* const result = PyObject_CallNoArgs(held.get());
      if (result == nullptr) {
        PyErr_WriteUnraisable(held.get());
      }
      Py_XDECREF(result);
    });
  });
}

void bind_run(nb::module_& module) {
  nb::class_<NativeRun>(module, "Run", nb::is_weak_referenceable(), "One submitted run; RunHandle wraps it.")
      .def_prop_ro(
          "done", [](const NativeRun& self) { return self.handle.done(); }, "Whether a wait would not block.")
      .def_prop_ro(
          "id", [](const NativeRun& self) { return self.handle.id(); }, "Number of the run in its worker, from 1.")
      .def("wait", &wait, nb::arg("timeout") = nb::none(),
           nb::sig("def wait(self, timeout: float | None = None) -> bool | BaseException"),
           "Return True for a success, the run's first error, or False when the time is over.")
      .def("errors", &errors_of, nb::sig("def errors(self) -> list[BaseException]"),
           "Return every error of the ended run.")
      .def(
          "cancel",
          [](const NativeRun& self) {
            const nb::gil_scoped_release unlocked;
            self.handle.cancel();
          },
          "Let nothing start any more.")
      .def("on_done", &on_done, nb::arg("callback"),
           nb::sig("def on_done(self, callback: collections.abc.Callable[[], object]) -> None"),
           "Call back once when the run is over.");
}

// --- registration ---------------------------------------------------------------------------------------------------

CallableHandle register_python(const NativeWorker& self, nb::handle function, Like<CallableKind> kind,
                               const nb::bytes& digest, const std::string& name, std::optional<nb::bytes> payload,
                               const std::string& unsendable, bool from_payload, const std::vector<int>& keep_fds) {
  HostCallable callable;
  callable.kind = to_enum(kind, "kind");
  if (digest.size() != callable.digest.size()) {
    throw Error(invalid_argument(fmt::format("digest has {} bytes, 32 are needed", digest.size())));
  }
  std::memcpy(callable.digest.data(), digest.data(), digest.size());
  callable.name = name;
  callable.unsendable = unsendable;
  callable.keep_fds = keep_fds;
  if (payload) {
    const auto content = std::as_bytes(std::span(static_cast<const char*>(payload->data()), payload->size()));
    callable.payload = callable.kind == CallableKind::kPythonSerialized
                           ? callable::wrap_payload(content)
                           : std::vector<std::byte>(content.begin(), content.end());
  }
  callable.function =
      from_payload ? deferred_function(callable.kind, callable.payload) : inherited_function(function.ptr());
  const nb::gil_scoped_release unlocked;
  return register_host(*self, std::move(callable));
}

void bind_registration(nb::class_<NativeWorker>& type) {
  type.def(
          "register_chip",
          [](const NativeWorker& self, const ChipCallable& callable) {
            const nb::gil_scoped_release unlocked;
            return self->register_callable(callable);
          },
          nb::arg("callable"), "Register what chips run.")
      .def("register_python", &register_python, nb::arg("function"), nb::kw_only(), nb::arg("kind"), nb::arg("digest"),
           nb::arg("name"), nb::arg("payload") = nb::none(), nb::arg("unsendable") = "",
           nb::arg("from_payload") = false, nb::arg("keep_fds") = nb::make_tuple(),
           nb::sig("def register_python(self, function: object, *, kind: simpler._enums.CallableKind | int | str, "
                   "digest: bytes, name: "
                   "str, payload: bytes | None = None, unsendable: str = '', from_payload: bool = False, keep_fds: "
                   "collections.abc.Sequence[int] = ()) -> CallableHandle"),
           "Register a Python callable; the caller keeps it alive as long as the worker.")
      .def(
          "unregister",
          [](const NativeWorker& self, const CallableHandle& handle) {
            const nb::gil_scoped_release unlocked;
            self->unregister(handle);
          },
          nb::arg("handle"), "Forget one registration.");
}

void bind_lifecycle(nb::class_<NativeWorker>& type) {
  type.def(
          "__init__", [](NativeWorker* self, const nb::kwargs& given) { new (self) NativeWorker(options_of(given)); },
          nb::sig("def __init__(self, **options: object) -> None"))
      .def(
          "init",
          [](const NativeWorker& self) {
            const nb::gil_scoped_release unlocked;
            self->init();
          },
          "Start the tree.")
      .def(
          "close",
          [](const NativeWorker& self) {
            const nb::gil_scoped_release unlocked;
            self->close();
          },
          "End the tree in good order.")
      .def(
          "terminate",
          [](const NativeWorker& self) {
            const nb::gil_scoped_release unlocked;
            self->terminate();
          },
          "End the tree at once.")
      .def_prop_ro(
          "state",
          [](const NativeWorker& self) {
            constexpr const char* kNames[] = {"NEW", "INITIALIZING", "READY", "FAILED", "CLOSED"};
            return kNames[static_cast<std::size_t>(self->state())];
          },
          nb::sig("def state(self) -> str"), "NEW, INITIALIZING, READY, FAILED or CLOSED.")
      .def("submit_graph", &submit_graph, nb::arg("worker"), nb::arg("graph"), nb::arg("args").none(),
           nb::arg("config").none(),
           nb::sig("def submit_graph(self, worker: object, graph: collections.abc.Callable[..., object], args: "
                   "TaskArgs | None, config: CallConfig | None) -> Run"),
           "Build one graph on this thread.")
      .def(
          "submit_task",
          [](const NativeWorker& self, const CallableHandle& handle, const TaskArgs& args, const CallConfig& config) {
            const nb::gil_scoped_release unlocked;
            return NativeRun{self->submit(handle, args, config)};
          },
          nb::arg("handle"), nb::arg("args"), nb::arg("config"), "Run one chip callable.");
}

// --- memory ---------------------------------------------------------------------------------------------------------

// A buffer of this worker, or at level 2 memory of another library wrapped for the time of `use`.
template <class Use>
void with_host_side(const NativeWorker& self, nb::handle host, bool need_write, Use&& use) {
  if (nb::isinstance<Buffer>(host)) {
    const Buffer buffer = *nb::inst_ptr<Buffer>(host);
    const nb::gil_scoped_release unlocked;
    use(buffer);
    return;
  }
  const HostMemory memory = memory_of(host, need_write);
  const nb::gil_scoped_release unlocked;
  const Buffer wrapped = wrap_host_memory(*self, memory.data, memory.nbytes,
                                          memory.writable ? AccessMode::kReadWrite : AccessMode::kRead, memory.keep);
  struct Forget {
    const NativeWorker& worker;
    const Buffer& buffer;
    ~Forget() {
      try {
        worker->release_buffer(buffer);
      } catch (const Error&) {
        // Refused only when the worker was closed meanwhile, which let go of it.
      }
    }
  } forget{self, wrapped};
  use(wrapped);
}

Tensor make_tensor_arg(const NativeWorker& self, nb::handle array, const Dims& shapes, Like<DataType> dtype,
                       const std::optional<Dims>& strides, bool may_wrap) {
  const DataType type = to_enum(dtype, "dtype");
  const Extents extents = to_extents(shapes, "shapes");
  const Extents steps = strides ? to_extents(*strides, "strides") : Extents{};
  const HostMemory memory = memory_of(array, false);
  Buffer buffer;
  {
    const nb::gil_scoped_release unlocked;
    buffer = find_host_buffer(*self, memory.data, memory.nbytes);
    if (!buffer.valid() && may_wrap) {
      buffer = wrap_host_memory(*self, memory.data, memory.nbytes,
                                memory.writable ? AccessMode::kReadWrite : AccessMode::kRead, memory.keep);
    }
  }
  if (!buffer.valid()) {
    throw Error(
        invalid_argument(fmt::format("make_tensor_arg: this {} is not memory that the children share; make it with "
                                     "worker.create_buffer(nbytes) and view that as an array",
                                     kind_of(array))));
  }
  const auto offset = static_cast<std::uint64_t>(memory.data - buffer.data());
  return buffer.tensor(extents, type, steps, offset);
}

void bind_host_memory(nb::class_<NativeWorker>& type) {
  type.def(
          "create_buffer",
          [](const NativeWorker& self, std::uint64_t nbytes) {
            const nb::gil_scoped_release unlocked;
            return self->create_buffer(nbytes);
          },
          nb::arg("nbytes"), "Make shared host memory.")
      .def(
          "release_buffer",
          [](const NativeWorker& self, const Buffer& buffer) {
            const nb::gil_scoped_release unlocked;
            self->release_buffer(buffer);
          },
          nb::arg("buffer"), "Give shared host memory back.")
      .def("make_tensor_arg", &make_tensor_arg, nb::arg("array").none(), nb::arg("shapes").none(),
           nb::arg("dtype").none(), nb::arg("strides").none(), nb::arg("may_wrap"),
           nb::sig("def make_tensor_arg(self, array: object, shapes: collections.abc.Sequence[int], dtype: "
                   "simpler._enums.DataType | int | str, strides: collections.abc.Sequence[int] | None, may_wrap: "
                   "bool) -> Tensor"),
           "Find the buffer that holds an array, or at level 2 wrap its memory.");
}

void bind_device_memory(nb::class_<NativeWorker>& type) {
  type.def(
          "malloc",
          [](const NativeWorker& self, std::uint64_t size) {
            const nb::gil_scoped_release unlocked;
            return self->malloc(size);
          },
          nb::arg("size"), "Allocate on the chip of a level-2 worker.")
      .def(
          "alloc_child_tensor",
          [](const NativeWorker& self, int worker, const Dims& shapes, Like<DataType> dtype) {
            const Extents extents = to_extents(shapes, "shapes");
            const DataType element = to_enum(dtype, "dtype");
            const nb::gil_scoped_release unlocked;
            return self->alloc_child_tensor(worker, extents, element);
          },
          nb::arg("worker_id"), nb::arg("shapes").none(), nb::arg("dtype").none(), "Allocate on one chip.")
      .def(
          "free",
          [](const NativeWorker& self, const Buffer& buffer) {
            const nb::gil_scoped_release unlocked;
            self->free(buffer);
          },
          nb::arg("handle"), "Give memory of a chip back.")
      .def(
          "copy_to",
          [](const NativeWorker& self, const Buffer& dst, nb::handle src, std::uint64_t dst_offset,
             std::uint64_t src_offset, std::optional<std::uint64_t> nbytes) {
            with_host_side(self, src, false,
                           [&](const Buffer& host) { self->copy_to(dst, host, dst_offset, src_offset, nbytes); });
          },
          nb::arg("dst"), nb::arg("src").none(), nb::arg("dst_offset"), nb::arg("src_offset"), nb::arg("nbytes").none(),
          nb::sig("def copy_to(self, dst: Buffer, src: object, dst_offset: int, src_offset: int, nbytes: int | None) "
                  "-> None"),
          "Copy host memory to a chip.")
      .def(
          "copy_from",
          [](const NativeWorker& self, nb::handle dst, const Buffer& src, std::uint64_t dst_offset,
             std::uint64_t src_offset, std::optional<std::uint64_t> nbytes) {
            with_host_side(self, dst, true,
                           [&](const Buffer& host) { self->copy_from(host, src, dst_offset, src_offset, nbytes); });
          },
          nb::arg("dst"), nb::arg("src").none(), nb::arg("dst_offset"), nb::arg("src_offset"), nb::arg("nbytes").none(),
          nb::sig("def copy_from(self, dst: object, src: Buffer, dst_offset: int, src_offset: int, nbytes: int | None"
                  ") -> None"),
          "Copy memory of a chip to the host.")
      .def(
          "committed_device_memory",
          [](const NativeWorker& self, int worker) {
            const nb::gil_scoped_release unlocked;
            return self->committed_device_memory(worker);
          },
          nb::arg("worker_id"), "Return the bytes that a chip has committed.");
}

void bind_statistics(nb::module_& module, nb::class_<NativeWorker>& type) {
  using Child = Worker::ChildStatistics;
  nb::class_<Child>(module, "ChildStatistics", "What one child has done so far.")
      .def_ro("name", &Child::name, "\"chip 0\", \"sub_worker 1\".")
      .def_ro("pid", &Child::pid, "Its process.")
      .def_ro("alive", &Child::alive, "Whether the process runs.")
      .def_ro("tasks", &Child::tasks, "Tasks that it has ended.")
      .def_ro("busy_ns", &Child::busy_ns, "Wall time inside callables and chip runs.")
      .def_ro("user_cpu_ns", &Child::user_cpu_ns, "CPU time inside kernels and callables; needs measure_user_time.")
      .def_ro("cpu_ns", &Child::cpu_ns, "CPU time of the process.")
      .def("__repr__", [](const Child& self) {
        return fmt::format("ChildStatistics({}, pid {}, {} tasks, busy {:.3f} s)", self.name, self.pid, self.tasks,
                           static_cast<double>(self.busy_ns) * 1e-9);
      });
  type.def(
          "statistics",
          [](const NativeWorker& self) {
            const nb::gil_scoped_release unlocked;
            return self->statistics();
          },
          "Return what each child has done.")
      .def(
          "peak_heap_bytes",
          [](const NativeWorker& self) {
            const nb::gil_scoped_release unlocked;
            return self->peak_heap_bytes();
          },
          "Return the most bytes that allocations of graphs used at once.");
}

}  // namespace

void bind_worker(nb::module_& module) {
  bind_run(module);
  module.def(
      "is_building", [] { return graphs_here != 0; }, "Return whether this thread is inside a graph function.");
  nb::class_<NativeWorker> type(module, "Worker", nb::is_weak_referenceable(),
                                "One level of the tree; simpler.worker.Worker wraps it.");
  bind_lifecycle(type);
  bind_registration(type);
  bind_host_memory(type);
  bind_device_memory(type);
  bind_statistics(module, type);
}

}  // namespace simpler::python
