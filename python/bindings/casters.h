// How Python arguments reach C++ without losing a good error message.
//
// A caster that refuses makes nanobind raise a generic TypeError. These accept anything, keep what was given, and let
// the function say what is wrong with which value. The names are what the generated stubs show.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <nanobind/nanobind.h>

#include "simpler/dtype.h"
#include "simpler/enums.h"
#include "simpler/status.h"
#include "simpler/tensor.h"

namespace simpler::python {

namespace nb = nanobind;

// An instance of the bound class T, or null and what was given instead.
template <class T>
struct Expect {
  T* value = nullptr;
  nb::handle given;
};

// One value of an enumeration, given as member, number or name.
template <class E>
struct Like {
  nb::handle given;
};

// A value of an enumeration on its way out: becomes the member of the class in simpler._enums.
template <class E>
struct Member {
  E value;
};

// Extents or strides: a sequence of whole numbers.
struct Dims {
  static constexpr std::size_t kMost = 16;
  std::array<std::int64_t, kMost> values{};
  std::size_t count = 0;
  bool is_sequence = false;  // of numbers that fit 64 bits
  nb::handle given;
};

template <class E>
struct EnumInfo;
template <>
struct EnumInfo<DataType> {
  static constexpr char kName[] = "DataType";
  static constexpr std::uint32_t kCount = kDataTypeCount;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<DataType>(value)); }
};
template <>
struct EnumInfo<TensorArgType> {
  static constexpr char kName[] = "TensorArgType";
  static constexpr std::uint32_t kCount = 5;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<TensorArgType>(value)); }
};
template <>
struct EnumInfo<ArgDirection> {
  static constexpr char kName[] = "ArgDirection";
  static constexpr std::uint32_t kCount = 4;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<ArgDirection>(value)); }
};
template <>
struct EnumInfo<AddressSpace> {
  static constexpr char kName[] = "AddressSpace";
  static constexpr std::uint32_t kCount = 2;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<AddressSpace>(value)); }
};
template <>
struct EnumInfo<AccessMode> {
  static constexpr char kName[] = "AccessMode";
  static constexpr std::uint32_t kCount = 3;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<AccessMode>(value)); }
};
template <>
struct EnumInfo<BackendKind> {
  static constexpr char kName[] = "BackendKind";
  static constexpr std::uint32_t kCount = 6;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<BackendKind>(value)); }
};
template <>
struct EnumInfo<CallableKind> {
  static constexpr char kName[] = "CallableKind";
  static constexpr std::uint32_t kCount = 6;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<CallableKind>(value)); }
};
template <>
struct EnumInfo<TargetNamespace> {
  static constexpr char kName[] = "TargetNamespace";
  static constexpr std::uint32_t kCount = 4;
  static std::string_view name(std::uint32_t value) { return name_of(static_cast<TargetNamespace>(value)); }
};

// The number behind a member, number or name; a type object or dtype of another library counts by its name. Throws
// Error(kInvalidArgument) or Error(kWrongType) that names `what`.
std::uint32_t enum_value(nb::handle given, std::string_view what, std::string_view type, std::uint32_t count,
                         std::string_view (*name)(std::uint32_t));

template <class E>
E to_enum(const Like<E>& like, std::string_view what) {
  using Info = EnumInfo<E>;
  return static_cast<E>(enum_value(like.given, what, Info::kName, Info::kCount, &Info::name));
}

nb::object enum_member(const char* type, std::uint32_t value);

// Up to five extents of 0 to 2^32 - 1. Throws Error naming `what`.
struct Extents {
  std::array<std::uint32_t, kMaxTensorDims> values{};
  std::size_t count = 0;
  operator std::span<const std::uint32_t>() const {
    return {values.data(), count};
  }  // NOLINT(google-explicit-constructor)
};
Extents to_extents(const Dims& dims, std::string_view what);

// What a thing is called in a message: its type's name.
std::string kind_of(nb::handle thing);

bool read_dims(nb::handle source, Dims& dims) noexcept;

}  // namespace simpler::python

namespace nanobind::detail {

template <class T>
struct type_caster<simpler::python::Expect<T>> {
  NB_TYPE_CASTER(simpler::python::Expect<T>, make_caster<T>::Name)
  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    value.given = source;
    make_caster<T> caster;
    if (!source.is_none() && caster.from_python(source, flags, cleanup)) {
      value.value = caster.operator T*();
    }
    return true;
  }
};

template <class E>
struct type_caster<simpler::python::Like<E>> {
  NB_TYPE_CASTER(simpler::python::Like<E>, const_name("simpler._enums.") +
                                               const_name(simpler::python::EnumInfo<E>::kName) +
                                               const_name(" | int | str"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.given = source;
    return true;
  }
};

template <class E>
struct type_caster<simpler::python::Member<E>> {
  NB_TYPE_CASTER(simpler::python::Member<E>,
                 const_name("simpler._enums.") + const_name(simpler::python::EnumInfo<E>::kName))
  static handle from_cpp(const simpler::python::Member<E>& member, rv_policy, cleanup_list*) noexcept {
    try {
      return simpler::python::enum_member(simpler::python::EnumInfo<E>::kName, static_cast<std::uint32_t>(member.value))
          .release();
    } catch (python_error& error) {
      error.restore();
      return {};
    }
  }
};

template <>
struct type_caster<simpler::python::Dims> {
  NB_TYPE_CASTER(simpler::python::Dims, const_name("collections.abc.Sequence[int]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value.is_sequence = simpler::python::read_dims(source, value);
    value.given = source;
    return true;
  }
};

}  // namespace nanobind::detail
