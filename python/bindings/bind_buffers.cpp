// Buffer and its views: memory of a worker as Python's buffer protocol and DLPack see it.
//
// Every exported view holds a reference to the Python object, which holds the mapping, so memory that somebody still
// looks at is never unmapped; release and close only refuse new views.
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "bindings/casters.h"
#include "bindings/errors.h"
#include "bindings/gil.h"
#include "worker/buffer_state.h"
#include "worker/raise.h"

namespace simpler::python {
namespace {

// The shared memory behind a host buffer, as scripts reach it: buffer.shm.buf.
struct SharedMemoryView {
  Buffer buffer;
};

// A typed window on host memory.
struct View {
  Buffer buffer;
  DataType dtype = DataType::kFloat32;
  Tensor tensor;
  bool writable = false;
  std::array<Py_ssize_t, kMaxTensorDims> shape{};
  std::array<Py_ssize_t, kMaxTensorDims> strides{};  // bytes

  std::byte* data() const { return buffer.data() + tensor.byte_offset; }
};

// The letter of the struct module, or null where it has none.
const char* format_of(DataType dtype) {
  constexpr std::array<const char*, kDataTypeCount> kFormats = {"f", "e", "i", "h", "b",     "B",     nullptr, "q",
                                                                "Q", "H", "I", "?", nullptr, nullptr, nullptr};
  return kFormats[static_cast<std::size_t>(dtype)];
}

std::optional<nb::dlpack::dtype> dlpack_of(DataType dtype) {
  constexpr std::uint8_t kInt = 0, kUint = 1, kFloat = 2, kBfloat = 4, kBool = 6, kFloat8E4M3FN = 10, kFloat8E8M0 = 14;
  const auto make = [&](std::uint8_t code) {
    return nb::dlpack::dtype{code, static_cast<std::uint8_t>(8 * element_size(dtype)), 1};
  };
  switch (dtype) {
    case DataType::kFloat32:
    case DataType::kFloat16:
      return make(kFloat);
    case DataType::kBfloat16:
      return make(kBfloat);
    case DataType::kBool:
      return make(kBool);
    case DataType::kInt8:
    case DataType::kInt16:
    case DataType::kInt32:
    case DataType::kInt64:
      return make(kInt);
    case DataType::kUint8:
    case DataType::kUint16:
    case DataType::kUint32:
    case DataType::kUint64:
      return make(kUint);
    case DataType::kFp8E4M3FN:
      return make(kFloat8E4M3FN);
    case DataType::kFp8E8M0:
      return make(kFloat8E8M0);
    case DataType::kFp4E2M1:
      return std::nullopt;
  }
  return std::nullopt;
}

void check_viewable(const Buffer& buffer) {
  if (buffer.data() == nullptr) {
    throw Error(wrong_type("this buffer is memory of a chip; copy_from brings its bytes into host memory"));
  }
  if (buffer.closed()) {
    throw Error(invalid_argument(worker::why_closed(buffer)));
  }
}

bool is_writable(const Buffer& buffer) {
  return can_write(buffer.descriptor().access);
}

int refuse(PyObject* exporter_error, const char* text, Py_buffer* view) {
  PyErr_SetString(exporter_error, text);
  view->obj = nullptr;
  return -1;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Buffer& buffer = *nb::inst_ptr<Buffer>(self);
  try {
    check_viewable(buffer);
  } catch (const Error& error) {
    view->obj = nullptr;
    set_error(error.status());
    return -1;
  }
  return PyBuffer_FillInfo(view, self, buffer.data(), static_cast<Py_ssize_t>(buffer.nbytes()),
                           is_writable(buffer) ? 0 : 1, flags);
}

int get_view_buffer(PyObject* self, Py_buffer* out, int flags) noexcept {
  View& view = *nb::inst_ptr<View>(self);
  const char* const format = format_of(view.dtype);
  if (format == nullptr) {
    return refuse(PyExc_BufferError,
                  "this element type has no letter in the buffer protocol; use DLPack, or a view of UINT16 or UINT8",
                  out);
  }
  if ((flags & PyBUF_WRITABLE) != 0 && !view.writable) {
    return refuse(PyExc_BufferError, "this memory is read-only", out);
  }
  if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
    return refuse(PyExc_BufferError, "a typed view is exported with its shape and strides only", out);
  }
  Py_INCREF(self);
  *out = {};
  out->obj = self;
  out->buf = view.data();
  out->itemsize = static_cast<Py_ssize_t>(element_size(view.dtype));
  out->len = static_cast<Py_ssize_t>(logical_bytes(view.tensor));
  out->readonly = view.writable ? 0 : 1;
  out->ndim = static_cast<int>(view.tensor.ndims);
  out->format = (flags & PyBUF_FORMAT) == PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
  out->shape = view.shape.data();
  out->strides = view.strides.data();
  return 0;
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_buffer)}, {0, nullptr}};
PyType_Slot view_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(&get_view_buffer)}, {0, nullptr}};

