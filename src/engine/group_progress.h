// Members of the groups that are not consumed: one slot, several dispatches, one completion.
#pragma once

#include <cstdint>
#include <vector>

#include "simpler/enums.h"

namespace simpler::engine {

struct GroupMember {
  uint32_t args = 0;  // place of the block in the arena
  uint16_t tensors = 0;
  uint16_t scalars = 0;
  uint16_t lane = 0;
  GroupMemberState state = GroupMemberState::kNotDispatched;
};

struct Group {
  std::vector<GroupMember> members;  // keeps its storage when the group is reused
  uint32_t unfinished = 0;
  bool failed = false;
};

class GroupTable {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  uint32_t take(uint32_t members) {
    uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else {
      index = static_cast<uint32_t>(groups_.size());
      groups_.emplace_back();
    }
    Group& group = groups_[index];
    group.members.assign(members, GroupMember{});
    group.unfinished = members;
    group.failed = false;
    return index;
  }
  void put_back(uint32_t index) { free_.push_back(index); }
  Group& operator[](uint32_t index) { return groups_[index]; }
  const Group& operator[](uint32_t index) const { return groups_[index]; }
  uint32_t live() const { return static_cast<uint32_t>(groups_.size() - free_.size()); }

 private:
  std::vector<Group> groups_;
  std::vector<uint32_t> free_;
};

}  // namespace simpler::engine
