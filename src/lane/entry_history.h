// Which of the last 32 entries of an in-order lane succeeded: what an after-mask is checked against.
//
// Owned by the child end. Bit i of a mask names the entry i + 1 before the one that is asked about. An in-order child
// has finished every earlier entry when it looks, so one bit an entry is enough: 0 succeeded, 1 failed or skipped.
#pragma once

#include <cstdint>

namespace simpler::lane {

class EntryHistory {
 public:
  // True when an entry that the mask names failed or was skipped.
  bool blocks(uint32_t after_mask) const { return (unsuccessful_ & after_mask) != 0; }
  // False when the mask names an entry from before the first one.
  bool covers(uint32_t after_mask) const { return count_ >= 32 || (after_mask >> count_) == 0; }

  void record(bool succeeded) {
    unsuccessful_ = (unsuccessful_ << 1) | (succeeded ? 0U : 1U);
    if (count_ < 32) ++count_;
  }

 private:
  uint32_t unsuccessful_ = 0;
  uint32_t count_ = 0;  // entries recorded so far, at most 32
};

}  // namespace simpler::lane