View make_view(const Buffer& buffer, const Dims& shape, const Like<DataType>& dtype, const std::optional<Dims>& strides,
               std::uint64_t byte_offset) {
  check_viewable(buffer);
  const DataType type = to_enum(dtype, "dtype");
  const Extents steps = strides ? to_extents(*strides, "strides") : Extents{};
  View view{.buffer = buffer,
            .dtype = type,
            .tensor = buffer.tensor(to_extents(shape, "shape"), type, steps, byte_offset),
            .writable = is_writable(buffer)};
  for (std::size_t i = 0; i < view.tensor.ndims; ++i) {
    view.shape[i] = static_cast<Py_ssize_t>(view.tensor.shapes[i]);
    view.strides[i] = static_cast<Py_ssize_t>(view.tensor.strides[i]) * static_cast<Py_ssize_t>(element_size(type));
  }
  return view;
}

nb::object dlpack_capsule(nb::handle self, const nb::kwargs& options) {
  View& view = *nb::inst_ptr<View>(self);
  const std::optional<nb::dlpack::dtype> type = dlpack_of(view.dtype);
  if (!type) {
    throw Error(unsupported(
        fmt::format("DLPack cannot express {} with one byte per element; view it as UINT8", name_of(view.dtype))));
  }
  std::array<std::size_t, kMaxTensorDims> shape{};
  std::array<std::int64_t, kMaxTensorDims> strides{};
  for (std::size_t i = 0; i < view.tensor.ndims; ++i) {
    shape[i] = view.tensor.shapes[i];
    strides[i] = view.tensor.strides[i];
  }
  const nb::ndarray<nb::array_api> array(view.data(), view.tensor.ndims, shape.data(), self, strides.data(), *type);
  return nb::cast(array).attr("__dlpack__")(**options);
}

void bind_view(nb::module_& module) {
  nb::class_<View>(module, "BufferView", nb::type_slots(view_slots), nb::is_weak_referenceable(),
                   "Typed window on a buffer, for the buffer protocol and DLPack; copies nothing.")
      .def_prop_ro(
          "shape",
          [](const View& self) {
            nb::list list;
            for (std::uint32_t i = 0; i < self.tensor.ndims; ++i) {
              list.append(self.tensor.shapes[i]);
            }
            return nb::tuple(list);
          },
          nb::sig("def shape(self) -> tuple[int, ...]"), "Extents, outermost first.")
      .def_prop_ro(
          "dtype", [](const View& self) { return Member<DataType>{self.dtype}; }, "Element type.")
      .def_prop_ro(
          "writable", [](const View& self) { return self.writable; }, "Whether the memory may be written.")
      .def(
          "__dlpack__", &dlpack_capsule, nb::arg("options"),
          nb::sig("def __dlpack__(self, *, stream: None = None, max_version: tuple[int, int] | None = None, dl_device: "
                  "tuple[int, int] | None = None, copy: bool | None = None) -> typing_extensions.CapsuleType"),
          "Export the memory as a DLPack capsule.")
      .def(
          "__dlpack_device__", [](const View&) { return nb::make_tuple(1, 0); },
          nb::sig("def __dlpack_device__(self) -> tuple[int, int]"), "Return (1, 0): memory of this host.");

  nb::class_<SharedMemoryView>(module, "SharedMemory", "The memory of a host buffer.")
      .def_prop_ro(
          "name", [](const SharedMemoryView& self) { return std::string(body_name(self.buffer.descriptor())); },
          "How other processes of this worker find it.")
      .def_prop_ro(
          "size", [](const SharedMemoryView& self) { return self.buffer.nbytes(); }, "Size in bytes.")
      .def_prop_ro(
          "buf",
          [](const SharedMemoryView& self) {
            PyObject* const view = PyMemoryView_FromObject(nb::cast(self.buffer).ptr());
            if (view == nullptr) {
              throw nb::python_error();
            }
            return nb::steal(view);
          },
          nb::sig("def buf(self) -> memoryview"), "The bytes; every access makes a new view.");
}

void bind_buffer_fields(nb::class_<Buffer>& type) {
  type.def_prop_ro(
          "identity", [](const Buffer& self) { return self.descriptor().identity; }, "Names the buffer everywhere.")
      .def_prop_ro(
          "address_space", [](const Buffer& self) { return Member<AddressSpace>{self.descriptor().address_space}; },
          "HOST or DEVICE.")
      .def_prop_ro(
          "access", [](const Buffer& self) { return Member<AccessMode>{self.descriptor().access}; },
          "What the memory grants.")
      .def_prop_ro(
          "backend_kind", [](const Buffer& self) { return Member<BackendKind>{self.descriptor().backend_kind}; },
          "How a consumer reaches the bytes.")
      .def_prop_ro("nbytes", &Buffer::nbytes, "Size in bytes.")
      .def_prop_ro(
          "body",
          [](const Buffer& self) { return nb::bytes(self.descriptor().body.data(), self.descriptor().body_len); },
          "Where the bytes are, as the kind says.")
      .def_prop_ro(
          "owner_worker_path_id", [](const Buffer& self) { return self.descriptor().owner_worker_path_id; },
          "For messages only.")
      .def_prop_ro(
          "owner_worker_id",
          [](const Buffer& self) -> std::optional<int> {
            return self.owner_worker_id() < 0 ? std::nullopt : std::optional<int>(self.owner_worker_id());
          },
          "The chip that holds the bytes; None for host memory.")
      .def_prop_ro(
          "base",
          [](const Buffer& self) {
            const std::uint64_t device = body_address(self.descriptor());
            return self.data() != nullptr ? reinterpret_cast<std::uint64_t>(self.data()) : device;
          },
          "Address of the first byte, here or on the chip.")
      .def_prop_ro("closed", &Buffer::closed, "Whether new views are refused.")
      .def_prop_ro(
          "shm",
          [](const Buffer& self) -> std::optional<SharedMemoryView> {
            return self.data() == nullptr ? std::nullopt : std::optional<SharedMemoryView>(SharedMemoryView{self});
          },
          "The memory as scripts view it; None for memory of a chip.");
}

}  // namespace

