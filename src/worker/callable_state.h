// What a CallableHandle points to: one registration in the worker's registry.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "callable/registry.h"
#include "simpler/callable.h"

namespace simpler {

// What a chip callable's signature says about its tensors; empty for every other kind.
struct TensorDirections {
  std::vector<ArgDirection> of;
  mutable std::atomic<bool> told{false};  // the mismatch of a tag was logged: once is enough
};

struct CallableHandle::State {
  callable::Handle entry;
  std::shared_ptr<const TensorDirections> tensors = {};
};

}  // namespace simpler
