// TaskArgs and what goes into one: scalars, task handles, call settings.
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

std::uint64_t integer_bits(nb::handle given) {
  const nb::object number = nb::steal(PyNumber_Index(given.ptr()));
  if (!number.is_valid()) {
    throw nb::python_error();
  }
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) {
    return value;
  }
  PyErr_Clear();
  const long long negative = PyLong_AsLongLong(number.ptr());
  if (negative == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw Error(
        invalid_argument(fmt::format("scalar {} does not fit 64 bits", nb::cast<std::string>(nb::str(number)))));
  }
  return static_cast<std::uint64_t>(negative);
}

// A scalar of ctypes has its value and a letter that says what it is.
nb::object ctypes_value(nb::handle given, bool& is_double) {
  const nb::object kind = nb::getattr(given, "_type_", nb::none());
  if (!PyUnicode_Check(kind.ptr()) || !nb::hasattr(given, "value")) {
    return {};
  }
  is_double = nb::cast<std::string>(kind) == "d";
  return given.attr("value");
}

std::uint64_t scalar_of(nb::handle given) {
  if (PyLong_Check(given.ptr())) {
    return integer_bits(given);
  }
  if (PyFloat_Check(given.ptr())) {
    return std::bit_cast<std::uint32_t>(static_cast<float>(PyFloat_AS_DOUBLE(given.ptr())));
  }
  if (PyIndex_Check(given.ptr()) != 0) {
    return integer_bits(given);
  }
  bool is_double = false;
  const nb::object inner = ctypes_value(given, is_double);
  if (inner.is_valid() && is_double) {
    return std::bit_cast<std::uint64_t>(nb::cast<double>(inner));
  }
  if (inner.is_valid() && (PyLong_Check(inner.ptr()) || PyFloat_Check(inner.ptr()))) {
    return scalar_of(inner);
  }
  if (nb::hasattr(given, "__float__") && !PyUnicode_Check(given.ptr())) {
    const double value = PyFloat_AsDouble(given.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
      throw nb::python_error();
    }
    return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  }
  throw Error(
      wrong_type(fmt::format("a scalar is an int, a float, a bool or a ctypes number, not {}", kind_of(given))));
}

const Tensor& tensor_of(const Expect<Tensor>& given) {
  if (given.value == nullptr) {
    throw Error(wrong_type(fmt::format(
        "add_tensor takes a Tensor, not {}: put the values into memory of worker.create_buffer(nbytes) and pass "
        "buffer.tensor(shape, dtype)",
        kind_of(given.given))));
  }
  return *given.value;
}

// The builder's calls return the builder.
using Chain = nb::pointer_and_handle<TaskArgs>;

template <TensorArgType kTag>
nb::object append(Chain self, Expect<Tensor> tensor) {
  self.p->add_tensor(tensor_of(tensor), kTag);
  return nb::borrow(self.h);
}

