// The readable name of a C++ type, for messages about exceptions of user code.
#pragma once

#include <cstdlib>
#include <cxxabi.h>
#include <string>
#include <typeinfo>

namespace simpler::chip {

inline std::string type_name(const std::type_info& type) {
  int status = 0;
  char* readable = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string out = readable != nullptr ? readable : type.name();
  std::free(readable);
  return out;
}

}  // namespace simpler::chip