HostMemory memory_of(nb::handle object, bool need_write) {
  HostMemory memory;
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    auto held = std::make_unique<Py_buffer>();
    memory.writable = PyObject_GetBuffer(object.ptr(), held.get(), PyBUF_CONTIG) == 0;
    if (!memory.writable) {
      PyErr_Clear();
      if (need_write || PyObject_GetBuffer(object.ptr(), held.get(), PyBUF_CONTIG_RO) != 0) {
        PyErr_Clear();
        throw Error(invalid_argument(
            fmt::format("this {} gives no contiguous {}memory", kind_of(object), need_write ? "writable " : "")));
      }
    }
    memory.data = static_cast<std::byte*>(held->buf);
    memory.nbytes = static_cast<std::uint64_t>(held->len);
    memory.keep = std::shared_ptr<Py_buffer>(held.release(), [](Py_buffer* buffer) {
      with_lock([buffer] { PyBuffer_Release(buffer); });
      delete buffer;
    });
    return memory;
  }
  nb::ndarray<nb::device::cpu, nb::c_contig> array;
  if (nb::hasattr(object, "__dlpack__") && nb::try_cast(object, array)) {
    memory.data = static_cast<std::byte*>(array.data());
    memory.nbytes = array.nbytes();
    memory.writable = true;
    memory.keep = hold(object);
    return memory;
  }
  throw Error(wrong_type(
      fmt::format("host memory is a Buffer, an array, a bytearray or a ctypes array, not {}", kind_of(object))));
}

void bind_buffers(nb::module_& module) {
  bind_view(module);
  nb::class_<Buffer> buffer(module, "Buffer", nb::type_slots(buffer_slots), nb::is_weak_referenceable(),
                            nb::dynamic_attr(),
                            "Memory that tasks can name; made by a worker or inside a graph function.");
  bind_buffer_fields(buffer);
  buffer
      .def(
          "tensor",
          [](const Buffer& self, const Dims& shapes, Like<DataType> dtype, const std::optional<Dims>& strides,
             std::uint64_t byte_offset) {
            if (self.closed()) {
              throw Error(invalid_argument(worker::why_closed(self)));
            }
            const Extents steps = strides ? to_extents(*strides, "strides") : Extents{};
            return self.tensor(to_extents(shapes, "shapes"), to_enum(dtype, "dtype"), steps, byte_offset);
          },
          nb::arg("shapes").none(), nb::arg("dtype").none(), nb::arg("strides") = nb::none(),
          nb::arg("byte_offset") = 0, "Return a view for tasks: extents and strides in elements, row-major by default.")
      .def("view", &make_view, nb::arg("shape").none(), nb::arg("dtype").none(), nb::arg("strides") = nb::none(),
           nb::arg("byte_offset") = 0, "Return a typed window for arrays of other libraries, over the same memory.")
      .def(
          "numpy",
          [](nb::handle self, nb::handle shape, nb::handle dtype, std::uint64_t byte_offset) {
            return nb::module_::import_("simpler.interop").attr("buffer_to_numpy")(self, shape, dtype, byte_offset);
          },
          nb::arg("shape") = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("byte_offset") = 0,
          nb::sig("def numpy(self, shape: collections.abc.Sequence[int] | None = None, dtype: simpler._enums.DataType "
                  "| int | str | "
                  "None = None, byte_offset: int = 0) -> numpy.typing.NDArray[numpy.generic]"),
          "Return a numpy array over the same memory: float32, as long as it gets, by default.")
      .def("to_descriptor", &Buffer::descriptor, nb::rv_policy::copy, "Return what other processes are told.")
      .def("close", &Buffer::close, "Refuse new views from here on.")
      .def("__repr__", [](const Buffer& self) {
        return fmt::format("Buffer({}, {} bytes, {}{})", to_string(self.descriptor().identity), self.nbytes(),
                           self.owner_worker_id() < 0 ? "host" : fmt::format("chip {}", self.owner_worker_id()),
                           self.closed() ? ", closed" : "");
      });
}

}  // namespace simpler::python
