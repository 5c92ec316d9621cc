// Orchestrator: what a graph function receives.
//
// Submits keep the interpreter lock on the fast path; the worker's hooks give it up while a submit has to wait. Calls
// that talk to children give it up here.
#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

struct Scope {
  nb::object builder;
};

const CallableHandle& handle_of(const Expect<CallableHandle>& given, const char* call) {
  if (given.value == nullptr) [[unlikely]] {
    throw Error(wrong_type(fmt::format("{}: the callable is the CallableHandle returned by Worker.register, not {}",
                                       call, kind_of(given.given))));
  }
  return *given.value;
}

const TaskArgs& args_of(const Expect<TaskArgs>& given, const char* call) {
  if (given.value == nullptr) [[unlikely]] {
    throw Error(wrong_type(fmt::format("{}: the arguments are a TaskArgs, not {}", call, kind_of(given.given))));
  }
  return *given.value;
}

const CallConfig* config_of(const Expect<CallConfig>& given, const char* call) {
  if (given.value == nullptr && !given.given.is_none()) [[unlikely]] {
    throw Error(wrong_type(fmt::format("{}: config is a CallConfig, not {}", call, kind_of(given.given))));
  }
  return given.value;
}

int worker_number(nb::handle given, const char* call) {
  if (!PyLong_Check(given.ptr()) || PyBool_Check(given.ptr())) [[unlikely]] {
    throw Error(wrong_type(fmt::format("{}: worker is the number of a chip, not {}", call, kind_of(given))));
  }
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(given.ptr(), &overflow);
  if (overflow != 0 || value < 0 || value > INT_MAX) [[unlikely]] {
    throw Error(out_of_range(
        fmt::format("{}: worker={} is not the number of a chip", call, nb::cast<std::string>(nb::str(given)))));
  }
  return static_cast<int>(value);
}

std::vector<TaskArgs> all_args(nb::handle list, const char* call) {
  std::vector<TaskArgs> all;
  for (const nb::handle one : list) {
    if (!nb::isinstance<TaskArgs>(one)) {
      throw Error(wrong_type(fmt::format("{}: args_list[{}] is a TaskArgs, not {}", call, all.size(), kind_of(one))));
    }
    all.push_back(*nb::inst_ptr<TaskArgs>(one));
  }
  return all;
}

void check_host_tensors(const TaskArgs& args, const char* call) {
  for (std::size_t i = 0; i < args.tensor_count(); ++i) {
    if (args.tensor(i).buffer.address_space != AddressSpace::kHost) [[unlikely]] {
      throw Error(
          invalid_argument(fmt::format("{}: tensor {} lies on a chip; a host callable takes host memory", call, i)));
    }
  }
}

TaskHandle submit_next_level(const GraphBuilder& self, Expect<CallableHandle> handle, Expect<TaskArgs> args,
                             Expect<CallConfig> config, nb::handle worker) {
  constexpr const char* kCall = "submit_next_level";
  Orchestrator& orchestrator = self.use(kCall);
  const CallableHandle& callable = handle_of(handle, kCall);
  const TaskArgs& arguments = args_of(args, kCall);
  const CallConfig* const settings = config_of(config, kCall);
  if (worker.is_none()) [[unlikely]] {
    throw Error(wrong_type(fmt::format("{}: worker= is missing, the number of the chip", kCall)));
  }
  const int number = worker_number(worker, kCall);
  if (settings == nullptr) {
    return orchestrator.submit_next_level(callable, arguments, number);
  }
  return orchestrator.submit_next_level(callable, arguments, number, *settings);
}

