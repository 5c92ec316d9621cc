// Records: identity, descriptor, tensor. Immutable values that pickle as the bytes that also travel between processes.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "base/environment.h"
#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

std::span<const char> chars(const nb::bytes& bytes) {
  return {static_cast<const char*>(bytes.data()), bytes.size()};
}

template <class T>
nb::bytes record(const T& value) {
  return nb::bytes(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T from_record(const nb::bytes& bytes, const char* what) {
  if (bytes.size() != sizeof(T)) {
    throw Error(invalid_argument(fmt::format("{}: {} bytes, a record has {}", what, bytes.size(), sizeof(T))));
  }
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <std::size_t N>
nb::tuple numbers(const std::array<std::uint32_t, N>& values, std::uint32_t count) {
  nb::list list;
  for (std::uint32_t i = 0; i < count; ++i) {
    list.append(values[i]);
  }
  return nb::tuple(list);
}

void bind_identity(nb::module_& module) {
  nb::class_<CanonicalIdentity>(module, "CanonicalIdentity", "Names one buffer, the same in every process.")
      .def(
          "__init__",
          [](CanonicalIdentity* self, const nb::bytes& owner, std::uint64_t buffer_id, std::uint32_t generation) {
            CanonicalIdentity identity;
            if (owner.size() != identity.owner_instance_id.size()) {
              throw Error(invalid_argument(fmt::format("owner_instance_id has {} bytes, {} are needed", owner.size(),
                                                       identity.owner_instance_id.size())));
            }
            std::memcpy(identity.owner_instance_id.data(), owner.data(), owner.size());
            identity.buffer_id = buffer_id;
            identity.generation = generation;
            new (self) CanonicalIdentity(identity);
          },
          nb::arg("owner_instance_id"), nb::arg("buffer_id"), nb::arg("generation") = 1)
      .def_prop_ro(
          "owner_instance_id",
          [](const CanonicalIdentity& self) {
            return nb::bytes(reinterpret_cast<const char*>(self.owner_instance_id.data()),
                             self.owner_instance_id.size());
          },
          "Eight random bytes of the worker that made the buffer.")
      .def_ro("buffer_id", &CanonicalIdentity::buffer_id, "Number of the buffer in its worker, from 1.")
      .def_ro("generation", &CanonicalIdentity::generation, "Incarnation, from 1.")
      .def(nb::self == nb::self, nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", [](const CanonicalIdentity& self) { return static_cast<Py_hash_t>(hash_of(self) >> 2); })
      .def("__getstate__", [](const CanonicalIdentity& self) { return record(self); })
      .def("__setstate__",
           [](CanonicalIdentity* self, const nb::bytes& bytes) {
             new (self) CanonicalIdentity(from_record<CanonicalIdentity>(bytes, "CanonicalIdentity"));
           })
      .def("__repr__", [](const CanonicalIdentity& self) { return "CanonicalIdentity(" + to_string(self) + ")"; });
}

BufferDescriptor make_descriptor(const CanonicalIdentity& identity, const Like<AddressSpace>& space,
                                 const Like<AccessMode>& access, const Like<BackendKind>& kind, std::uint64_t nbytes,
                                 const nb::bytes& body, std::uint32_t owner_path) {
  BufferDescriptor descriptor;
  descriptor.identity = identity;
  descriptor.address_space = to_enum(space, "address_space");
  descriptor.access = to_enum(access, "access");
  descriptor.backend_kind = to_enum(kind, "backend_kind");
  descriptor.nbytes = nbytes;
  descriptor.owner_worker_path_id = owner_path;
  if (body.size() > descriptor.body.size()) {
    throw Error(
        invalid_argument(fmt::format("body has {} bytes, there is room for {}", body.size(), descriptor.body.size())));
  }
  descriptor.body_len = static_cast<std::uint16_t>(body.size());
  std::copy_n(chars(body).data(), body.size(), descriptor.body.data());
  worker::raise_if_error(validate(descriptor));
  return descriptor;
}

void bind_descriptor(nb::module_& module) {
  nb::class_<BufferDescriptor>(module, "BufferDescriptor", "What a buffer is, in 88 bytes.")
      .def(
          "__init__",
          [](BufferDescriptor* self, const CanonicalIdentity& identity, Like<AddressSpace> space,
             Like<AccessMode> access, Like<BackendKind> kind, std::uint64_t nbytes, const nb::bytes& body,
             std::uint32_t owner_path) {
            new (self) BufferDescriptor(make_descriptor(identity, space, access, kind, nbytes, body, owner_path));
          },
          nb::arg("identity"), nb::arg("address_space"), nb::arg("access"), nb::arg("backend_kind"), nb::arg("nbytes"),
          nb::arg("body") = nb::bytes(""), nb::arg("owner_worker_path_id") = 0)
      .def_ro("identity", &BufferDescriptor::identity, "Names the buffer.")
      .def_prop_ro(
          "address_space", [](const BufferDescriptor& self) { return Member<AddressSpace>{self.address_space}; },
          "Whose memory it is.")
      .def_prop_ro(
          "access", [](const BufferDescriptor& self) { return Member<AccessMode>{self.access}; }, "What is granted.")
      .def_prop_ro(
          "backend_kind", [](const BufferDescriptor& self) { return Member<BackendKind>{self.backend_kind}; },
          "How a consumer reaches the bytes.")
      .def_ro("nbytes", &BufferDescriptor::nbytes, "Size in bytes.")
      .def_prop_ro(
          "body", [](const BufferDescriptor& self) { return nb::bytes(self.body.data(), self.body_len); },
          "Where the bytes are, as the kind says.")
      .def_ro("owner_worker_path_id", &BufferDescriptor::owner_worker_path_id, "For messages only.")
      .def(
          "__eq__",
          [](const BufferDescriptor& self, const BufferDescriptor& other) {
            return differing_fields(self, other).empty();
          },
          nb::is_operator(), nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__hash__", [](const BufferDescriptor& self) { return static_cast<Py_hash_t>(hash_of(self.identity) >> 2); })
      .def("__getstate__", [](const BufferDescriptor& self) { return record(self); })
      .def("__setstate__",
           [](BufferDescriptor* self, const nb::bytes& bytes) {
             const auto value = from_record<BufferDescriptor>(bytes, "BufferDescriptor");
             worker::raise_if_error(validate(value));
             new (self) BufferDescriptor(value);
           })
      .def("__repr__", [](const BufferDescriptor& self) {
        return fmt::format("BufferDescriptor({}, {} {}, {}, {} bytes)", to_string(self.identity),
                           name_of(self.address_space), name_of(self.access), name_of(self.backend_kind), self.nbytes);
      });
}

void bind_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", "A strided view of a buffer; carries no address and never changes.")
      .def(
          "__init__",
          [](Tensor* self, const BufferDescriptor& buffer, std::uint64_t byte_offset, const Dims& shapes,
             const Dims& strides, Like<DataType> dtype) {
            if (shapes.count != strides.count) {
              throw Error(invalid_argument(fmt::format("{} shapes and {} strides", shapes.count, strides.count)));
            }
            new (self) Tensor(worker::unwrap(make_tensor(buffer, to_extents(shapes, "shapes"), to_enum(dtype, "dtype"),
                                                         to_extents(strides, "strides"), byte_offset)));
          },
          nb::arg("buffer"), nb::arg("byte_offset"), nb::arg("shapes").none(), nb::arg("strides"),
          nb::arg("dtype").none())
      .def_ro("buffer", &Tensor::buffer, "The descriptor of the memory.")
      .def_ro("byte_offset", &Tensor::byte_offset, "Where the view begins.")
      .def_prop_ro(
          "shapes", [](const Tensor& self) { return numbers(self.shapes, self.ndims); },
          nb::sig("def shapes(self) -> tuple[int, ...]"), "Extents, outermost first.")
      .def_prop_ro(
          "strides", [](const Tensor& self) { return numbers(self.strides, self.ndims); },
          nb::sig("def strides(self) -> tuple[int, ...]"), "Steps between neighbours, in elements.")
      .def_ro("ndims", &Tensor::ndims, "Number of dimensions.")
      .def_prop_ro(
          "dtype", [](const Tensor& self) { return static_cast<int>(self.dtype); }, "Element type as a number.")
      .def(
          "nbytes", [](const Tensor& self) { return logical_bytes(self); }, "Return elements times element size.")
      .def(
          "__eq__",
          [](const Tensor& self, const Tensor& other) { return std::memcmp(&self, &other, sizeof self) == 0; },
          nb::is_operator(), nb::sig("def __eq__(self, arg: object, /) -> bool"))
      .def("__getstate__", [](const Tensor& self) { return record(self); })
      .def("__setstate__",
           [](Tensor* self, const nb::bytes& bytes) {
             const auto value = from_record<Tensor>(bytes, "Tensor");
             worker::raise_if_error(validate(value));
             new (self) Tensor(value);
           })
      .def("__repr__",
           [](const Tensor& self) {
             return fmt::format("Tensor({} {} of buffer {} at byte {})", name_of(self.dtype),
                                nb::cast<std::string>(nb::repr(numbers(self.shapes, self.ndims))),
                                to_string(self.buffer.identity), self.byte_offset);
           })
      .def("__hash__", [](const Tensor&) -> Py_hash_t { throw nb::type_error("unhashable type: 'Tensor'"); });
}

}  // namespace

void bind_values(nb::module_& module) {
  bind_identity(module);
  bind_descriptor(module);
  bind_tensor(module);
  module.def(
      "get_element_size", [](Like<DataType> dtype) { return element_size(to_enum(dtype, "dtype")); },
      nb::arg("dtype").none(), "Return the bytes of one element; a packed FP4 value takes one byte here.");
  module.def(
      "get_dtype_name", [](Like<DataType> dtype) { return std::string(name_of(to_enum(dtype, "dtype"))); },
      nb::arg("dtype").none(), "Return the name of an element type.");
  module.def(
      "arg_direction_name",
      [](Like<ArgDirection> direction) { return std::string(name_of(to_enum(direction, "direction"))); },
      nb::arg("direction"), "Return the name of a direction.");
  module.def(
      "environment",
      [] {
        nb::dict found;
        const Environment environment = Environment::capture();
        for (const VariableInfo& info : all_variables()) {
          if (const auto value = environment.text(info.variable)) {
            found[nb::str(info.name.data(), info.name.size())] = nb::str(value->c_str(), value->size());
          }
        }
        return found;
      },
      nb::sig("def environment() -> dict[str, str]"), "Return the variables of simpler that are set, by name.");
}

}  // namespace simpler::python
