// What a worker can run: chip callables and their kernels, the ready-made kernels, the compiler, and handles.
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "base/environment.h"
#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "compile/compile.h"
#include "kernels/kernel_list.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
  return std::as_bytes(std::span(static_cast<const char*>(bytes.data()), bytes.size()));
}

nb::bytes to_bytes(std::span<const std::byte> bytes) {
  return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::vector<ArgDirection> signature_of(nb::handle given) {
  std::vector<ArgDirection> signature;
  for (const nb::handle entry : given) {
    signature.push_back(to_enum(Like<ArgDirection>{entry}, fmt::format("signature[{}]", signature.size())));
  }
  return signature;
}

std::vector<ChipChild> children_of(nb::handle given) {
  std::vector<ChipChild> children;
  for (const nb::handle entry : given) {
    std::pair<std::uint32_t, const CoreCallable*> child{0, nullptr};
    const bool good = PySequence_Check(entry.ptr()) != 0 && nb::len(entry) == 2 &&
                      nb::try_cast(entry[0], child.first) && nb::isinstance<CoreCallable>(entry[1]);
    if (!good) {
      throw Error(wrong_type(
          fmt::format("children[{}]: a pair (func_id, CoreCallable) is needed, such as (0, simpler.kernels.add)",
                      children.size())));
    }
    children.push_back({child.first, *nb::inst_ptr<CoreCallable>(entry[1])});
  }
  return children;
}

constexpr const char* kSignature = "signature";

void bind_core_callable(nb::module_& module) {
  nb::class_<CoreCallable>(module, "CoreCallable", "One kernel: its signature and its code.")
      .def_static(
          "build",
          [](nb::handle signature, const nb::bytes& binary) {
            return CoreCallable::build(signature_of(signature), bytes_of(binary));
          },
          nb::arg(kSignature), nb::arg("binary"),
          nb::sig("def build(signature: collections.abc.Iterable[simpler._enums.ArgDirection | int | str], binary: "
                  "bytes) -> CoreCallable"),
          "Make a kernel of a shared object that exports kernel_entry.")
      .def(
          "sig", [](const CoreCallable& self, std::uint32_t i) { return Member<ArgDirection>{self.sig(i)}; },
          nb::arg("i"), "Return the direction of one argument.")
      .def_prop_ro("sig_count", &CoreCallable::sig_count, "Number of arguments in the signature.")
      .def_prop_ro("binary_size", &CoreCallable::binary_size, "Bytes of code.")
      .def_prop_ro(
          "builtin",
          [](const CoreCallable& self) -> std::optional<std::string> {
            return self.kind() == CodeKind::kBuiltin ? std::optional(self.builtin_name().name) : std::nullopt;
          },
          "Name of a ready-made kernel; None for compiled code.")
      .def(
          "buffer_ptr", [](const CoreCallable& self) { return reinterpret_cast<std::uint64_t>(self.buffer_ptr()); },
          "Return the address of the record.")
      .def("buffer_size", &CoreCallable::buffer_size, "Return the bytes of the record.")
      .def(
          "to_bytes", [](const CoreCallable& self) { return to_bytes(self.bytes()); }, "Return the record.")
      .def("__repr__", [](const CoreCallable& self) {
        return self.kind() == CodeKind::kBuiltin
                   ? fmt::format("CoreCallable({}, version {})", self.builtin_name().name, self.builtin_name().version)
                   : fmt::format("CoreCallable({} arguments, {} bytes)", self.sig_count(), self.binary_size());
      });
}

void bind_chip_callable(nb::module_& module) {
  nb::class_<ChipCallable>(module, "ChipCallable", nb::is_weak_referenceable(),
                           "An orchestration with its kernels: what a chip runs.")
      .def_static(
          "build",
          [](nb::handle signature, std::string_view func_name, const nb::bytes& binary, nb::handle children,
             std::string_view config_name) {
            return ChipCallable::build(signature_of(signature), func_name, bytes_of(binary), children_of(children),
                                       config_name);
          },
          nb::arg(kSignature), nb::arg("func_name"), nb::arg("binary"), nb::arg("children") = nb::make_tuple(),
          nb::arg("config_name") = "",
          nb::sig("def build(signature: collections.abc.Iterable[simpler._enums.ArgDirection | int | str], func_name: "
                  "str, binary: bytes, children: collections.abc.Iterable[tuple[int, CoreCallable]] = (), config_name: "
                  "str = '') -> ChipCallable"),
          "Make a callable of a shared object that exports the orchestration `func_name`.")
      .def_static(
          "from_bytes", [](const nb::bytes& raw) { return ChipCallable::from_bytes(bytes_of(raw)); }, nb::arg("raw"),
          "Read a callable back from its bytes, checking all of them.")
      .def(
          "sig", [](const ChipCallable& self, std::uint32_t i) { return Member<ArgDirection>{self.sig(i)}; },
          nb::arg("i"), "Return the direction of one argument.")
      .def_prop_ro("sig_count", &ChipCallable::sig_count, "Number of arguments in the signature.")
      .def_prop_ro("binary_size", &ChipCallable::binary_size, "Bytes of the orchestration's code.")
      .def_prop_ro(
          "func_name", [](const ChipCallable& self) { return std::string(self.func_name()); },
          "Exported name of the orchestration.")
      .def_prop_ro(
          "config_name", [](const ChipCallable& self) { return std::string(self.config_name()); },
          "Exported name of its config function; empty when it has none.")
      .def_prop_ro("child_count", &ChipCallable::child_count, "Number of kernels.")
      .def("child_func_id", &ChipCallable::child_func_id, nb::arg("i"), "Return the number of one kernel.")
      .def("child_offset", &ChipCallable::child_offset, nb::arg("i"), "Return where one kernel's record begins.")
      .def("child", &ChipCallable::child, nb::arg("i"), "Return one kernel.")
      .def(
          "buffer_ptr", [](const ChipCallable& self) { return reinterpret_cast<std::uint64_t>(self.buffer_ptr()); },
          "Return the address of the record.")
      .def("buffer_size", &ChipCallable::buffer_size, "Return the bytes of the record.")
      .def(
          "to_bytes", [](const ChipCallable& self) { return to_bytes(self.bytes()); }, "Return the record.")
      .def("__getstate__", [](const ChipCallable& self) { return to_bytes(self.bytes()); })
      .def("__setstate__",
           [](ChipCallable* self, const nb::bytes& raw) {
             new (self) ChipCallable(ChipCallable::from_bytes(bytes_of(raw)));
           })
      .def("__repr__", [](const ChipCallable& self) {
        return fmt::format("ChipCallable({}, {} arguments, {} kernels)", self.func_name(), self.sig_count(),
                           self.child_count());
      });
}

void bind_handle(nb::module_& module) {
  nb::class_<CallableHandle>(module, "CallableHandle", nb::is_weak_referenceable(), nb::dynamic_attr(),
                             "Names a registered callable; only Worker.register makes one.")
      .def_prop_ro(
          "hashid", [](const CallableHandle& self) { return std::string(self.hashid()); },
          "\"sha256:\" and 64 hexadecimal digits: what would run.")
      .def_prop_ro(
          "digest",
          [](const CallableHandle& self) {
            const std::string digits(self.hashid().substr(7));
            return nb::module_::import_("builtins").attr("bytes").attr("fromhex")(digits);
          },
          nb::sig("def digest(self) -> bytes"), "The 32 bytes of the hash.")
      .def_prop_ro(
          "kind", [](const CallableHandle& self) { return Member<CallableKind>{self.kind()}; }, "What it is.")
      .def_prop_ro(
          "target_namespace",
          [](const CallableHandle& self) { return Member<TargetNamespace>{self.target_namespace()}; },
          "Which children can run it.")
      .def_prop_ro(
          "name", [](const CallableHandle& self) { return std::string(self.name()); }, "For people.")
      .def("__repr__", [](const CallableHandle& self) {
        return fmt::format("CallableHandle({}, {}, {})", self.name(), name_of(self.kind()),
                           self.hashid().substr(0, 15));
      });
}

CoreCallable builtin_kernel(const std::string& name, std::uint32_t version) {
  const kernels::KernelSpec& spec = *worker::unwrap(kernels::find_kernel(name, version));
  std::vector<ArgDirection> signature;
  for (const kernels::TensorSpec& tensor : spec.tensors) {
    signature.push_back(tensor.direction == kernels::Direction::kOut ? ArgDirection::kOut : ArgDirection::kIn);
  }
  signature.insert(signature.end(), spec.scalars.size(), ArgDirection::kScalar);
  return CoreCallable::builtin(signature, {std::string(spec.name), spec.version});
}

void bind_kernels(nb::module_& module) {
  module.def("builtin_kernel", &builtin_kernel, nb::arg("name"), nb::arg("version") = 0,
             "Return a ready-made kernel; version 0 is the newest.");
  module.def(
      "builtin_kernels",
      [] {
        nb::list all;
        for (const kernels::KernelSpec& spec : kernels::kernel_list()) {
          const auto text = [](std::string_view view) { return nb::str(view.data(), view.size()); };
          nb::list tensors;
          for (const kernels::TensorSpec& tensor : spec.tensors) {
            tensors.append(text(tensor.name));
          }
          nb::list scalars;
          for (const kernels::ScalarSpec& scalar : spec.scalars) {
            scalars.append(text(scalar.name));
          }
          all.append(nb::make_tuple(text(spec.name), spec.version, nb::tuple(tensors), nb::tuple(scalars),
                                    text(spec.summary)));
        }
        return all;
      },
      nb::sig("def builtin_kernels() -> list[tuple[str, int, tuple[str, ...], tuple[str, ...], str]]"),
      "Return name, version, tensor names, scalar names and meaning of every ready-made kernel.");
}

void bind_compile(nb::module_& module) {
  module.def(
      "compile_shared",
      [](bool orchestration, const std::string& name, const std::string& path, const std::string& text,
         const std::string& entry, const std::vector<std::string>& include_dirs, const std::vector<std::string>& flags,
         const std::string& headers, const std::string& compiler, bool use_cache) {
        const compile::CompileRequest request{
            .name = name,
            .kind = orchestration ? compile::SourceKind::kOrchestration : compile::SourceKind::kKernel,
            .source_path = path,
            .source_text = text,
            .include_dirs = include_dirs,
            .flags = flags,
            .entry_symbol = entry};
        const Environment environment = Environment::capture();
        compile::SharedObject made;
        {
          const nb::gil_scoped_release unlocked;
          const compile::CompilerOptions options{
              .compiler = compiler, .public_include_dir = headers, .use_cache = use_cache};
          const auto built = worker::unwrap(compile::Compiler::create(options, environment));
          made = worker::unwrap(built.compile_shared(request));
        }
        return nb::bytes(reinterpret_cast<const char*>(made.bytes.data()), made.bytes.size());
      },
      nb::kw_only(), nb::arg("orchestration"), nb::arg("name"), nb::arg("path"), nb::arg("text"), nb::arg("entry"),
      nb::arg("include_dirs"), nb::arg("flags"), nb::arg("headers"), nb::arg("compiler"), nb::arg("use_cache"),
      "Return the shared object that a source compiles to, from the cache if it can be.");
}

void bind_chip_arguments(nb::module_& module) {
  nb::class_<ChipTensor>(module, "ChipTensor", "A tensor as a chip takes it: geometry over an address.")
      .def(nb::init<>())
      .def_static(
          "make",
          [](std::uint64_t data, const Dims& shapes, Like<DataType> dtype, bool child_memory) {
            return ChipTensor::make(data, to_extents(shapes, "shapes"), to_enum(dtype, "dtype"), child_memory);
          },
          nb::arg("data"), nb::arg("shapes").none(), nb::arg("dtype").none(), nb::arg("child_memory") = false,
          "Make a row-major tensor over `data`.")
      .def_rw("data", &ChipTensor::addr, "Address of the first byte.")
      .def_prop_ro(
          "shapes",
          [](const ChipTensor& self) {
            return std::vector<std::uint32_t>(self.shapes.begin(), self.shapes.begin() + self.ndims);
          },
          "Extents, outermost first.")
      .def_prop_ro(
          "strides",
          [](const ChipTensor& self) {
            return std::vector<std::uint32_t>(self.strides.begin(), self.strides.begin() + self.ndims);
          },
          "Steps between neighbours, in elements.")
      .def_ro("ndims", &ChipTensor::ndims, "Number of dimensions.")
      .def_prop_ro(
          "dtype", [](const ChipTensor& self) { return static_cast<int>(self.dtype); }, "Element type as a number.")
      .def_prop_ro("child_memory", &ChipTensor::child_memory, "Whether the address is on the chip.")
      .def_ro("start_offset", &ChipTensor::start_offset, "Elements before the view.")
      .def_prop_ro("is_contiguous", &ChipTensor::is_contiguous, "Whether it is row-major without gaps.")
      .def("nbytes", &ChipTensor::nbytes, "Return elements times element size.");

  nb::class_<ChipStorageTaskArgs>(module, "ChipStorageTaskArgs", "The argument block of a chip run as one record.")
      .def("__init__", [](ChipStorageTaskArgs* self) { new (self) ChipStorageTaskArgs{}; })
      .def(
          "add_tensor",
          [](ChipStorageTaskArgs& self, const ChipTensor& tensor) {
            if (self.scalar_count != 0) {
              throw Error(failed_precondition("add_tensor after a scalar: tensors come first, then scalars"));
            }
            if (self.tensor_count == self.tensors.size()) {
              throw Error(failed_precondition(fmt::format("add_tensor: a chip takes {} tensors", self.tensors.size())));
            }
            self.tensors[self.tensor_count++] = tensor;
          },
          nb::arg("t"), "Append a tensor.")
      .def(
          "add_scalar",
          [](ChipStorageTaskArgs& self, std::uint64_t scalar) {
            if (self.scalar_count == self.scalars.size()) {
              throw Error(failed_precondition(fmt::format("add_scalar: a chip takes {} scalars", self.scalars.size())));
            }
            self.scalars[self.scalar_count++] = scalar;
          },
          nb::arg("s"), "Append 64 bits.")
      .def(
          "tensor",
          [](const ChipStorageTaskArgs& self, std::uint32_t i) {
            if (i >= self.tensor_count) {
              throw Error(out_of_range(fmt::format("tensor {}: these arguments have {}", i, self.tensor_count)));
            }
            return self.tensors[i];
          },
          nb::arg("i"), "Return one tensor.")
      .def(
          "scalar",
          [](const ChipStorageTaskArgs& self, std::uint32_t i) {
            if (i >= self.scalar_count) {
              throw Error(out_of_range(fmt::format("scalar {}: these arguments have {}", i, self.scalar_count)));
            }
            return self.scalars[i];
          },
          nb::arg("i"), "Return one scalar.")
      .def(
          "tensor_count", [](const ChipStorageTaskArgs& self) { return self.tensor_count; },
          "Return how many tensors there are.")
      .def(
          "scalar_count", [](const ChipStorageTaskArgs& self) { return self.scalar_count; },
          "Return how many scalars there are.")
      .def(
          "clear", [](ChipStorageTaskArgs& self) { self = {}; }, "Forget everything.")
      .def("__len__", [](const ChipStorageTaskArgs& self) { return self.tensor_count + self.scalar_count; })
      .def(
          "__ptr__", [](const ChipStorageTaskArgs& self) { return reinterpret_cast<std::uint64_t>(&self); },
          "Return the address of the record.")
      .def_static(
          "sizeof", [] { return sizeof(ChipStorageTaskArgs); }, "Return the bytes of the record.");
}

}  // namespace

void bind_callables(nb::module_& module) {
  bind_core_callable(module);
  bind_chip_callable(module);
  bind_handle(module);
  bind_kernels(module);
  bind_compile(module);
  bind_chip_arguments(module);
}

}  // namespace simpler::python
