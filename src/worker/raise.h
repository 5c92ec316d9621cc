// From Status to the exception of the public API. Used by the facade only.
#pragma once

#include <utility>

#include "simpler/status.h"

namespace simpler::worker {

[[noreturn]] inline void raise(Status status) {
  throw Error(std::move(status));
}

inline void raise_if_error(Status status) {
  if (!status.is_ok()) {
    raise(std::move(status));
  }
}

template <class T>
T unwrap(Result<T> result) {
  if (!result.ok()) {
    raise(std::move(result).status());
  }
  return std::move(result).value();
}

}  // namespace simpler::worker