TaskHandle submit_next_level_group(const GraphBuilder& self, Expect<CallableHandle> handle, nb::handle args_list,
                                   Expect<CallConfig> config, nb::handle workers) {
  constexpr const char* kCall = "submit_next_level_group";
  Orchestrator& orchestrator = self.use(kCall);
  const CallableHandle& callable = handle_of(handle, kCall);
  const std::vector<TaskArgs> all = all_args(args_list, kCall);
  if (workers.is_none()) {
    throw Error(wrong_type(fmt::format("{}: workers= is missing, the numbers of the chips", kCall)));
  }
  std::vector<int> numbers;
  for (const nb::handle worker : workers) {
    numbers.push_back(worker_number(worker, kCall));
  }
  const CallConfig* const settings = config_of(config, kCall);
  return settings == nullptr ? orchestrator.submit_next_level_group(callable, all, numbers)
                             : orchestrator.submit_next_level_group(callable, all, numbers, *settings);
}

void submit_sub(const GraphBuilder& self, Expect<CallableHandle> handle, Expect<TaskArgs> args) {
  constexpr const char* kCall = "submit_sub";
  Orchestrator& orchestrator = self.use(kCall);
  const CallableHandle& callable = handle_of(handle, kCall);
  if (args.given.is_none()) {
    orchestrator.submit_sub(callable);
    return;
  }
  const TaskArgs& arguments = args_of(args, kCall);
  check_host_tensors(arguments, kCall);
  orchestrator.submit_sub(callable, arguments);
}

void submit_sub_group(const GraphBuilder& self, Expect<CallableHandle> handle, nb::handle args_list) {
  constexpr const char* kCall = "submit_sub_group";
  Orchestrator& orchestrator = self.use(kCall);
  const CallableHandle& callable = handle_of(handle, kCall);
  const std::vector<TaskArgs> all = all_args(args_list, kCall);
  for (const TaskArgs& one : all) {
    check_host_tensors(one, kCall);
  }
  orchestrator.submit_sub_group(callable, all);
}

void bind_memory(nb::class_<GraphBuilder>& type) {
  type.def(
          "alloc",
          [](const GraphBuilder& self, const Dims& shape, Like<DataType> dtype) {
            Orchestrator& orchestrator = self.use("alloc");
            return orchestrator.alloc(to_extents(shape, "shape"), to_enum(dtype, "dtype"));
          },
          nb::arg("shape").none(), nb::arg("dtype").none(),
          "Return memory for tasks of this scope; it is given back when the scope and its users have ended.")
      .def(
          "alloc_child_tensor",
          [](const GraphBuilder& self, int worker, const Dims& shapes, Like<DataType> dtype) {
            Orchestrator& orchestrator = self.use("alloc_child_tensor");
            const Extents extents = to_extents(shapes, "shapes");
            const DataType type_of = to_enum(dtype, "dtype");
            const nb::gil_scoped_release unlocked;
            return orchestrator.alloc_child_tensor(worker, extents, type_of);
          },
          nb::arg("worker_id"), nb::arg("shapes").none(), nb::arg("dtype").none(),
          "Return memory of one chip; refused after the first submit of the run.")
      .def(
          "free",
          [](const GraphBuilder& self, const Buffer& buffer) {
            Orchestrator& orchestrator = self.use("free");
            const nb::gil_scoped_release unlocked;
            orchestrator.free(buffer);
          },
          nb::arg("handle"), "Give memory of a chip back; refused after the first submit of the run.");
  const auto copy = [&type](const char* name, bool to_device, const char* doc) {
    type.def(
        name,
        [to_device, name](const GraphBuilder& self, const Buffer& dst, const Buffer& src, std::uint64_t dst_offset,
                          std::uint64_t src_offset, std::optional<std::uint64_t> nbytes) {
          Orchestrator& orchestrator = self.use(name);
          const nb::gil_scoped_release unlocked;
          if (to_device) {
            orchestrator.copy_to(dst, src, dst_offset, src_offset, nbytes);
          } else {
            orchestrator.copy_from(dst, src, dst_offset, src_offset, nbytes);
          }
        },
        nb::arg("dst"), nb::arg("src"), nb::kw_only(), nb::arg("dst_offset") = 0, nb::arg("src_offset") = 0,
        nb::arg("nbytes") = nb::none(), doc);
  };
  copy("copy_to", true, "Copy host memory to a chip; refused after the first submit of the run.");
  copy("copy_from", false, "Copy memory of a chip to the host; refused after the first submit of the run.");
}

}  // namespace

