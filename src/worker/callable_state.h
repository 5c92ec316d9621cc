// What a CallableHandle points to: one registration in the worker's registry.
#pragma once

#include "callable/registry.h"
#include "simpler/callable.h"

namespace simpler {

struct CallableHandle::State {
  callable::Handle entry;
};

}  // namespace simpler
