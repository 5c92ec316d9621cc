// Spans of tasks under the names of their callables; nothing where the worker is not traced.
//
// Names are interned in the process that made the recorder only, so the parent numbers every callable: before the fork
// for those that are known then, and with the registration for later ones. Used by one thread at a time in each
// process.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/recorder.h"

namespace simpler::worker {

class TaskTrace {
 public:
  TaskTrace() = default;
  explicit TaskTrace(trace::Recorder* recorder) : recorder_(recorder) {}

  void put(std::uint16_t callable, trace::NameId name) {
    if (callable >= names_.size()) {
      names_.resize(callable + std::size_t{1});
    }
    names_[callable] = name;
  }
  // From here to the span's end, for one task of that callable.
  trace::Span span(std::uint16_t callable, std::uint32_t slot) const {
    return {recorder_, callable < names_.size() ? names_[callable] : trace::NameId{}, slot};
  }
  trace::Recorder* recorder() const { return recorder_; }

 private:
  trace::Recorder* recorder_ = nullptr;
  std::vector<trace::NameId> names_;
};

}  // namespace simpler::worker