Orchestrator& GraphBuilder::use(const char* call) const {
  if (live == nullptr) [[unlikely]] {
    throw Error(failed_precondition(
        fmt::format("{}: this orchestrator's graph function has returned; use it only inside the function", call)));
  }
  if (thread != std::this_thread::get_id()) [[unlikely]] {
    throw Error(failed_precondition(
        fmt::format("{}: an orchestrator may only be used on the thread that runs its graph function", call)));
  }
  return *live;
}

void bind_orchestrator(nb::module_& module) {
  nb::class_<Scope>(module, "Scope", "A block of a graph function; memory of its allocations lives until it ends.")
      .def(
          "__enter__",
          [](nb::handle self) {
            Scope& scope = *nb::inst_ptr<Scope>(self);
            nb::inst_ptr<GraphBuilder>(scope.builder)->use("scope").scope_begin();
            return nb::borrow(self);
          },
          nb::sig("def __enter__(self) -> Scope"))
      .def(
          "__exit__",
          [](const Scope& self, const nb::args&) {
            nb::inst_ptr<GraphBuilder>(self.builder)->use("scope").scope_end();
          },
          nb::sig("def __exit__(self, *args: object) -> None"));

  nb::class_<GraphBuilder> type(module, "Orchestrator", nb::dynamic_attr(), nb::is_weak_referenceable(),
                                "Builds one graph; valid inside the graph function that received it, on its thread.");
  type.def("submit_next_level", &submit_next_level, nb::arg("handle").none(), nb::arg("args").none(),
           nb::arg("config") = nb::none(), nb::kw_only(), nb::arg("worker") = nb::none(),
           nb::sig("def submit_next_level(self, handle: CallableHandle, args: TaskArgs, config: CallConfig | None = "
                   "None, *, worker: int) -> TaskHandle"),
           "Submit one task to the chip `worker`; what it waits for follows from its tensors.")
      .def("submit_next_level_group", &submit_next_level_group, nb::arg("handle").none(), nb::arg("args_list"),
           nb::arg("config") = nb::none(), nb::kw_only(), nb::arg("workers") = nb::none(),
           nb::sig("def submit_next_level_group(self, handle: CallableHandle, args_list: "
                   "collections.abc.Iterable[TaskArgs], config: CallConfig | None = None, *, workers: "
                   "collections.abc.Iterable[int]) -> TaskHandle"),
           "Submit one task with a member on each of `workers`; they start together.")
      .def("submit_sub", &submit_sub, nb::arg("handle").none(), nb::arg("args") = nb::none(),
           nb::sig("def submit_sub(self, handle: CallableHandle, args: TaskArgs | None = None) -> None"),
           "Submit one task to any free Python worker.")
      .def("submit_sub_group", &submit_sub_group, nb::arg("handle").none(), nb::arg("args_list"),
           nb::sig("def submit_sub_group(self, handle: CallableHandle, args_list: collections.abc.Iterable[TaskArgs]) "
                   "-> None"),
           "Submit one task with a member for each argument list, on Python workers.")
      .def(
          "scope_begin", [](const GraphBuilder& self) { self.use("scope_begin").scope_begin(); }, "Open a scope.")
      .def(
          "scope_end", [](const GraphBuilder& self) { self.use("scope_end").scope_end(); },
          "Close the innermost scope.")
      .def(
          "scope", [](nb::handle self) { return Scope{nb::borrow(self)}; }, "Return a scope for a with statement.")
      .def_prop_ro(
          "_worker",
          [](const GraphBuilder& self) { return self.worker == nullptr ? nb::none() : nb::borrow(self.worker); },
          nb::sig("def _worker(self) -> object"), "The worker whose graph this is; None once the function returned.");
  bind_memory(type);
}

}  // namespace simpler::python
