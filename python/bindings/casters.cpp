#include "bindings/casters.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

namespace simpler::python {
namespace {

// FLOAT32 of "float32", "torch.float32" or a type object of that name.
std::string plain_name(nb::handle given) {
  nb::object text;
  if (PyUnicode_Check(given.ptr())) {
    text = nb::borrow(given);
  } else {
    for (const char* attribute : {"name", "__name__"}) {
      text = nb::getattr(given, attribute, nb::none());
      if (PyUnicode_Check(text.ptr())) {
        break;
      }
    }
    if (!PyUnicode_Check(text.ptr())) {
      text = nb::str(given);
    }
  }
  std::string name = nb::cast<std::string>(text);
  name.erase(0, name.rfind('.') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  return name;
}

// The text of simpler._advice about an argument that does not serve.
template <class... Args>
std::string advice(const char* about, const Args&... args) {
  return nb::cast<std::string>(nb::module_::import_("simpler._advice").attr(about)(args...));
}

Status not_a(nb::handle given, std::string_view what, std::string_view type, const nb::list& known) {
  const std::string text = advice("name", nb::str(type.data(), type.size()), given, known);
  return invalid_argument(fmt::format("{}={}", what, text));
}

}  // namespace

std::string kind_of(nb::handle thing) {
  return Py_TYPE(thing.ptr())->tp_name;
}

std::uint32_t enum_value(nb::handle given, std::string_view what, std::string_view type, std::uint32_t count,
                         std::string_view (*name)(std::uint32_t)) {
  if (PyLong_Check(given.ptr()) && !PyBool_Check(given.ptr())) {
    const long value = PyLong_AsLong(given.ptr());
    if (value == -1 && PyErr_Occurred() != nullptr) {
      PyErr_Clear();
    } else if (value >= 0 && value < static_cast<long>(count) && name(static_cast<std::uint32_t>(value)) != "unknown") {
      return static_cast<std::uint32_t>(value);
    }
    throw Error(not_a(given, what, type, {}));
  }
  if (given.is_none() || PyBool_Check(given.ptr()) || PyFloat_Check(given.ptr())) {
    throw Error(wrong_type(fmt::format("{}: a {} is needed, not {}", what, type, kind_of(given))));
  }
  const std::string wanted = plain_name(given);
  nb::list known;
  for (std::uint32_t value = 0; value < count; ++value) {
    const std::string_view candidate = name(value);
    if (candidate == wanted) {
      return value;
    }
    if (candidate != "unknown") {
      known.append(nb::str(candidate.data(), candidate.size()));
    }
  }
  throw Error(not_a(given, what, type, known));
}

nb::object enum_member(const char* type, std::uint32_t value) {
  return nb::module_::import_("simpler._enums").attr(type)(value);
}

bool read_dims(nb::handle source, Dims& dims) noexcept {
  PyObject* const fast = PyUnicode_Check(source.ptr()) ? nullptr : PySequence_Fast(source.ptr(), "");
  if (fast == nullptr) {
    PyErr_Clear();
    return false;
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
  dims.count = static_cast<std::size_t>(count);
  bool good = true;
  for (Py_ssize_t i = 0; good && i < std::min<Py_ssize_t>(count, Dims::kMost); ++i) {
    PyObject* const item = PySequence_Fast_GET_ITEM(fast, i);
    good = PyIndex_Check(item) != 0 && !PyBool_Check(item);
    if (good) {
      const Py_ssize_t value = PyNumber_AsSsize_t(item, nullptr);  // saturates
      good = !(value == -1 && PyErr_Occurred() != nullptr);
      dims.values[static_cast<std::size_t>(i)] = value;
    }
  }
  PyErr_Clear();
  Py_DECREF(fast);
  return good;
}

Extents to_extents(const Dims& dims, std::string_view what) {
  if (!dims.is_sequence) {
    throw Error(wrong_type(advice("dims", nb::str(what.data(), what.size()), dims.given)));
  }
  if (dims.count == 0 || dims.count > kMaxTensorDims) {
    throw Error(
        invalid_argument(fmt::format("{} has {} dimensions; tensors have 1 to {}", what, dims.count, kMaxTensorDims)));
  }
  Extents extents;
  extents.count = dims.count;
  for (std::size_t i = 0; i < dims.count; ++i) {
    if (dims.values[i] < 0 || dims.values[i] > std::int64_t{UINT32_MAX}) {
      throw Error(
          invalid_argument(fmt::format("{}[{}]={}: must be between 0 and {}", what, i, dims.values[i], UINT32_MAX)));
    }
    extents.values[i] = static_cast<std::uint32_t>(dims.values[i]);
  }
  return extents;
}

}  // namespace simpler::python
