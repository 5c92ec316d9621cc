// The open scopes of one building run: which allocations each frame holds until it ends.
//
// Frame 0 is the run's own scope, opened and closed by the engine; user scopes lie above it. A frame holds allocations
// only; tasks need no scope, their slots come free when they are terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simpler/status.h"

namespace simpler::graph {

inline constexpr uint32_t kMaxScopeDepth = 64;

class ScopeStack {
 public:
  uint32_t depth() const { return static_cast<uint32_t>(starts_.size()); }  // 0 when no run builds
  bool balanced() const { return starts_.size() == 1; }

  Status begin() {
    if (starts_.size() == kMaxScopeDepth) {
      return failed_precondition("scope_begin at depth " + std::to_string(kMaxScopeDepth) +
                                 ": scopes nest at most that deep");
    }
    starts_.push_back(static_cast<uint32_t>(held_.size()));
    return Status::ok();
  }

  // Ends the innermost user scope; `release(allocation)` is called for each allocation it held.
  template <class Release>
  Status end(Release&& release) {
    if (starts_.size() < 2) return failed_precondition("scope_end without a matching scope_begin");
    pop(release);
    return Status::ok();
  }

  // Ends every scope, the run's own last.
  template <class Release>
  void end_all(Release&& release) {
    while (!starts_.empty()) pop(release);
  }

  void hold(uint32_t allocation) { held_.push_back(allocation); }
  uint32_t held() const { return static_cast<uint32_t>(held_.size()); }
  uint32_t held_innermost() const { return starts_.empty() ? 0 : held() - starts_.back(); }

 private:
  template <class Release>
  void pop(Release& release) {
    const uint32_t start = starts_.back();
    starts_.pop_back();
    while (held_.size() > start) {
      const uint32_t allocation = held_.back();
      held_.pop_back();
      release(allocation);
    }
  }

  std::vector<uint32_t> starts_;  // frame i holds held_[starts_[i] .. starts_[i + 1])
  std::vector<uint32_t> held_;
};

}  // namespace simpler::graph