void bind_task_args(nb::module_& module) {
  nb::class_<TaskHandle>(module, "TaskHandle",
                         "Names a submitted task inside its run, for TaskArgs.add_dep and add_dep_wait.")
      .def("__repr__", [](const TaskHandle& self) { return self.valid() ? "TaskHandle()" : "TaskHandle(of no task)"; });

  nb::class_<TaskArgs>(module, "TaskArgs", nb::is_weak_referenceable(), nb::dynamic_attr(),
                       "Arguments of one task: tensors with tags, then scalars, then explicit dependencies.\n\n"
                       "Every call that adds something returns the object, so calls can be chained.")
      .def(nb::init<>())
      .def(
          "add_tensor",
          [](Chain self, Expect<Tensor> tensor, Like<TensorArgType> tag) {
            self.p->add_tensor(tensor_of(tensor), tag.given.is_none() ? TensorArgType::kInput : to_enum(tag, "tag"));
            return nb::borrow(self.h);
          },
          nb::arg("t").none(), nb::arg("tag") = nb::none(),
          nb::sig("def add_tensor(self, t: Tensor, tag: simpler._enums.TensorArgType | int | str | None = None) -> "
                  "TaskArgs"),
          "Append a tensor; the tag, INPUT by default, says what the task does with it.")
      .def("input", &append<TensorArgType::kInput>, nb::arg("t").none(),
           nb::sig("def input(self, t: Tensor) -> TaskArgs"), "Append a tensor that the task reads.")
      .def("output", &append<TensorArgType::kOutputExisting>, nb::arg("t").none(),
           nb::sig("def output(self, t: Tensor) -> TaskArgs"), "Append a tensor that the task writes without reading.")
      .def("inout", &append<TensorArgType::kInout>, nb::arg("t").none(),
           nb::sig("def inout(self, t: Tensor) -> TaskArgs"), "Append a tensor that the task reads and writes.")
      .def("no_dep", &append<TensorArgType::kNoDep>, nb::arg("t").none(),
           nb::sig("def no_dep(self, t: Tensor) -> TaskArgs"), "Append a tensor that orders nothing.")
      .def(
          "add_scalar",
          [](Chain self, nb::handle value) {
            self.p->add_scalar(scalar_of(value));
            return nb::borrow(self.h);
          },
          nb::arg("v").none(),
          nb::sig("def add_scalar(self, v: float | typing.SupportsIndex | typing.SupportsFloat) -> TaskArgs"),
          "Append a scalar: an int as 64 bits, a float as the bits of its 32-bit form.")
      .def(
          "add_dep",
          [](Chain self, const TaskHandle& producer) {
            self.p->add_dep(producer);
            return nb::borrow(self.h);
          },
          nb::arg("handle"), nb::sig("def add_dep(self, handle: TaskHandle) -> TaskArgs"),
          "Start after this task, and keep its storage until the new task ended.")
      .def(
          "add_dep_wait",
          [](Chain self, const TaskHandle& producer) {
            self.p->add_dep_wait(producer);
            return nb::borrow(self.h);
          },
          nb::arg("handle"), nb::sig("def add_dep_wait(self, handle: TaskHandle) -> TaskArgs"),
          "Start after this task; nothing is kept.")
      .def(
          "tensor", [](const TaskArgs& self, std::size_t index) { return self.tensor(index); }, nb::arg("i"),
          "Return one tensor.")
      .def(
          "scalar", [](const TaskArgs& self, std::size_t index) { return self.scalar(index); }, nb::arg("i"),
          "Return the 64 bits of one scalar.")
      .def(
          "tag", [](const TaskArgs& self, std::size_t index) { return Member<TensorArgType>{self.tag(index)}; },
          nb::arg("i"), "Return the tag of one tensor.")
      .def(
          "set_tag",
          [](TaskArgs& self, std::size_t index, Like<TensorArgType> tag) { self.set_tag(index, to_enum(tag, "tag")); },
          nb::arg("i"), nb::arg("tag"), "Change the tag of one tensor.")
      .def("tensor_count", &TaskArgs::tensor_count, "Return how many tensors there are.")
      .def("scalar_count", &TaskArgs::scalar_count, "Return how many scalars there are.")
      .def("clear", &TaskArgs::clear, "Forget everything.")
      .def("__len__", &TaskArgs::size)
      .def("__repr__", [](const TaskArgs& self) {
        return fmt::format("TaskArgs({} tensors, {} scalars)", self.tensor_count(), self.scalar_count());
      });
  module.def(
      "scalar_to_uint64", [](nb::handle value) { return scalar_of(value); }, nb::arg("v").none(),
      nb::sig("def scalar_to_uint64(v: float | typing.SupportsIndex | typing.SupportsFloat) -> int"),
      "Return the 64 bits under which a scalar travels.");
}

// An int or bool; True means `on`, anything outside is moved to the nearest end.
std::int32_t level_of(nb::handle given, std::int32_t on, std::int32_t most, const char* what) {
  if (PyBool_Check(given.ptr())) {
    return given.ptr() == Py_True ? on : 0;
  }
  if (!PyLong_Check(given.ptr())) {
    throw Error(wrong_type(fmt::format("{}: an int or a bool is needed, not {}", what, kind_of(given))));
  }
  int overflow = 0;
  const long value = PyLong_AsLongAndOverflow(given.ptr(), &overflow);
  return static_cast<std::int32_t>(overflow > 0   ? most
                                   : overflow < 0 ? 0
                                                  : std::min<long>(std::max<long>(value, 0), most));
}

using Ring = std::array<std::uint64_t, kRuntimeEnvRings>;

Ring ring_of(nb::handle given, const char* what) {
  Ring ring{};
  if (PyIndex_Check(given.ptr()) != 0) {
    ring.fill(integer_bits(given));
    return ring;
  }
  const nb::object items = nb::steal(PySequence_List(given.ptr()));
  if (!items.is_valid()) {
    throw nb::python_error();
  }
  if (nb::len(items) != ring.size()) {
    throw Error(
        invalid_argument(fmt::format("{}: {} values; one int or {} are needed", what, nb::len(items), ring.size())));
  }
  for (std::size_t i = 0; i < ring.size(); ++i) {
    ring[i] = integer_bits(items[i]);
  }
  return ring;
}

nb::list ring_list(const Ring& ring) {
  nb::list list;
  for (const std::uint64_t value : ring) {
    list.append(value);
  }
  return list;
}

