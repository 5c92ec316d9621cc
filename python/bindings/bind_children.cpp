// MappedArg and MappedArgs: what a Python callable receives in its child.
#include <bit>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/children.h"
#include "callable/identity.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

const MappedArgs& live(const CallArgs& self) {
  if (self.args == nullptr) {
    throw Error(failed_precondition("these MappedArgs are valid only inside the call that received them"));
  }
  return *self.args;
}

std::size_t position(std::int64_t index, std::size_t count, const char* what) {
  const std::int64_t size = static_cast<std::int64_t>(count);
  if (index < -size || index >= size) {
    throw Error(out_of_range(fmt::format("{} {}: the task was given {}", what, index, count)));
  }
  return static_cast<std::size_t>(index < 0 ? index + size : index);
}

nb::tuple numbers(const std::uint32_t* values, std::uint32_t count) {
  nb::list list;
  for (std::uint32_t i = 0; i < count; ++i) {
    list.append(values[i]);
  }
  return nb::tuple(list);
}

nb::bytes digest_bytes(const callable::Identity& identity) {
  return nb::bytes(reinterpret_cast<const char*>(identity.digest.data()), identity.digest.size());
}

void bind_digests(nb::module_& module) {
  module.def(
      "digest_of_import",
      [](const std::string& target) { return digest_bytes(worker::unwrap(callable::python_import_identity(target))); },
      nb::arg("target"), "Return the digest of a callable that children import by module:qualname.");
  module.def(
      "digest_of_payload",
      [](const nb::bytes& payload) {
        return digest_bytes(callable::python_serialized_identity(
            std::as_bytes(std::span(static_cast<const char*>(payload.data()), payload.size()))));
      },
      nb::arg("payload"), "Return the digest of a callable that travels as bytes.");
  module.def(
      "digest_of_fork", [] { return digest_bytes(worker::unwrap(callable::python_fork_only_identity())); },
      "Return a new digest for a callable that can only travel by the fork.");
}

}  // namespace

nb::object memory_view(const std::byte* data, std::uint64_t nbytes, bool writable) {
  static char nothing = 0;
  char* const start = nbytes == 0 ? &nothing : reinterpret_cast<char*>(const_cast<std::byte*>(data));
  PyObject* const view =
      PyMemoryView_FromMemory(start, static_cast<Py_ssize_t>(nbytes), writable ? PyBUF_WRITE : PyBUF_READ);
  if (view == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(view);
}

void bind_children(nb::module_& module) {
  nb::class_<MappedArg>(module, "MappedArg", "One tensor argument of a call, mapped into this process.")
      .def_prop_ro(
          "buffer", [](const MappedArg& self) { return memory_view(self.data, self.nbytes, self.writable); },
          nb::sig("def buffer(self) -> memoryview"),
          "Bytes from the view's origin to the end of its extent; read-only when the memory grants only READ.")
      .def_ro("byte_offset", &MappedArg::byte_offset, "Where the view begins in its buffer, in bytes.")
      .def_prop_ro(
          "shapes", [](const MappedArg& self) { return numbers(self.shape, self.ndims); },
          nb::sig("def shapes(self) -> tuple[int, ...]"), "Extents, outermost first.")
      .def_prop_ro(
          "strides", [](const MappedArg& self) { return numbers(self.strides, self.ndims); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "Steps between neighbours, in elements.")
      .def_prop_ro(
          "dtype", [](const MappedArg& self) { return static_cast<int>(self.dtype); }, "Element type as a number.")
      .def_prop_ro(
          "writable", [](const MappedArg& self) { return self.writable; }, "Whether the memory may be written.")
      .def(
          "numpy",
          [](nb::handle self) { return nb::module_::import_("simpler.interop").attr("mapped_to_numpy")(self); },
          nb::sig("def numpy(self) -> numpy.typing.NDArray[numpy.generic]"),
          "Return the view as a numpy array over the same memory; valid during the call.")
      .def("__repr__", [](const MappedArg& self) {
        return fmt::format("MappedArg({} {}{})", name_of(self.dtype),
                           nb::cast<std::string>(nb::repr(numbers(self.shape, self.ndims))),
                           self.writable ? "" : ", read-only");
      });

  nb::class_<CallArgs>(module, "MappedArgs", "The arguments of one call: a sequence of MappedArg, and scalars.")
      .def("__len__", [](const CallArgs& self) { return live(self).tensor_count(); })
      .def(
          "__getitem__",
          [](const CallArgs& self, std::int64_t index) -> MappedArg {
            const MappedArgs& args = live(self);
            return args[position(index, args.tensor_count(), "tensor")];
          },
          nb::arg("index"), "Return one tensor argument.")
      .def(
          "tensor_count", [](const CallArgs& self) { return live(self).tensor_count(); },
          "Return how many tensors there are.")
      .def(
          "scalar_count", [](const CallArgs& self) { return live(self).scalar_count(); },
          "Return how many scalars there are.")
      .def(
          "scalar",
          [](const CallArgs& self, std::int64_t index) {
            const MappedArgs& args = live(self);
            return args.scalar(position(index, args.scalar_count(), "scalar"));
          },
          nb::arg("index"), "Return the 64 bits of one scalar as an unsigned number.")
      .def(
          "scalar_float",
          [](const CallArgs& self, std::int64_t index) {
            const MappedArgs& args = live(self);
            const std::uint64_t bits = args.scalar(position(index, args.scalar_count(), "scalar"));
            return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
          },
          nb::arg("index"), "Return one scalar that was given as a float.")
      .def("__repr__", [](const CallArgs& self) {
        return self.args == nullptr ? std::string("MappedArgs(of a call that has ended)")
                                    : fmt::format("MappedArgs({} tensors, {} scalars)", self.args->tensor_count(),
                                                  self.args->scalar_count());
      });
  bind_digests(module);
}

}  // namespace simpler::python
