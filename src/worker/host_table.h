// The functions that one host child can run, by callable index.
//
// Filled in the parent before the fork (a child inherits the copy) and in the child by registrations afterwards. Used
// by one thread at a time: the parent's under its registry lock, the child's serve loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/host_language.h"

namespace simpler::worker {

class HostTable {
 public:
  struct Entry {
    HostFunction function;
    std::string name;
  };

  void put(std::uint16_t index, std::string name, HostFunction function) {
    if (index >= entries_.size()) {
      entries_.resize(index + std::size_t{1});
    }
    entries_[index] = {std::move(function), std::move(name)};
  }
  void clear(std::uint16_t index) {
    if (index < entries_.size()) {
      entries_[index] = {};
    }
  }
  // Null when nothing is registered under the index.
  const Entry* find(std::uint16_t index) const {
    return index < entries_.size() && entries_[index].function ? &entries_[index] : nullptr;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace simpler::worker