void bind_runtime_env(nb::module_& module) {
  nb::class_<RuntimeEnv> env(module, "RuntimeEnv", "Sizes of a chip's rings, one for each scope depth; 0 is not set.");
  env.def(nb::init<>());
  const auto field = [&env](const char* name, Ring RuntimeEnv::*member, const char* doc) {
    env.def_prop_rw(
        name, [member](const RuntimeEnv& self) { return ring_list(self.*member); },
        [member, name](RuntimeEnv& self, nb::handle value) { self.*member = ring_of(value, name); }, doc,
        nb::for_getter(nb::sig(("def " + std::string(name) + "(self) -> list[int]").c_str())),
        nb::for_setter(nb::sig(
            ("def " + std::string(name) + "(self, value: int | collections.abc.Sequence[int], /) -> None").c_str())));
  };
  field("ring_task_window", &RuntimeEnv::ring_task_window, "Tasks per ring: a power of two of at least 4.");
  field("ring_heap", &RuntimeEnv::ring_heap, "Heap bytes per ring: at least 1024.");
  field("ring_dep_pool", &RuntimeEnv::ring_dep_pool, "Dependency entries per ring: at least 4.");
  env.def("__repr__", [](const RuntimeEnv& self) {
    const auto text = [](const Ring& ring) { return nb::cast<std::string>(nb::repr(ring_list(ring))); };
    return fmt::format("RuntimeEnv(ring_task_window={}, ring_heap={}, ring_dep_pool={})", text(self.ring_task_window),
                       text(self.ring_heap), text(self.ring_dep_pool));
  });
}

void bind_call_config(nb::module_& module) {
  nb::class_<CallConfig> config(module, "CallConfig", "Settings of one call; copied by every submit.");
  config.def(nb::init<>());
  config.def_rw("aicpu_thread_num", &CallConfig::aicpu_thread_num, "Control threads of the chip; 0 leaves the choice.");
  const auto level = [&config](const char* name, std::int32_t CallConfig::*member, std::int32_t on, std::int32_t most,
                               const char* doc) {
    config.def_prop_rw(
        name, [member](const CallConfig& self) { return self.*member; },
        [=](CallConfig& self, nb::handle value) { self.*member = level_of(value, on, most, name); }, doc,
        nb::for_setter(nb::sig(("def " + std::string(name) + "(self, value: int, /) -> None").c_str())));
  };
  level("enable_chip_swimlane", &CallConfig::enable_chip_swimlane, 4, 4, "Detail of the chip's task record, 0 to 4.");
  level("enable_dump_args", &CallConfig::enable_dump_args, 1, 3, "Detail of the dump of arguments, 0 to 3.");
  level("enable_pmu", &CallConfig::enable_pmu, 2, INT32_MAX, "Set of hardware counters, 0 for none.");
  const auto flag = [&config](const char* name, std::int32_t CallConfig::*member, const char* doc) {
    config.def_prop_rw(
        name, [member](const CallConfig& self) { return self.*member != 0; },
        [member](CallConfig& self, bool on) { self.*member = on ? 1 : 0; }, doc);
  };
  flag("enable_dep_gen", &CallConfig::enable_dep_gen, "Whether the task graph is recorded.");
  flag("enable_scope_stats", &CallConfig::enable_scope_stats, "Whether the use of rings is recorded.");
  config.def_prop_rw(
      "output_prefix", [](const CallConfig& self) { return std::string(output_prefix(self)); },
      [](CallConfig& self, std::string_view prefix) { worker::raise_if_error(set_output_prefix(self, prefix)); },
      "Folder of the files that diagnostics write.");
  config.def_prop_rw(
      "runtime_env", [](CallConfig& self) -> RuntimeEnv& { return self.runtime_env; },
      [](CallConfig& self, const RuntimeEnv& env) { self.runtime_env = env; }, nb::rv_policy::reference_internal,
      "Sizes of the chip's rings for this call.");
  config.def(
      "validate", [](const CallConfig& self) { worker::raise_if_error(validate(self)); },
      "Raise ValueError when a setting is out of its range.");
  config.def("__copy__", [](const CallConfig& self) { return self; });
  config.def(
      "__deepcopy__", [](const CallConfig& self, nb::handle) { return self; }, nb::arg("memo"));
  config.def(
      "__eq__", [](const CallConfig& self, const CallConfig& other) { return self == other; }, nb::is_operator(),
      nb::sig("def __eq__(self, arg: object, /) -> bool"));
  config.def("__hash__", [](const CallConfig&) -> Py_hash_t { throw nb::type_error("unhashable type: 'CallConfig'"); });
  config.def("__getstate__",
             [](const CallConfig& self) { return nb::bytes(reinterpret_cast<const char*>(&self), sizeof self); });
  config.def("__setstate__", [](CallConfig* self, const nb::bytes& bytes) {
    if (bytes.size() != sizeof(CallConfig)) {
      throw Error(
          invalid_argument(fmt::format("CallConfig: {} bytes, a record has {}", bytes.size(), sizeof(CallConfig))));
    }
    CallConfig value;
    std::memcpy(&value, bytes.data(), sizeof value);
    new (self) CallConfig(value);
  });
  config.def("__repr__", [](const CallConfig& self) {
    return fmt::format(
        "CallConfig(aicpu_thread_num={}, enable_chip_swimlane={}, enable_dump_args={}, enable_pmu={}, "
        "output_prefix='{}')",
        self.aicpu_thread_num, self.enable_chip_swimlane, self.enable_dump_args, self.enable_pmu, output_prefix(self));
  });
}

}  // namespace

void bind_args(nb::module_& module) {
  bind_task_args(module);
  bind_runtime_env(module);
  bind_call_config(module);
}

}  // namespace simpler::python
